import { createHash, type Hash } from 'node:crypto';
import { ProblemError } from '../problems.js';

/**
 * Checksums sent by a client, verified while the bytes arrive: `Content-MD5` (RFC 1864), `Digest`
 * (RFC 3230), `Content-Digest` and `Repr-Digest` (RFC 9530). A header without a known algorithm is
 * refused: a requested check is never silently skipped.
 */

type Algorithm = 'md5' | 'sha1' | 'sha256' | 'sha512';

interface Expected {
  readonly header: string;
  readonly algorithm: Algorithm;
  readonly value: Buffer;
}

const BYTES: Readonly<Record<Algorithm, number>> = {
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

const WHOLE_VALUE = 'content-md5';
const LISTS = ['digest', 'content-digest', 'repr-digest'] as const;

/** Headers of a request or of a form's part. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Undefined if no checksum was sent. Throws `invalid_digest`, `unsupported_digest`. */
export function digestCheck(headers: HeaderValues): DigestCheck | undefined {
  let expected: Expected[] | undefined;
  const md5 = headers[WHOLE_VALUE];
  if (md5 !== undefined) {
    const value = decodeDigest(WHOLE_VALUE, 'md5', String(md5));
    expected = [{ header: WHOLE_VALUE, algorithm: 'md5', value }];
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

export class DigestCheck {
  readonly #expected: readonly Expected[];
  readonly #mismatch: (header: string) => ProblemError;
  readonly #hashes = new Map<Algorithm, Hash>();

  constructor(
    expected: readonly Expected[],
    problemOf = (header: string) =>
      new ProblemError('digest_mismatch', `The bytes do not match ${header}.`),
  ) {
    this.#expected = expected;
    this.#mismatch = problemOf;
    for (const { algorithm } of expected) this.#hashes.set(algorithm, createHash(algorithm));
  }

  update(chunk: Uint8Array): void {
    for (const hash of this.#hashes.values()) hash.update(chunk);
  }

  /** Call it once, after the last byte; undefined if every checksum is right. */
  problem(): ProblemError | undefined {
    const found = new Map<Algorithm, Buffer>();
    for (const [algorithm, hash] of this.#hashes) found.set(algorithm, hash.digest());
    const wrong = this.#expected.find(({ algorithm, value }) => {
      return found.get(algorithm)?.equals(value) !== true;
    });
    return wrong && this.#mismatch(wrong.header);
  }
}

function invalid(header: string): ProblemError {
  return new ProblemError('invalid_digest', `${header} is malformed.`);
}

function unsupported(header: string): ProblemError {
  const message = `${header} names no algorithm that is known here: MD5, SHA-1, SHA-256, SHA-512.`;
  return new ProblemError('unsupported_digest', message);
}
