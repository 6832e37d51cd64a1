import { DIGEST_HEADERS } from '@stevedore/middleware/core';
import type { FastifySchema } from 'fastify';

/**
 * What each route does, for the description of the API. HEAD is GET without the body. Schemas of
 * requests describe and do not check: the routes do that themselves, with the errors of the
 * reference.
 */

type Schema = Readonly<Record<string, unknown>>;
type Operation = FastifySchema & Schema;
type Security = readonly { readonly [scheme: string]: readonly string[] }[];

const text = { type: 'string' };

/** A parameter or header, said in words. */
function say(description: string, more: Schema = {}): Schema {
  return { ...text, ...more, description };
}

/** Parameters or headers by name; a text alone describes one. */
function fields(all: Readonly<Record<string, string | Schema>>, ...required: string[]) {
  const properties: Record<string, Schema> = {};
  for (const [name, each] of Object.entries(all)) {
    properties[name] = typeof each === 'string' ? say(each) : each;
  }
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}

const ID = 'a key or a FastDFS id';
const key = say('as an upload answered it', { pattern: '^[A-Za-z0-9_-]{21}[AQgw]$' });
const byKey = fields({ key }, 'key');
const byKeyAndName = fields(
  { key, filename: say('for people: the key alone finds the file', { minLength: 1 }) },
  'key',
  'filename',
);
const byFileId = fields(
  {
    group: { ...text, pattern: '^[A-Za-z0-9]{1,16}$' },
    '*': 'the rest of the FastDFS id: `M00/3F/A2/…jpg`',
  },
  'group',
  '*',
);
/** Without `id` and `once`: selects the files of a listing. */
const listing = {
  group: 'affinity group',
  'name-prefix': 'what the name begins with',
  'name-contains': 'part of the name, in any case',
  type: '`image/png`, or `image/*`',
  since: 'whose upload began at this time or later, RFC 3339',
  until: 'whose upload began before this time, RFC 3339',
  'min-size': 'bytes at least',
  'max-size': 'bytes at most',
  order: say('which files come first; default oldest', { enum: ['oldest', 'newest'] }),
  after: '`next` of the page before, in the same order',
  limit: 'most files of the page, 1 to 10,000',
  derived: '`true`: derived files too, such as pictures in other sizes',
  'only-here': '`true`: only files of this server, none of others in the deployment',
};
const groupListing = {
  'name-contains': 'part of the name, in any case',
  after: '`next` of the page before',
  limit: 'most groups of the page, 1 to 10,000',
  'only-here': '`true`: only groups of this server, none of others in the deployment',
};
const presigned = fields({
  expires: 'of a presigned URL',
  signature: 'of a presigned URL',
  'max-bytes': 'of a presigned URL',
  type: 'of a presigned URL',
  group: 'of a presigned URL',
  ttl: 'of a presigned URL',
  nonce: 'of a presigned URL',
});

const open: Security = [];
const withKey: Security = [{}, { bearer: [] }, { apiKey: [] }];
const withKeyOrSignature: Security = [...withKey, { signedUrl: [] }];

const bytes = { '*/*': { schema: { type: 'string', format: 'binary' } } };
const nosniff = { 'X-Content-Type-Options': text };
/** Headers of every answer. */
const always = { 'X-Request-Id': say('name of the request in the log'), 'Cache-Control': text };

function json(description: string, schema: Schema, headers: Schema = {}): Schema {
  return {
    description,
    headers: { ...always, ...headers },
    content: { 'application/json': { schema } },
  };
}

const problem = {
  description: 'a problem, with a stable `code`',
  headers: {
    ...always,
    'Accept-Encoding': say('with some of 415: what a body may be coded in'),
    Allow: say('with 405: the methods of this path'),
    'Content-Range': say('with 416: the size of the file'),
    ETag: say('with 412 and 416: of the file'),
    'Last-Modified': say('with 412 and 416: of the file'),
    'Retry-After': say('with some: seconds after which to try again'),
    'WWW-Authenticate': say('with 401'),
    ...nosniff,
  },
  content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
};
const problems = { '4xx': problem, '5xx': problem };
const nothing = { description: 'no body', headers: always, type: 'null' };

