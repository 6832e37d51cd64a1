import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { ReadableStream } from 'node:stream/web';
import type { BeginOptions, UnfinishedUpload } from '@stevedore/client';
import { Metadata } from '@tus/server';
import { checkName, fileType, headerText } from '../http/content-headers.js';
import type { TransferLimits } from '../limits.js';
import { methodNotAllowed, ProblemError } from '../problems.js';
import { DigestCheck, decodeDigest } from '../upload/digests.js';
import { expiryOf, typeProblem, type UploadPolicy } from '../upload/policy.js';
import { demandOrdinary } from '../upload/receive.js';
import type { RequestBody } from '../upload/request-body.js';
import { type Note, noteOf, type ResumableRequest } from './request.js';

/**
 * Messages of tus 1.0 (https://tus.io/protocols/resumable-upload): what a new upload is to become,
 * checksums of single requests, which uploads are parts of another, and requests and answers as the
 * web API that `@tus/server` speaks.
 */

/** What an upload is to become. */
export interface Begin extends UploadMetadata, Required<Pick<BeginOptions, 'owner'>> {
  readonly note: Note;
  readonly ttlMs?: number | undefined;
  readonly once?: Buffer | undefined;
}

const ANYTHING: UploadPolicy = {};

/** What a new upload is to become, under the route's policy. */
export function newUpload(
  headers: IncomingHttpHeaders,
  { policy = ANYTHING, scope = '', mark, client }: ResumableRequest,
  isPart: boolean,
  limits: TransferLimits,
): Begin {
  demandOrdinary(headers);
  const raw = String(headers['upload-metadata'] ?? '');
  let values: Record<string, string | null> = {};
  try {
    if (raw !== '') values = Metadata.parse(raw);
  } catch (error) {
    throw new ProblemError('bad_request', 'Upload-Metadata is malformed.', error);
  }
  const { name, type, group } = metadataOf(headers, values, limits);
  const refused = isPart ? undefined : typeProblem(type, policy);
  if (refused) throw refused;
  const now = Date.now();
  const { expiresAt } = expiryOf(headers, policy, now);
  const note: Note = {
    scope,
    metadata: raw,
    isPart,
    checkContent: policy.checkContent ?? false,
    maxBytes: Math.min(policy.maxFileBytes ?? limits.maxFileBytes, limits.maxFileBytes),
  };
  return {
    name,
    type,
    note,
    owner: { name: disguised(client), maxUploads: limits.maxClientUploads },
    once: mark,
    group: policy.group ?? group,
    ttlMs: expiresAt && expiresAt.getTime() - now,
  };
}

/** An address is not written to the disk as it is. */
function disguised(client: string): string {
  return createHash('sha256').update(client).digest('base64url').slice(0, 22);
}

export interface UploadMetadata {
  readonly name: string;
  readonly type: string;
  readonly group?: string | undefined;
}

/** From `Upload-Metadata`, which is stored unchanged with the upload. */
const MAX_METADATA_CHARS = 4096;

/**
 * The keys that tus clients use: `filename` or `name`, `filetype` or `type`, and `group`.
 * Throws `invalid_name`, `bad_request`.
 */
function metadataOf(
  headers: IncomingHttpHeaders,
  values: Readonly<Record<string, string | null>>,
  limits: TransferLimits,
): UploadMetadata {
  const raw = String(headers['upload-metadata'] ?? '');
  if (raw.length > MAX_METADATA_CHARS) {
    throw new ProblemError(
      'bad_request',
      `Upload-Metadata has at most ${MAX_METADATA_CHARS} characters.`,
    );
  }
  const { filename, filetype, type = filetype, group } = values;
  const name = values.name ?? filename ?? '';
  const problem = checkName(name, limits);
  if (problem) throw problem;
  const header = headers['x-affinity-group'];
  const own = group || (header ? headerText(String(header)) : undefined);
  return {
    name,
    type: fileType(type ?? undefined, name),
    group: own,
  };
}

/** For `Tus-Checksum-Algorithm`. */
export const CHECKSUMS = ['sha1', 'sha256', 'sha512', 'md5'] as const;

