/** Schemas, headers and parameters that the descriptions of several routes share. */

export type Schema = Readonly<Record<string, unknown>>;

export const text = { type: 'string' };
export const bytes = { '*/*': { schema: { type: 'string', format: 'binary' } } };

/** Headers of every answer. */
export const always = {
  'X-Request-Id': { ...text, description: 'name of the request in the log' },
  'Cache-Control': text,
};
const problem = {
  description: 'a problem, with a stable `code`',
  headers: {
    ...always,
    'Accept-Encoding': { ...text, description: 'with some of 415: what a body may be coded in' },
    Allow: { ...text, description: 'with 405: the methods of this path' },
    'Content-Range': { ...text, description: 'with 416: the size of the file' },
    ETag: { ...text, description: 'with 412 and 416: of the file' },
    'Last-Modified': { ...text, description: 'with 412 and 416: of the file' },
    'Retry-After': { ...text, description: 'with some: seconds after which to try again' },
    'WWW-Authenticate': { ...text, description: 'with 401' },
    'X-Content-Type-Options': text,
  },
  content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
};
export const problems = { '4xx': problem, '5xx': problem };

export type Security = readonly { readonly [scheme: string]: readonly string[] }[];

export const withKey: Security = [{}, { bearer: [] }, { apiKey: [] }];
export const withKeyOrSignature: Security = [...withKey, { signedUrl: [] }];
export const open: Security = [];

export function json(description: string, schema: Schema, headers: Schema = {}): Schema {
  return {
    description,
    headers: { ...always, ...headers },
    content: { 'application/json': { schema } },
  };
}

export const key = {
  type: 'object',
  properties: {
    key: { ...text, pattern: '^[A-Za-z0-9_-]{21}[AQgw]$', description: 'as an upload answered it' },
  },
  required: ['key'],
};
export const keyAndName = {
  ...key,
  properties: {
    ...key.properties,
    filename: { ...text, minLength: 1, description: 'for people: the key alone finds the file' },
  },
  required: ['key', 'filename'],
};
export const fileId = {
  type: 'object',
  properties: {
    group: { ...text, pattern: '^[A-Za-z0-9]{1,16}$' },
    '*': { ...text, description: 'the rest of the FastDFS id: `M00/3F/A2/…jpg`' },
  },
  required: ['group', '*'],
};
export const downloadQuery = {
  type: 'object',
  properties: {
    download: { ...text, description: 'with any value: as an attachment' },
    expires: { ...text, description: 'of a signed URL' },
    signature: { ...text, description: 'of a signed URL' },
  },
};
export const fastdfsQuery = {
  type: 'object',
  properties: {
    filename: { ...text, description: 'as an attachment of this name' },
    token: { ...text, description: 'anti-leech token' },
    ts: { ...text, description: 'time of the token, in seconds since 1970' },
  },
};
export const conditions = {
  type: 'object',
  properties: {
    range: { ...text, description: '`bytes=0-99`, up to 8 pieces' },
    'if-range': text,
    'if-match': text,
    'if-none-match': text,
    'if-modified-since': text,
    'if-unmodified-since': text,
  },
};

const validators = {
  ...always,
  ETag: { ...text, description: 'strong' },
  'Last-Modified': text,
};
const fileHeaders = {
  ...validators,
  'Accept-Ranges': text,
  'Content-Disposition': { ...text, description: 'name of the file; inline or attachment' },
  'Content-Security-Policy': text,
  'Cross-Origin-Resource-Policy': text,
  'X-Content-Type-Options': text,
};
const rangeHeaders = {
  ...fileHeaders,
  'Content-Range': { ...text, description: 'of a single range' },
};
export const file = {
  200: { description: 'the file', headers: fileHeaders, content: bytes },
  206: { description: 'the ranges that were asked for', headers: rangeHeaders, content: bytes },
  304: { description: 'the client has it', headers: validators, type: 'null' },
};