const validators = { ...always, ETag: say('strong'), 'Last-Modified': text };
const fileHeaders = {
  ...validators,
  'Accept-Ranges': text,
  'Content-Disposition': say('name of the file; inline or attachment'),
  'Content-Security-Policy': text,
  'Cross-Origin-Resource-Policy': text,
  ...nosniff,
};
const rangeHeaders = { ...fileHeaders, 'Content-Range': say('of a single range') };
const file = {
  200: { description: 'the file', headers: fileHeaders, content: bytes },
  206: { description: 'the ranges that were asked for', headers: rangeHeaders, content: bytes },
  304: { description: 'the client has it', headers: validators, type: 'null' },
};

/** Of `files`, with the problems that it may end in, unless `more` says otherwise. */
function operation(operationId: string, summary: string, more: Schema): Operation {
  const { response, ...rest } = more;
  const answers = { ...(response as Schema), ...problems };
  return { operationId, summary, tags: ['files'], security: withKey, response: answers, ...rest };
}

/** Of an upload that was begun by tus. */
function resumable(operationId: string, summary: string, status: number, more: Schema = {}) {
  return operation(operationId, summary, {
    security: withKeyOrSignature,
    params: fields({ id: 'key of the upload' }, 'id'),
    headers: fields({ 'tus-resumable': say('version of tus', { enum: ['1.0.0'] }) }),
    response: { [status]: { ...nothing, description: 'as tus 1.0 has it' } },
    ...more,
  });
}

/** `watching`, without a problem of its own. */
function watching(operationId: string, summary: string, response: Schema, security = open) {
  return { operationId, summary, tags: ['watching'], security, response };
}

function forConsole(operationId: string, summary: string, parameters?: Record<string, Schema>) {
  const figures = json('the figures', { type: 'object', additionalProperties: true });
  return {
    ...watching(operationId, summary, { 200: figures, ...problems }, withKey),
    description: 'For the console of the same version; it may change with it.',
    ...(parameters && { querystring: fields(parameters) }),
  };
}

/** Keys of the gateway, for one with the scope `admin`. */
function forAdmins(operationId: string, summary: string, more: Schema): Schema {
  const { response, ...rest } = more;
  return {
    ...watching(operationId, summary, { ...(response as Schema), ...problems }, withKey),
    ...rest,
    tags: ['keys'],
  };
}

const apiKey = { type: 'object', additionalProperties: true };
const keyLimits = {
  scopes: 'some of `read`, `write`, `delete`, `list`, `admin`, with commas between them',
  'expires-in': 'such as `90d`',
  'requests-per-second': 'most requests',
  'bytes-per-day': 'most bytes to upload per UTC day, such as `10GiB`',
};

function download(operationId: string, summary: string, params: Schema, more: Schema = {}) {
  return operation(operationId, summary, {
    security: withKeyOrSignature,
    params,
    querystring: fields({
      download: 'with any value: as an attachment',
      expires: 'of a signed URL',
      signature: 'of a signed URL',
    }),
    headers: fields({
      range: '`bytes=0-99`, up to 8 pieces',
      'if-range': text,
      'if-match': text,
      'if-none-match': text,
      'if-modified-since': text,
      'if-unmodified-since': text,
    }),
    response: file,
    ...more,
  });
}

/** Of an upload, in its order. */
const receipts = {
  type: 'array',
  items: { anyOf: [{ $ref: 'Receipt#' }, { $ref: 'DeletedPart#' }] },
};

