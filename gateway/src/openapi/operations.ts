import { DIGEST_HEADERS } from '@stevedore/middleware/core';
import type { FastifySchema } from 'fastify';
import {
  always,
  bytes,
  conditions,
  downloadQuery,
  fastdfsQuery,
  file,
  fileId,
  json,
  key,
  keyAndName,
  open,
  problems,
  type Schema,
  text,
  withKey,
  withKeyOrSignature,
} from './parts.js';

/**
 * What each route does, for the description of the API. HEAD is GET without the body. Schemas of
 * requests describe and do not check: the routes do that themselves, with the errors of the
 * reference.
 */

/** If the path does not name the operation. */
export const POLICY_UPLOAD = 'POST /uploads/:policy';

function download(
  operationId: string,
  summary: string,
  params: Schema,
  query: Schema = downloadQuery,
  security = withKeyOrSignature,
) {
  return {
    operationId,
    summary,
    tags: ['files'],
    security,
    params,
    querystring: query,
    headers: conditions,
    response: { ...file, ...problems },
  };
}

const presignedQuery = {
  type: 'object',
  properties: Object.fromEntries(
    ['expires', 'signature', 'max-bytes', 'type', 'group', 'ttl', 'nonce'].map((name) => [
      name,
      { ...text, description: 'of a presigned URL' },
    ]),
  ),
};
const checksums = Object.fromEntries(
  DIGEST_HEADERS.map((name) => [name, { ...text, description: 'verified before the 201' }]),
);

function upload(operationId: string, summary: string) {
  return {
    operationId,
    summary,
    description:
      'A raw body is one file. The files of a form are stored all or none; they are one affinity ' +
      'group unless the field `group` names another.',
    tags: ['files'],
    security: withKeyOrSignature,
    querystring: presignedQuery,
    headers: {
      type: 'object',
      properties: {
        'x-filename': { ...text, description: 'name of a raw body, percent-encoded UTF-8' },
        'content-disposition': { ...text, description: 'name of a raw body, without X-Filename' },
        'x-affinity-group': { ...text, description: 'files of a group are stored side by side' },
        'x-expires-at': { ...text, description: 'or the date at which it ends, ISO 8601' },
        'x-expires-in': { ...text, pattern: '^[1-9][0-9]{0,8}$', description: 'seconds to live' },
        'idempotency-key': {
          ...text,
          pattern: '^[\\x21-\\x7e]{1,255}$',
          description: 'sent again within a day, with the same files, it stores nothing',
        },
        ...checksums,
      },
    },
    body: {
      content: {
        'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
        'multipart/form-data': {
          schema: {
            type: 'object',
            properties: { file: { type: 'string', format: 'binary' }, group: text },
            required: ['file'],
          },
        },
      },
    },
    response: {
      201: json(
        'acknowledged: safe on the disk',
        {
          anyOf: [{ $ref: 'Receipt#' }, { type: 'array', items: { $ref: 'Receipt#' } }],
        },
        {
          'X-Content-Type-Options': text,
          Location: { ...text, description: 'of a single file' },
          'Idempotency-Replayed': { ...text, description: '`true`: stored before, not again' },
        },
      ),
      ...problems,
    },
  };
}

const ready = {
  200: json('files can be stored durably and a tracker answers', { $ref: 'Readiness#' }),
  503: json('they cannot', { $ref: 'Readiness#' }),
};
/** Without `id` and `once`: selects the files of a listing. */
const listQuery = Object.fromEntries(
  [
    ['group', 'affinity group'],
    ['name-prefix', 'what the name begins with'],
    ['type', '`image/png`, or `image/*`'],
    ['since', 'whose upload began at this time or later, ISO 8601'],
    ['until', 'whose upload began before this time, ISO 8601'],
    ['min-size', 'bytes at least'],
    ['max-size', 'bytes at most'],
    ['after', '`next` of the page before'],
    ['limit', 'most files of the page, 1 to 10,000'],
    ['only-here', '`true`: only files of this server, none of others in the deployment'],
  ].map(([name, description]) => [name, { ...text, description }]),
);
const nothing = { description: 'no body', headers: always, type: 'null' };

const registered = { ...text, description: 'without a body: give this file of FastDFS a key' };

const known = json(
  'the file; with `once` all files of the upload, or none; with neither a page of files',
  {
    anyOf: [
      { $ref: 'Receipt#' },
      { type: 'array', items: { $ref: 'Receipt#' } },
      { $ref: 'Page#' },
    ],
  },
  {
    'Content-Disposition': { ...text, description: 'with format=zip' },
    'X-Content-Type-Options': text,
  },
);
const found = {
  ...known,
  content: { ...(known.content as Schema), 'application/zip': bytes['*/*'] },
};