/** Undefined if no checksum was sent. Throws `unsupported_digest`, `invalid_digest`. */
export function checksumOf(headers: IncomingHttpHeaders): DigestCheck | undefined {
  const given = headers['upload-checksum'];
  if (given === undefined) return undefined;
  const [name, value = ''] = String(given).split(' ');
  const algorithm = CHECKSUMS.find((each) => each === name);
  if (!algorithm) {
    throw new ProblemError('unsupported_digest', `Upload-Checksum takes ${CHECKSUMS.join(', ')}.`);
  }
  const header = 'Upload-Checksum';
  return new DigestCheck(
    [{ header, algorithm, value: decodeDigest(header, algorithm, value) }],
    () => {
      const message = `The bytes of this request do not match ${header}; none of them were kept.`;
      return new ProblemError('checksum_mismatch', message);
    },
  );
}

/** Most uploads that one upload may be made of. */
const MAX_PARTS = 100;

/** `partial`, or the ids of the uploads that form this one. Throws `bad_request`. */
export function concatOf(headers: IncomingHttpHeaders): 'partial' | readonly string[] | undefined {
  const header = headers['upload-concat'];
  if (header === undefined || header === 'partial') return header as 'partial' | undefined;
  const [, urls = ''] = /^final;(.+)$/.exec(String(header)) ?? [];
  const ids = urls.trim().split(/ +/).map(lastPart);
  if (urls === '' || ids.length > MAX_PARTS) {
    const message = `Upload-Concat is "partial", or "final;" and 1 to ${MAX_PARTS} URLs of uploads.`;
    throw new ProblemError('bad_request', message);
  }
  return ids;
}

function lastPart(url: string): string {
  const [path = ''] = url.split(/[?#]/, 1);
  return path.slice(path.lastIndexOf('/') + 1);
}

/** What `X-HTTP-Method-Override` may name. */
const OVERRIDES: readonly string[] = ['PATCH', 'DELETE', 'HEAD', 'POST'];

/**
 * PATCH and DELETE sent as POST, for clients behind proxies that allow no other method. Throws
 * `method_not_allowed`.
 */
export function methodOf({ method = '', headers }: IncomingMessage): string {
  const other = headers['x-http-method-override'];
  if (method !== 'POST' || other === undefined) return method;
  const named = String(other).toUpperCase();
  if (OVERRIDES.includes(named)) return named;
  throw methodNotAllowed(named, OVERRIDES.join(', '));
}

export function asWebRequest(
  request: IncomingMessage,
  method: string,
  id: string | undefined,
  body: RequestBody | undefined,
): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (!/^(?:upload-(?!concat)|tus-|content-)/.test(name) || value === undefined) continue;
    headers.set(name, String(value));
  }
  return new Request(`http://uploads/${id ?? ''}`, {
    method,
    headers,
    ...(body ? { body: ReadableStream.from(body.chunks()), duplex: 'half' } : {}),
  } as RequestInit);
}

export function ownHeaders(upload: UnfinishedUpload): Record<string, string> {
  const { metadata, isPart } = noteOf(upload);
  return {
    ...(metadata === '' ? {} : { 'upload-metadata': metadata }),
    ...(isPart ? { 'upload-concat': 'partial' } : {}),
  };
}

/** The protocol's library refuses with a status and a text, without a code. */
export function problemOf({ status }: Response, failure: unknown): unknown {
  const refusal = (failure ?? {}) as {
    readonly message?: string;
    readonly body?: string;
    readonly status_code?: number;
  };
  const { message, body = '', status_code } = refusal;
  // The library's own have a status.
  if (message !== undefined && status_code === undefined) return failure;
  const text = body.trim() || 'The request is none of the tus protocol.';
  switch (status) {
    case 404:
    case 410:
      return new ProblemError('not_found', text);
    case 409:
      return new ProblemError('offset_mismatch', text);
    case 413:
      return new ProblemError('too_large', text);
    case 400:
    case 403:
      return new ProblemError('bad_request', text);
    default:
      return new ProblemError('upload_under_way', text);
  }
}
