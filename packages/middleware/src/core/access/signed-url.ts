import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { givenText } from '@stevedore/client/connect/internal';
import { type Query, queryOf } from '../http/query.js';
import { ProblemError } from '../problems.js';

/**
 * Signed URLs: the holder of one may do one thing until it expires. The signature is an
 * HMAC-SHA-256 over the method, the subject, the expiry time, and every other parameter of the
 * query, so nothing can be added, left out or changed. The first secret signs, all of them verify:
 * to rotate, put a new one first and remove the old one when its URLs have expired.
 *
 *   stevedore-url-1 LF method LF subject LF expires LF name=value&name=value
 *
 * Names and values are percent-encoded and sorted; the signature is base64url.
 */

/** `GET` of a key or FastDFS id; `POST` of an upload, whose subject is its path. */
export type SignedMethod = 'GET' | 'POST';

export type QueryValues = Readonly<Record<string, string>>;

const VERSION = 'stevedore-url-1';
/** Clocks may differ by this much. */
export const SKEW_MS = 60_000;
const MIN_SECRET_BYTES = 16;

export interface SignOptions {
  readonly secret: string;
  readonly method: SignedMethod;
  /** A key, a FastDFS id, or the path of an upload. */
  readonly subject: string;
  readonly expiresAt: Date;
  /** Other parameters of the URL; the signature covers them. */
  readonly parameters?: QueryValues;
}

/** The query of a signed URL, without its question mark. */
export function signQuery(options: SignOptions): string {
  const { secret, method, subject, expiresAt, parameters = {} } = options;
  const expires = Math.floor(expiresAt.getTime() / 1000);
  if (!Number.isSafeInteger(expires)) throw new RangeError('expiresAt is no valid date');
  if (Buffer.byteLength(secret) < MIN_SECRET_BYTES) {
    throw new RangeError(`a secret has ${MIN_SECRET_BYTES} bytes at least`);
  }
  const bound = canonical(parameters);
  const signature = sign(secret, method, subject, expires, bound);
  return `${bound === '' ? '' : `${bound}&`}expires=${expires}&signature=${signature.toString('base64url')}`;
}

/** `/files/KEY?…`, `/group1/M00/…?…`: a download for anyone who has the URL. */
export function signedDownload(
  secret: string,
  id: string,
  expiresAt: Date,
  parameters: QueryValues = {},
): string {
  const path = id.includes('/') ? `/${id}` : `/files/${id}`;
  return `${path}?${signQuery({ secret, method: 'GET', subject: id, expiresAt, parameters })}`;
}

export interface UploadConditions {
  readonly maxBytes?: number;
  /** `image/png` or `image/*`. */
  readonly type?: string;
  /** Affinity group. */
  readonly group?: string;
  /** How long the file lives. */
  readonly ttlSeconds?: number;
  /** Name of a policy of the gateway; default: that of `/files`. */
  readonly policy?: string;
  /** The URL may be used for many files; default: for one, however often it is sent. */
  readonly reusable?: boolean;
}

/** `/files?…`: an upload for anyone who has the URL, under these conditions. */
export function presignedUpload(
  secret: string,
  expiresAt: Date,
  conditions: UploadConditions = {},
): string {
  const { maxBytes, type, group, ttlSeconds, policy, reusable } = conditions;
  const path = uploadPath(policy);
  const parameters: Record<string, string> = {
    ...(maxBytes === undefined ? {} : { 'max-bytes': String(maxBytes) }),
    ...(type === undefined ? {} : { type }),
    ...(group === undefined ? {} : { group }),
    ...(ttlSeconds === undefined ? {} : { ttl: String(ttlSeconds) }),
    ...(reusable ? {} : { nonce: randomBytes(16).toString('base64url') }),
  };
  return `${path}?${signQuery({ secret, method: 'POST', subject: path, expiresAt, parameters })}`;
}

export function uploadPath(policy: string | undefined): string {
  return policy === undefined ? '/files' : `/uploads/${policy}`;
}

export interface Verified {
  readonly expiresAt: Date;
  /** All parameters that the signature covers. */
  readonly parameters: QueryValues;
  /** Equal for equivalent queries, however they are written. */
  readonly identity: string;
}

/**
 * Undefined if the URL has no signature. Throws `signature_invalid`, `signature_expired`. Give it the
 * URL as it was received, or what `queryOf` makes of it: a framework's own parser may leave out what
 * others read.
 */
export function verifyQuery(
  secrets: readonly string[],
  method: SignedMethod,
  subject: string,
  url: string | Query,
  now: number,
): Verified | undefined {
  const query = typeof url === 'string' ? queryOf(url) : url;
  const { signature, expires } = query;
  if (signature === undefined) return undefined;
  if (typeof signature !== 'string' || !/^\d{1,12}$/.test(String(expires))) throw invalid();
  const parameters: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(query)) {
    if (name === 'signature' || name === 'expires') continue;
    // A repeated parameter has no single value.
    if (typeof value !== 'string') throw invalid();
    parameters[name] = value;
  }
  const given = Buffer.from(signature, 'base64url');
  const bound = canonical(parameters);
  let matches = false;
  for (const secret of secrets) {
    const expected = sign(secret, method, subject, Number(expires), bound);
    if (given.length === expected.length && timingSafeEqual(given, expected)) matches = true;
  }
  if (!matches) throw invalid();
  const expiresAt = new Date(Number(expires) * 1000);
  if (now > expiresAt.getTime() + SKEW_MS) {
    throw new ProblemError('signature_expired', 'This URL has expired.');
  }
  return { expiresAt, parameters, identity: given.toString('base64url') };
}

function canonical(parameters: QueryValues): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .sort()
    .join('&');
}

function sign(
  secret: string,
  method: SignedMethod,
  subject: string,
  expires: number,
  bound: string,
): Buffer {
  const text = [VERSION, method, subject, expires, bound].join('\n');
  // As a file has it, and as the gateway's options take it.
  return createHmac('sha256', givenText(secret)).update(text).digest();
}

function invalid(): ProblemError {
  return new ProblemError('signature_invalid', 'The signature does not match this URL.');
}
