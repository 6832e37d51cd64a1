import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PutPart, Receipt } from '@stevedore/client';
import { essence } from '../http/content-headers.js';
import { maxFormBytes } from '../limits.js';
import { ProblemError } from '../problems.js';
import { boundaryOf, Form } from './form.js';
import { rawFile, type UploadParts } from './receive.js';
import { RequestBody, sendContinueIfExpected } from './request-body.js';

/**
 * `Idempotency-Key`: an upload repeated with the same key within a day gets the first answer, and
 * nothing is stored twice. The hash of the key is in the record of the file itself, so it is as
 * durable as the file, survives a restart and a lost FileMap while the record is on this disk, and
 * takes no memory. The processes of a gateway know which uploads are in progress; other servers ask
 * it.
 *
 * A repeated upload is read and compared with the stored files, not stored: a client that guesses
 * another's key gains nothing. A file that was deleted since is said to be so, in its place.
 */

const MARK_BYTES = 16;
const MAX_KEY_CHARS = 255;
const DAY_MS = 24 * 3_600_000;

/** The files of an upload, stored now or before. */
export interface Stored {
  /** In the order of the form; one for a raw body. A file deleted since has the state `deleted`. */
  readonly receipts: readonly Receipt[];
  /** True if an earlier request stored it. */
  readonly replayed: boolean;
  /** False if another server may store the same upload again, because the map was away. */
  readonly isShared: boolean;
}

export class IdempotentUploads {
  readonly #parts: UploadParts;
  readonly #marks: UploadMarks;

  constructor(parts: UploadParts, marks: UploadMarks = new LocalMarks()) {
    this.#parts = parts;
    this.#marks = marks;
  }

  /** The mark of the upload: given by the caller, or from the client's key. */
  markOf(
    { headers }: IncomingMessage,
    { scope, mark }: { readonly scope: string; readonly mark?: Buffer | undefined },
  ): Buffer | undefined {
    return mark ?? markOf(headers['idempotency-key'], scope);
  }

  /** A mark given by the caller (`isGiven`) is good for one file. */
  async run(
    request: IncomingMessage,
    response: ServerResponse,
    mark: Buffer,
    isGiven: boolean,
    upload: () => Promise<Receipt[]>,
  ): Promise<Stored> {
    const { store } = this.#parts;
    return this.#alone(mark, isGiven, async (state) => {
      const receipts = await store.findOnce(mark, {
        withinMs: isGiven ? Number.POSITIVE_INFINITY : DAY_MS,
      });
      if (receipts.length > 0) {
        await this.#demandSame(request, response, receipts);
        return { receipts, replayed: true, isShared: true };
      }
      if (isGiven) this.#demandFree(mark, state);
      const isShared = store.sharesMarks ?? true;
      return { receipts: await upload(), replayed: false, isShared };
    });
  }

  /** Begins a resumable upload, which holds the mark until it is a file or removed. */
  begin<Result>(mark: Buffer, begin: () => Promise<Result>): Promise<Result> {
    return this.#alone(mark, false, async (state) => {
      this.#demandFree(mark, state);
      await this.#demandUnused(mark);
      return begin();
    });
  }

  /** Stores the only file that a given mark is good for. */
  finish<Result>(mark: Buffer, store: () => Promise<Result>): Promise<Result> {
    return this.#alone(mark, true, async (state) => {
      if (state === 'spent') throw spent();
      await this.#demandUnused(mark);
      return store();
    });
  }

  async #demandUnused(mark: Buffer): Promise<void> {
    const receipts = await this.#parts.store.findOnce(mark, { withinMs: Number.POSITIVE_INFINITY });
    if (receipts.length > 0) throw spent();
  }

  #demandFree(mark: Buffer, state: MarkState): void {
    if (state === 'spent') throw spent();
    if (!this.#parts.store.unfinished?.findOnce(mark)) return;
    const message = 'This URL is good for one file, and began an upload that is not finished.';
    throw new ProblemError('upload_under_way', message);
  }

  /** `isOneTime`: the mark is spent once the work has succeeded. */
  async #alone<Result>(
    mark: Buffer,
    isOneTime: boolean,
    work: (state: MarkState) => Promise<Result>,
  ): Promise<Result> {
    const name = mark.toString('base64url');
    const state = await this.#marks.begin(name);
    if (state === 'taken') {
      const message = 'An upload with this Idempotency-Key or one-time URL is under way.';
      throw new ProblemError('upload_under_way', message);
    }
    let isSpent = false;
    try {
      const result = await work(state);
      isSpent = isOneTime;
      return result;
    } finally {
      this.#marks.end(name, isSpent);
    }
  }

  /**
   * For another server of the deployment: the files of the upload here. Throws `upload_under_way`.
   */
  async known(mark: Buffer, withinMs: number): Promise<readonly Receipt[]> {
    return this.#alone(mark, false, () =>
      this.#parts.store.findOnce(mark, { withinMs, onlyHere: true }),
    );
  }

  /**
   * The same key for two different uploads is a mistake, or a guess. They are the same if they have
   * the same files in the same order: names, types and bytes.
   */
  async #demandSame(
    request: IncomingMessage,
    response: ServerResponse,
    receipts: readonly Receipt[],
  ): Promise<void> {
    const { limits, guard } = this.#parts;
    const { 'content-type': type = '', 'content-length': length } = request.headers;
    const isForm = essence(type) === 'multipart/form-data';
    const boundary = isForm ? boundaryOf(type) : undefined;
    const [first] = receipts;
    const rawBytes = first && receipts.length === 1 ? first.size : undefined;
    const limitBytes = isForm ? maxFormBytes(limits) : rawBytes;
    if (limitBytes === undefined || (isForm && boundary === undefined)) throw reused();
    if (!isForm && length !== undefined && Number(length) !== rawBytes) throw reused();
    sendContinueIfExpected(request, response);
    const body = new RequestBody(request, { limitBytes, guard });
    const parts: AsyncIterable<PutPart> | readonly PutPart[] =
      boundary === undefined
        ? [{ ...rawFile(request.headers, limits), body: body.chunks() }]
        : new Form(body, boundary, limits).files();
    let [place, isSame] = [0, true];
    const compare = async (): Promise<void> => {
      for await (const part of parts) {
        if (!(await this.#isStored(part, receipts[place]))) isSame = false;
        place += 1;
      }
    };
    await body.use(compare).catch((error: unknown) => {
      // A raw body that is longer than the stored one.
      throw !isForm && body.failure?.code === 'too_large' ? reused() : error;
    });
    if (!isSame || place !== receipts.length) throw reused();
  }

  /** Reads the part to its end. The bytes of a file that was deleted since cannot be compared. */
  async #isStored({ body, name, type }: PutPart, receipt: Receipt | undefined): Promise<boolean> {
    const chunks = body as AsyncIterable<Uint8Array>;
    const isKnown = receipt?.name === name?.toWellFormed() && receipt?.type === type;
    if (!receipt || receipt.state === 'deleted' || !isKnown) {
      for await (const _ of chunks);
      return receipt?.state === 'deleted';
    }
    const stored = await (await this.#parts.store.get(receipt.key)).content();
    try {
      const expected = new ByteSource(Buffer.isBuffer(stored) ? [stored] : stored);
      let isSame = true;
      for await (const chunk of chunks) isSame = isSame && (await expected.begins(chunk));
      return isSame && (await expected.isAtEnd());
    } finally {
      if (!Buffer.isBuffer(stored)) stored.destroy();
    }
  }
}

/** Splits a stream at any requested position. */
class ByteSource {
  readonly #chunks: AsyncIterator<Buffer> | Iterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Buffer> | readonly Buffer[]) {
    this.#chunks =
      Symbol.asyncIterator in chunks ? chunks[Symbol.asyncIterator]() : chunks[Symbol.iterator]();
  }

  /** True if the next bytes are these; they are consumed. */
  async begins(bytes: Uint8Array): Promise<boolean> {
    for (let left = bytes; left.length > 0; ) {
      if (await this.isAtEnd()) return false;
      const count = Math.min(left.length, this.#rest.length);
      if (this.#rest.compare(left, 0, count, 0, count) !== 0) return false;
      this.#rest = this.#rest.subarray(count);
      left = left.subarray(count);
    }
    return true;
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done) return true;
      this.#rest = value;
    }
    return false;
  }
}

