import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fastCrc32c from '@chainsafe/fast-crc32c';
import { ProblemError } from '../problems.js';

/**
 * Checksums sent by a client, verified while the bytes arrive: `Content-MD5` (RFC 1864), `Digest`
 * (RFC 3230), `Content-Digest` and `Repr-Digest` (RFC 9530), `x-amz-checksum-*`. A header without a
 * known algorithm is refused: a requested check is never silently skipped.
 */

type Algorithm = 'crc32' | 'crc32c' | 'md5' | 'sha1' | 'sha256' | 'sha512';

interface Expected {
  readonly header: string;
  readonly algorithm: Algorithm;
  readonly value: Buffer;
}

const BYTES: Readonly<Record<Algorithm, number>> = {
  crc32: 4,
  crc32c: 4,
  md5: 16,
  sha1: 20,
  sha256: 32,
  sha512: 64,
};

/** Names of the Digest family, in lower case. */
const NAMES: ReadonlyMap<string, Algorithm> = new Map([
  ['md5', 'md5'],
  ['sha', 'sha1'],
  ['sha-256', 'sha256'],
  ['sha-512', 'sha512'],
]);

const WHOLE_VALUE: Readonly<Record<string, Algorithm | undefined>> = {
  'content-md5': 'md5',
  'x-amz-checksum-crc32': 'crc32',
  'x-amz-checksum-sha1': 'sha1',
  'x-amz-checksum-sha256': 'sha256',
  'x-amz-checksum-crc32c': 'crc32c',
  // Known algorithms that are not computed here: refused.
  'x-amz-checksum-crc64nvme': undefined,
};
const LISTS = ['digest', 'content-digest', 'repr-digest'] as const;

/** Headers that are verified, in lower case. */
export const DIGEST_HEADERS: readonly string[] = [
  ...Object.keys(WHOLE_VALUE).filter((name) => WHOLE_VALUE[name] !== undefined),
  ...LISTS,
];

/** Headers of a request or of a form's part. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Undefined if no checksum was sent. Throws `invalid_digest`, `unsupported_digest`. */
export function digestCheck(headers: HeaderValues): DigestCheck | undefined {
  let expected: Expected[] | undefined;
  for (const header in WHOLE_VALUE) {
    const text = headers[header];
    if (text === undefined) continue;
    const algorithm = WHOLE_VALUE[header];
    if (!algorithm) throw unsupported(header);
    expected ??= [];
    expected.push({ header, algorithm, value: decodeDigest(header, algorithm, String(text)) });
  }
  for (const header of LISTS) {
    const text = headers[header];
    if (text === undefined) continue;
    expected ??= [];
    expected.push(...parseList(header, String(text)));
  }
  return expected && new DigestCheck(expected);
}

function parseList(header: (typeof LISTS)[number], text: string): Expected[] {
  const found: Expected[] = [];
  for (const item of text.split(',')) {
    const match =
      header === 'digest'
        ? /^\s*([\w-]+)=([\w+/=.-]+)\s*$/.exec(item)
        : /^\s*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):(?:\s*;[^,]*)?\s*$/.exec(item);
    if (!match) throw invalid(header);
    const [, name = '', value = ''] = match;
    const algorithm = NAMES.get(name.toLowerCase());
    if (algorithm) found.push({ header, algorithm, value: decodeDigest(header, algorithm, value) });
  }
  if (found.length === 0) throw unsupported(header);
  return found;
}

/** Throws `invalid_digest`. */
export function decodeDigest(header: string, algorithm: Algorithm, text: string): Buffer {
  const trimmed = text.trim();
  const value = Buffer.from(trimmed, 'base64');
  if (value.length !== BYTES[algorithm] || value.toString('base64') !== trimmed) {
    throw invalid(header);
  }
  return value;
}

const CRCS = { crc32, crc32c: fastCrc32c.calculate } as const;

export class DigestCheck {
  readonly #expected: readonly Expected[];
  readonly #mismatch: (header: string) => ProblemError;
  readonly #hashes = new Map<Algorithm, Hash>();
  readonly #crcs = new Map<keyof typeof CRCS, number>();

  constructor(expected: readonly Expected[], problemOf = mismatch) {
    this.#expected = expected;
    this.#mismatch = problemOf;
    for (const { algorithm } of expected) {
      if (algorithm === 'crc32' || algorithm === 'crc32c') this.#crcs.set(algorithm, 0);
      else this.#hashes.set(algorithm, createHash(algorithm));
    }
  }

  update(chunk: Uint8Array): void {
    for (const [name, value] of this.#crcs) this.#crcs.set(name, CRCS[name](chunk, value));
    for (const hash of this.#hashes.values()) hash.update(chunk);
  }

  /** Call it once, after the last byte; undefined if every checksum is right. */
  problem(): ProblemError | undefined {
    const found = new Map<Algorithm, Buffer>();
    for (const [name, value] of this.#crcs) {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      found.set(name, bytes);
    }
    for (const [algorithm, hash] of this.#hashes) found.set(algorithm, hash.digest());
    const wrong = this.#expected.find(({ algorithm, value }) => {
      return found.get(algorithm)?.equals(value) !== true;
    });
    return wrong && this.#mismatch(wrong.header);
  }
}

function mismatch(header: string): ProblemError {
  return new ProblemError('digest_mismatch', `The bytes do not match ${header}.`);
}

function invalid(header: string): ProblemError {
  return new ProblemError('invalid_digest', `${header} is malformed.`);
}

function unsupported(header: string): ProblemError {
  const message = `${header} names no algorithm that is known here: MD5, SHA-1, SHA-256, SHA-512, CRC-32, CRC-32C.`;
  return new ProblemError('unsupported_digest', message);
}