function forConsole(operationId: string, summary: string, properties?: Schema) {
  return {
    operationId,
    summary,
    description: 'For the console of the same version; it may change with it.',
    tags: ['watching'],
    security: withKey,
    ...(properties && { querystring: { type: 'object', properties } }),
    response: {
      200: json('the figures', { type: 'object', additionalProperties: true }),
      ...problems,
    },
  };
}

const described: Readonly<Record<string, FastifySchema & Schema>> = {
  'POST /files': {
    ...upload('upload', 'Store files'),
    querystring: { type: 'object', properties: { id: registered } },
  },
  [POLICY_UPLOAD]: upload('uploadUnderPolicy', 'Store files under a policy'),
  'GET /files': {
    operationId: 'find',
    summary: 'What is known of a file by either id, or of the files of a marked upload',
    tags: ['files'],
    security: withKey,
    querystring: {
      type: 'object',
      properties: {
        id: { ...text, description: 'a key or a FastDFS id' },
        once: {
          ...text,
          pattern: '^[A-Za-z0-9_-]{22}$',
          description: 'in place of an id: of an upload whose Idempotency-Key was `once-` and this',
        },
        'within-ms': {
          ...text,
          pattern: '^[0-9]{1,15}$',
          description: 'uploads no older than that',
        },
        ...listQuery,
        format: { ...text, enum: ['json', 'zip'], description: 'of a listing; zip: all its files' },
      },
    },
    response: { 200: found, ...problems },
  },
  'DELETE /files': {
    operationId: 'removeByEither',
    summary: 'Delete a file by its key or its FastDFS id, or a page of the files of a group',
    tags: ['files'],
    security: withKey,
    querystring: {
      type: 'object',
      properties: { id: { ...text, description: 'a key or a FastDFS id' }, ...listQuery },
    },
    response: {
      200: json(
        'with a group: how many files were deleted, and where to go on if there may be more',
        { $ref: 'Deleted#' },
        { 'X-Content-Type-Options': text },
      ),
      204: nothing,
      ...problems,
    },
  },
  'GET /files/:key': download('download', 'A file by its key', key),
  'GET /files/:key/:filename': download('downloadNamed', 'A file by its key', keyAndName),
  'GET /:group/*': download('downloadById', 'A file by its FastDFS id', fileId, fastdfsQuery, open),
  'GET /files/:key/info': {
    operationId: 'info',
    summary: 'What is known of a file',
    tags: ['files'],
    security: withKey,
    params: key,
    response: {
      200: json('the file', { $ref: 'Receipt#' }, { 'X-Content-Type-Options': text }),
      ...problems,
    },
  },
  'DELETE /files/:key': {
    operationId: 'remove',
    summary: 'Delete a file',
    tags: ['files'],
    security: withKey,
    params: key,
    response: { 204: nothing, ...problems },
  },
  'DELETE /:group/*': {
    operationId: 'removeById',
    summary: 'Delete a file by its FastDFS id',
    tags: ['files'],
    security: withKey,
    params: fileId,
    response: { 204: nothing, ...problems },
  },
  'GET /health/live': {
    operationId: 'live',
    summary: 'Whether the process answers',
    tags: ['watching'],
    security: open,
    response: { 200: json('it does', { $ref: 'Liveness#' }) },
  },
  'GET /health/ready': {
    operationId: 'ready',
    summary: 'Whether files can be stored durably',
    tags: ['watching'],
    security: open,
    response: ready,
  },
  'GET /metrics': {
    operationId: 'metrics',
    summary: 'Figures for Prometheus',
    tags: ['watching'],
    security: withKey,
    response: {
      200: {
        description: 'the figures',
        headers: always,
        content: { 'text/plain': { schema: text } },
      },
      ...problems,
    },
  },
  'GET /console/state': forConsole('state', 'What the web console shows'),
  'GET /console/history': forConsole('history', 'The figures of the last hour or day', {
    span: { ...text, enum: ['hour', 'day'], description: 'default hour' },
  }),
  'GET /console/file': forConsole('locate', 'Where the bytes of a file are', {
    id: { ...text, description: 'a key or a FastDFS id' },
  }),
  'GET /console/access': forConsole(
    'access',
    'API keys, without their secrets, and policies; needs the scope `admin`',
  ),
};

/** HEAD has the headers of GET; its `operationId` ends with `-head`. */
function headOf({ summary, response, ...rest }: Schema): FastifySchema & Schema {
  const answers = Object.entries(response as Readonly<Record<string, Schema>>);
  const heads = answers.map(([status, { description, headers }]) => [
    status,
    { description, headers, type: 'null' },
  ]);
  return {
    ...rest,
    summary: `${summary}: the head alone`,
    response: Object.fromEntries(heads),
  };
}

export const operations: Readonly<Record<string, FastifySchema & Schema>> = {
  ...described,
  ...Object.fromEntries(
    Object.entries(described)
      .filter(([name]) => name.startsWith('GET '))
      .map(([name, operation]) => [name.replace('GET', 'HEAD'), headOf(operation)]),
  ),
};
