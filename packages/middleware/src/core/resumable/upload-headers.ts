import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { crc32 } from 'node:zlib';
import { checkName, fileType, headerText } from '../http/content-headers.js';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';

/**
 * Headers of tus requests (tus 1.0, https://tus.io/protocols/resumable-upload): metadata, checksums
 * of single requests, and which uploads are parts of another.
 */

export interface UploadMetadata {
  readonly name: string;
  readonly type: string;
  readonly group?: string;
}

/** From `Upload-Metadata`, which is stored unchanged with the upload. */
const MAX_METADATA_CHARS = 4096;

/**
 * The keys that tus clients use: `filename` or `name`, `filetype` or `type`, and `group`.
 * Throws `invalid_name`, `bad_request`.
 */
export function metadataOf(
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
    ...(own ? { group: own } : {}),
  };
}

/** For `Tus-Checksum-Algorithm`. */
export const CHECKSUMS = ['sha1', 'sha256', 'sha512', 'md5', 'crc32'] as const;

/** Receives the bytes of one request; call `problem` after the last one. */
export interface RequestChecksum {
  update(chunk: Uint8Array): void;
  problem(): ProblemError | undefined;
}

/** Undefined if no checksum was sent. Throws `unsupported_digest`, `invalid_digest`. */
export function checksumOf(headers: IncomingHttpHeaders): RequestChecksum | undefined {
  const header = headers['upload-checksum'];
  if (header === undefined) return undefined;
  const [name = '', value = ''] = String(header).split(' ');
  if (!(CHECKSUMS as readonly string[]).includes(name)) {
    throw new ProblemError('unsupported_digest', `Upload-Checksum takes ${CHECKSUMS.join(', ')}.`);
  }
  const sum = name === 'crc32' ? new Crc32() : createHash(name);
  const expected = Buffer.from(value, 'base64');
  if (expected.toString('base64') !== value || expected.length !== lengthOf(name)) {
    throw new ProblemError('invalid_digest', 'Upload-Checksum is malformed.');
  }
  return {
    update: (chunk) => void sum.update(chunk),
    problem: () =>
      sum.digest().equals(expected)
        ? undefined
        : new ProblemError(
            'checksum_mismatch',
            'The bytes of this request do not match Upload-Checksum; none of them were kept.',
          ),
  };
}

function lengthOf(name: string): number {
  return name === 'crc32' ? 4 : createHash(name).digest().length;
}

class Crc32 {
  #value = 0;

  update(chunk: Uint8Array): void {
    this.#value = crc32(chunk, this.#value);
  }

  digest(): Buffer {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(this.#value);
    return bytes;
  }
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
  const path = url.split(/[?#]/, 1)[0]!;
  return path.slice(path.lastIndexOf('/') + 1);
}