function upload(operationId: string, summary: string, more: Schema): Operation {
  const checksums = DIGEST_HEADERS.map((name) => [name, 'verified before the 201']);
  const binary = { type: 'string', format: 'binary' };
  const form = { ...fields({ file: binary, group: text }, 'file') };
  return operation(operationId, summary, {
    description:
      'A raw body is one file. The files of a form are stored all or none; they are one affinity ' +
      'group unless the field `group` names another.',
    security: withKeyOrSignature,
    ...more,
    headers: fields({
      'x-filename': 'name of a raw body, percent-encoded UTF-8',
      'content-disposition': 'name of a raw body, without X-Filename',
      'x-affinity-group': 'files of a group are stored side by side',
      'x-mode': say('`direct`: in FastDFS, as a file of its own, before it is acknowledged', {
        enum: ['staged', 'direct'],
      }),
      'x-expires-at': 'or the date at which it ends, RFC 3339',
      'x-expires-in': say('seconds to live', { pattern: '^[1-9][0-9]{0,8}$' }),
      'x-picture-of': say('key of the file that a raw body was made of; it goes with that', {
        pattern: '^[A-Za-z0-9_-]{22}$',
      }),
      'idempotency-key': say('sent again within a day, with the same files, it stores nothing', {
        pattern: '^[\\x21-\\x7e]{1,255}$',
      }),
      ...Object.fromEntries(checksums),
    }),
    body: {
      content: {
        'application/octet-stream': { schema: binary },
        'multipart/form-data': { schema: form },
      },
    },
    response: {
      201: json(
        'acknowledged: safe on the disk',
        { anyOf: [{ $ref: 'Receipt#' }, receipts] },
        {
          ...nosniff,
          Location: say('of a single file'),
          'Idempotency-Replayed': say('`true`: stored before, not again'),
          'Idempotency-Scope': say(
            '`gateway`: the map is away, so another gateway may store a repeated upload again',
          ),
        },
      ),
    },
  });
}

const found = json(
  'the file; with `once` all files of the upload, or none; with neither a page of files',
  {
    anyOf: [{ $ref: 'Receipt#' }, receipts, { $ref: 'Page#' }],
  },
  { 'Content-Disposition': say('with format=zip'), ...nosniff },
);