export function uploadMark(scope: string, key: string): Buffer {
  const hash = createHash('sha256').update(scope).update('\0').update(key).digest();
  return hash.subarray(0, MARK_BYTES);
}

/** Undefined if there is no key. Throws `invalid_idempotency_key`. */
function markOf(header: string | string[] | undefined, scope: string): Buffer | undefined {
  if (header === undefined) return undefined;
  const text = String(header);
  const key = /^"([^"\\]+)"$/.exec(text)?.[1] ?? text;
  if (key.length <= MAX_KEY_CHARS && /^[\x21-\x7e]+$/.test(key)) return uploadMark(scope, key);
  const message = `An Idempotency-Key has 1 to ${MAX_KEY_CHARS} visible characters.`;
  throw new ProblemError('invalid_idempotency_key', message);
}

function reused(): ProblemError {
  const message = 'The Idempotency-Key or one-time URL was used for another upload.';
  return new ProblemError('idempotency_key_reused', message);
}

function spent(): ProblemError {
  const message = 'This URL was good for one file, which was uploaded.';
  return new ProblemError('signature_expired', message);
}

/** `spent`: the mark was good for one file, which was stored here. */
export type MarkState = 'free' | 'taken' | 'spent';

/**
 * Who is using a mark now, and which one-time marks are spent although their file is gone. While the
 * file exists, its record has the mark; an unfinished upload has it too.
 */
export interface UploadMarks {
  /** Takes the mark, unless it is `taken`. */
  begin(name: string): MarkState | Promise<MarkState>;
  /** Lets go of a mark that `begin` took; `isSpent` if it was good for one file, now stored. */
  end(name: string, isSpent: boolean): void;
}

/** The oldest spent marks are forgotten. */
const MAX_SPENT = 100_000;

export class LocalMarks implements UploadMarks {
  /** Bounded by the requests in progress. */
  readonly #taken = new Set<string>();
  readonly #spent = new Set<string>();

  begin(name: string): MarkState {
    if (this.#taken.has(name)) return 'taken';
    this.#taken.add(name);
    return this.#spent.has(name) ? 'spent' : 'free';
  }

  end(name: string, isSpent: boolean): void {
    this.#taken.delete(name);
    if (!isSpent) return;
    this.#spent.add(name);
    const [oldest = name] = this.#spent;
    if (this.#spent.size > MAX_SPENT) this.#spent.delete(oldest);
  }
}
