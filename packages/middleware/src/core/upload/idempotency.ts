import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FileStore, Receipt } from '@stevedore/client';
import { ProblemError } from '../problems.js';

/**
 * `Idempotency-Key`: an upload that is sent again with the same key within a day is
 * answered with what it was answered first, and nothing is stored twice. The key's
 * hash is in the record of the file itself: it is durable with the file, survives a
 * restart and a lost FileMap as long as the file's record is on this disk, and takes
 * no memory. What is under way is known to this process alone.
 */

const MARK_BYTES = 16;
const MAX_KEY_CHARS = 255;

export interface Repeatable {
  readonly receipts: Receipt[];
  /** True if this is the answer to an earlier request, and the body was not read. */
  readonly replayed: boolean;
}

export class IdempotentUploads {
  readonly #store: FileStore;
  /** Bounded by the requests under way. */
  readonly #underWay = new Set<string>();

  constructor(store: FileStore) {
    this.#store = store;
  }

  /** `scope` keeps the keys of one client from meeting those of another. */
  async run(
    request: IncomingMessage,
    scope: string,
    upload: (once: Uint8Array | undefined) => Promise<Receipt[]>,
  ): Promise<Repeatable> {
    const key = idempotencyKey(request.headers['idempotency-key']);
    if (key === undefined) return { receipts: await upload(undefined), replayed: false };
    return this.runOnce(request, uploadMark(scope, key), upload);
  }

  /** As `run`, with a mark that is known otherwise. */
  async runOnce(
    request: IncomingMessage,
    mark: Buffer,
    upload: (once: Uint8Array | undefined) => Promise<Receipt[]>,
  ): Promise<Repeatable> {
    const name = mark.toString('base64url');
    if (this.#underWay.has(name)) {
      const message = 'An upload with this Idempotency-Key is under way.';
      throw new ProblemError('upload_under_way', message);
    }
    this.#underWay.add(name);
    try {
      const receipts = await this.#store.findOnce(mark);
      if (receipts.length === 0) return { receipts: await upload(mark), replayed: false };
      checkSame(request, receipts);
      return { receipts, replayed: true };
    } finally {
      this.#underWay.delete(name);
    }
  }
}

export function uploadMark(scope: string, key: string): Buffer {
  const hash = createHash('sha256').update(scope).update('\0').update(key).digest();
  return hash.subarray(0, MARK_BYTES);
}

/** Undefined when there is none. Throws `invalid_idempotency_key`. */
function idempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  const text = String(header);
  const key = /^"([^"\\]+)"$/.exec(text)?.[1] ?? text;
  if (key.length <= MAX_KEY_CHARS && /^[\x21-\x7e]+$/.test(key)) return key;
  const message = `An Idempotency-Key has 1 to ${MAX_KEY_CHARS} visible characters.`;
  throw new ProblemError('invalid_idempotency_key', message);
}

/** One key for two different uploads is a mistake, where it can be seen. */
function checkSame({ headers }: IncomingMessage, receipts: readonly Receipt[]): void {
  const [first] = receipts;
  const length = headers['content-length'];
  if (!first || receipts.length > 1 || length === undefined) return;
  if (/^\s*multipart\/form-data/i.test(headers['content-type'] ?? '')) return;
  if (Number(length) === first.size) return;
  const message = 'The Idempotency-Key was used for another upload.';
  throw new ProblemError('idempotency_key_reused', message);
}
