import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { crc32 } from 'node:zlib';
import type { FileStore, Receipt } from '@stevedore/client';
import { ProblemError } from '../problems.js';
import type { ProgressGuard } from './progress-guard.js';
import { RequestBody } from './request-body.js';

/**
 * `Idempotency-Key`: an upload that is sent again with the same key within a day is
 * answered with what it was answered first, and nothing is stored twice. The key's
 * hash is in the record of the file itself: it is durable with the file, survives a
 * restart and a lost FileMap as long as the file's record is on this disk, and takes
 * no memory. What is under way is known to this process alone.
 *
 * A raw body that comes again is read and held against the file, and stored nowhere: no
 * client is told of another upload that it was stored. A client that waits to be told to
 * go on is not, and its body's length alone is compared; a form is not compared.
 */

const MARK_BYTES = 16;
const MAX_KEY_CHARS = 255;
const DAY_MS = 24 * 3_600_000;

export interface Repeatable {
  readonly receipts: Receipt[];
  /** True if this is the answer to an earlier request; the body may not have been read. */
  readonly replayed: boolean;
}

export interface IdempotentUploadsOptions {
  readonly store: FileStore;
  readonly guard: ProgressGuard;
}

export class IdempotentUploads {
  readonly #store: FileStore;
  readonly #guard: ProgressGuard;
  /** Bounded by the requests under way. */
  readonly #underWay = new Set<string>();

  constructor({ store, guard }: IdempotentUploadsOptions) {
    this.#store = store;
    this.#guard = guard;
  }

  /** `scope` keeps the keys of one client from meeting those of another. */
  async run(
    request: IncomingMessage,
    scope: string,
    upload: (once: Uint8Array | undefined) => Promise<Receipt[]>,
  ): Promise<Repeatable> {
    const key = idempotencyKey(request.headers['idempotency-key']);
    if (key === undefined) return { receipts: await upload(undefined), replayed: false };
    return this.#runMarked(request, uploadMark(scope, key), DAY_MS, upload);
  }

  /** As `run`, with a mark that is known otherwise and for as long as there is its file. */
  async runOnce(
    request: IncomingMessage,
    mark: Buffer,
    upload: (once: Uint8Array | undefined) => Promise<Receipt[]>,
  ): Promise<Repeatable> {
    return this.#runMarked(request, mark, Number.POSITIVE_INFINITY, upload);
  }

  async #runMarked(
    request: IncomingMessage,
    mark: Buffer,
    withinMs: number,
    upload: (once: Uint8Array | undefined) => Promise<Receipt[]>,
  ): Promise<Repeatable> {
    const name = mark.toString('base64url');
    if (this.#underWay.has(name)) {
      const message = 'An upload with this Idempotency-Key is under way.';
      throw new ProblemError('upload_under_way', message);
    }
    this.#underWay.add(name);
    try {
      const receipts = await this.#store.findOnce(mark, { withinMs });
      if (receipts.length === 0) return { receipts: await upload(mark), replayed: false };
      await this.#demandSame(request, receipts);
      return { receipts, replayed: true };
    } finally {
      this.#underWay.delete(name);
    }
  }

  /** One key for two different uploads is a mistake, where it can be seen. */
  async #demandSame(request: IncomingMessage, receipts: readonly Receipt[]): Promise<void> {
    const [first] = receipts;
    const { headers } = request;
    if (!first || receipts.length > 1) return;
    if (/^\s*multipart\/form-data/i.test(headers['content-type'] ?? '')) return;
    const length = headers['content-length'];
    if (length !== undefined && Number(length) !== first.size) throw reused();
    if (headers.expect !== undefined) return;
    if (!(await this.#hasBytesOf(request, first))) throw reused();
  }

  async #hasBytesOf(request: IncomingMessage, file: Receipt): Promise<boolean> {
    const body = new RequestBody(request, file.size, this.#guard);
    let size = 0;
    let crc = 0;
    try {
      for await (const chunk of body.chunks()) {
        size += chunk.length;
        crc = crc32(chunk, crc);
      }
    } catch (error) {
      if (body.failure?.code === 'too_large') return false;
      throw error;
    } finally {
      body.release();
    }
    return size === file.size && crc === file.crc32;
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

function reused(): ProblemError {
  const message = 'The Idempotency-Key was used for another upload.';
  return new ProblemError('idempotency_key_reused', message);
}
