import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { crc32 } from 'node:zlib';
import type { FileStore, Receipt } from '@stevedore/client';
import { essence } from '../http/media-type.js';
import { type BodyLimits, maxFormBytes } from '../limits.js';
import { ProblemError } from '../problems.js';
import { boundaryOf, Form } from './form.js';
import type { ProgressGuard } from './progress-guard.js';
import { RequestBody } from './request-body.js';

/**
 * `Idempotency-Key`: an upload that is sent again with the same key within a day is
 * answered with what it was answered first, and nothing is stored twice. The key's
 * hash is in the record of the file itself: it is durable with the file, survives a
 * restart and a lost FileMap as long as the file's record is on this disk, and takes
 * no memory. What is under way is known to this process alone.
 *
 * What comes again is read and held against the files, and stored nowhere: no client is
 * told of another upload that it was stored. A client that waits to be told to go on is
 * not, and of a raw body the length alone is compared then.
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
  readonly limits: BodyLimits;
}

export class IdempotentUploads {
  readonly #store: FileStore;
  readonly #guard: ProgressGuard;
  readonly #limits: BodyLimits;
  /** Bounded by the requests under way. */
  readonly #underWay = new Set<string>();

  constructor({ store, guard, limits }: IdempotentUploadsOptions) {
    this.#store = store;
    this.#guard = guard;
    this.#limits = limits;
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
    const { headers } = request;
    const type = headers['content-type'];
    const isForm = type !== undefined && essence(type) === 'multipart/form-data';
    const [first] = receipts;
    const length = headers['content-length'];
    if (!isForm && length !== undefined && Number(length) !== first?.size) throw reused();
    if (headers.expect !== undefined) return;
    if (isForm) await this.#demandForm(request, type, receipts);
    else await this.#demandBody(request, receipts);
  }

  async #demandBody(request: IncomingMessage, receipts: readonly Receipt[]): Promise<void> {
    const [first] = receipts;
    const body = new RequestBody(request, first?.size ?? 0, this.#guard);
    try {
      const found = await sumOf(body.chunks());
      if (receipts.length > 1 || !isOf(found, first)) throw reused();
    } catch (error) {
      throw body.failure?.code === 'too_large' ? reused() : error;
    } finally {
      body.release();
    }
  }

  /** A file of the form may have been deleted since: nobody is told of it. */
  async #demandForm(
    request: IncomingMessage,
    type: string,
    receipts: readonly Receipt[],
  ): Promise<void> {
    const boundary = boundaryOf(type);
    if (boundary === undefined) throw reused();
    const body = new RequestBody(request, maxFormBytes(this.#limits), this.#guard);
    let same = 0;
    try {
      for await (const part of new Form(body, boundary, this.#limits).files()) {
        const found = await sumOf(part.body as AsyncIterable<Uint8Array>);
        if (isOf(found, receipts[same])) same += 1;
      }
    } catch (error) {
      throw body.failure ?? error;
    } finally {
      body.release();
    }
    if (same < receipts.length) throw reused();
  }
}

interface Sum {
  readonly size: number;
  readonly crc32: number;
}

async function sumOf(chunks: AsyncIterable<Uint8Array>): Promise<Sum> {
  let size = 0;
  let crc = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    crc = crc32(chunk, crc);
  }
  return { size, crc32: crc };
}

function isOf(found: Sum, file: Receipt | undefined): boolean {
  return found.size === file?.size && found.crc32 === file.crc32;
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