const described: Readonly<Record<string, Operation>> = {
  'POST /files': upload('upload', 'Store files', {
    querystring: fields({ id: 'without a body: give this file of FastDFS a key' }),
  }),
  'HEAD /uploads/:id': resumable('uploadOffset', 'How much of a resumable upload is there', 200),
  'PATCH /uploads/:id': resumable('continueUpload', 'Continue a resumable upload', 204, {
    description: 'The body is `application/offset+octet-stream`, from `Upload-Offset` on.',
  }),
  'DELETE /uploads/:id': resumable('endUpload', 'Give a resumable upload up', 204),
  'POST /uploads/:id': upload('uploadUnderPolicy', 'Store files under a policy', {
    params: fields({ id: 'name of the policy' }, 'id'),
    querystring: presigned,
  }),
  'GET /files': operation(
    'find',
    'What is known of a file by either id, or of the files of a marked upload',
    {
      querystring: fields({
        id: ID,
        once: say('in place of an id: of an upload whose Idempotency-Key was `once-` and this', {
          pattern: '^[A-Za-z0-9_-]{22}$',
        }),
        'within-ms': say('uploads no older than that', { pattern: '^[0-9]{1,15}$' }),
        ...listing,
        format: say('of a listing; zip: all its files', { enum: ['json', 'zip'] }),
      }),
      response: {
        200: {
          ...found,
          content: { ...(found.content as Schema), 'application/zip': bytes['*/*'] },
        },
      },
    },
  ),
  'GET /groups': operation('groups', 'The affinity groups that have a file, in order of name', {
    description: 'Needs what a listing of files needs.',
    querystring: fields(groupListing),
    response: { 200: json('a page of them', { $ref: 'Groups#' }, nosniff) },
  }),
  'DELETE /files': operation(
    'removeByEither',
    'Delete a file by its key or its FastDFS id, or a page of the files of a group',
    {
      querystring: fields({ id: ID, ...listing }),
      response: {
        200: json(
          'with a group: how many files were deleted, and where to go on if there may be more',
          { $ref: 'Deleted#' },
          nosniff,
        ),
        204: nothing,
      },
    },
  ),
  'GET /files/:key': download('download', 'A file by its key', byKey),
  'GET /files/:key/:filename': download('downloadNamed', 'A file by its key', byKeyAndName),
  'GET /:group/*': download('downloadById', 'A file by its FastDFS id', byFileId, {
    security: open,
    querystring: fields({
      filename: 'as an attachment of this name',
      token: 'anti-leech token',
      ts: 'time of the token, in seconds since 1970',
    }),
  }),
  'GET /files/:key/info': operation('info', 'What is known of a file', {
    params: byKey,
    response: { 200: json('the file', { $ref: 'Receipt#' }, nosniff) },
  }),
  'DELETE /files/:key': operation('remove', 'Delete a file', {
    params: byKey,
    response: { 204: nothing },
  }),
  'DELETE /:group/*': operation('removeById', 'Delete a file by its FastDFS id', {
    params: byFileId,
    response: { 204: nothing },
  }),
  'POST /flush': operation('flush', 'Store what is staged in FastDFS now, and give it its ids', {
    description:
      'Of this gateway and of the others in the deployment. Needs the scope `admin`, or the ' +
      "gateway's own key where there are no API keys. 503 `not_flushed` says why it did not " +
      'come to its end in time; nothing is lost then.',
    querystring: fields({
      'only-here': '`true`: only what this gateway has staged',
      'timeout-ms': say('longest wait, up to an hour; a minute by default', {
        pattern: '^[1-9][0-9]{0,6}$',
      }),
    }),
    response: {
      200: json(
        'FastDFS has what was staged at the servers that could be asked',
        {
          $ref: 'Flushed#',
        },
        nosniff,
      ),
    },
  }),
  'GET /health/live': watching('live', 'Whether the process answers', {
    200: json('it does', { $ref: 'Liveness#' }),
  }),
  'GET /health/ready': watching('ready', 'Whether files can be stored durably', {
    200: json('files can be stored durably and a tracker answers', { $ref: 'Readiness#' }),
    503: json('they cannot', { $ref: 'Readiness#' }),
  }),
  'GET /metrics': watching(
    'metrics',
    'Figures for Prometheus',
    {
      200: {
        description: 'the figures',
        headers: always,
        content: { 'text/plain': { schema: text } },
      },
      ...problems,
    },
    withKey,
  ),
  'GET /console/state': forConsole('state', 'What the web console shows'),
  'GET /console/history': forConsole('history', 'The figures of the last hour or day', {
    span: say('default hour', { enum: ['hour', 'day'] }),
  }),
  'GET /console/file': forConsole('locate', 'Where the bytes of a file are', { id: say(ID) }),
  'GET /console/access': forConsole(
    'access',
    'API keys, without their secrets; needs the scope `admin`',
  ),
  'POST /keys': forAdmins('addKey', 'Make an API key', {
    querystring: fields({ name: 'what it is for', ...keyLimits }, 'name'),
    response: { 201: json('the key, shown this one time', apiKey) },
  }),
  'PATCH /keys/:id': forAdmins('limitKey', 'Give an API key other limits, and other scopes', {
    params: fields({ id: 'of the key' }, 'id'),
    querystring: fields(keyLimits),
    response: { 200: json('the key, without its secret', apiKey) },
  }),
  'GET /policies': forAdmins('policies', 'The upload policies', {
    response: { 200: json('the file that has them, and each by its name', apiKey) },
  }),
  'PUT /policies/:name': forAdmins('setPolicy', 'Make or replace an upload policy', {
    params: fields({ name: 'its uploads go to `/uploads/NAME`; `default`: to `/files`' }, 'name'),
    querystring: fields({
      'max-file-size': 'such as `2MiB`',
      'max-files': 'most files in one request',
      'max-total-size': 'all files of one request',
      types: 'declared types, with commas between them, such as `image/*`',
      'check-content': '`true`: the first bytes of each file are held against its type',
      durability: '`sync` or `os`',
      group: 'affinity group',
      ttl: 'how long files live, such as `30d`',
    }),
    response: { 204: nothing },
  }),
  'DELETE /policies/:name': forAdmins('removePolicy', 'Take an upload policy away', {
    params: fields({ name: 'of the policy' }, 'name'),
    response: { 204: nothing },
  }),
  'DELETE /keys/:id': forAdmins('revokeKey', 'Revoke an API key', {
    params: fields({ id: 'of the key' }, 'id'),
    response: { 204: nothing },
  }),
};

/** HEAD has the headers of GET; its `operationId` ends with `-head`. */
function headOf({ summary, response, ...rest }: Schema): Operation {
  const answers = Object.entries(response as Readonly<Record<string, Schema>>);
  const heads = answers.map(([status, { description, headers }]) => [
    status,
    { description, headers, type: 'null' },
  ]);
  return { ...rest, summary: `${summary}: the head alone`, response: Object.fromEntries(heads) };
}

export const operations: Readonly<Record<string, Operation>> = {
  ...described,
  ...Object.fromEntries(
    Object.entries(described)
      .filter(([name]) => name.startsWith('GET '))
      .map(([name, each]) => [name.replace('GET', 'HEAD'), headOf(each)]),
  ),
};
