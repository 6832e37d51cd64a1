import { crc32 } from 'node:zlib';
import { abortable } from '@stevedore/async';
import {
  type FileMeta,
  MAX_FILE_NAME_BYTES,
  MAX_GROUP_BYTES,
  MAX_TYPE_BYTES,
  type NewFile,
  type SpoolWriter,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { normalizeBody } from './body.js';
import type { ByteBudget } from './byte-budget.js';
import { invalidOption } from './options.js';
import type { Body, PutOptions } from './types.js';

/**
 * Takes bodies in: small ones into memory, as far as the budget goes, all others
 * into a spool file, so that no upload holds more than a few MiB. What was taken
 * is either staged or discarded; a body that fails leaves nothing behind.
 */
export interface IntakeLimits {
  /** Larger bodies are stored whole, from the spool. */
  readonly smallFileBytes: number;
  readonly maxFileBytes: number;
  readonly sync: boolean;
}

export interface Taken {
  readonly key: Buffer;
  readonly meta: FileMeta;
  readonly size: number;
  readonly crc32: number;
  readonly body: readonly Uint8Array[] | undefined;
  /** Bytes of the budget that it holds. */
  readonly heldBytes: number;
  readonly spool: SpoolWriter | undefined;
}

export interface StageOptions {
  readonly group: string | undefined;
  readonly once: string | undefined;
  /** False asks for less than the store's own durability. */
  readonly sync: boolean;
}

const DEFAULT_TYPE = 'application/octet-stream';
/** Of the budget, for bodies that may yet turn out to be large: they must not take it all. */
const UNANNOUNCED_SHARE = 0.25;
/** What is gathered before a write to the spool. */
const SPOOL_WRITE_BYTES = 128 * 1024;

export class Intake {
  readonly #staging: Staging;
  readonly #budget: ByteBudget;
  readonly #limits: IntakeLimits;
  inFlight = 0;

  constructor(staging: Staging, budget: ByteBudget, limits: IntakeLimits) {
    this.#staging = staging;
    this.#budget = budget;
    this.#limits = limits;
  }

  async take(body: Body, options: PutOptions, sync = true): Promise<Taken> {
    const meta = checkMeta(body instanceof Blob ? { ...aboutBlob(body), ...options } : options);
    if (options.signal?.aborted) throw aborted(options.signal.reason);
    const maxBytes = Math.min(options.maxBytes ?? Infinity, this.#limits.maxFileBytes);
    if (options.size !== undefined && options.size > maxBytes) throw tooLarge(maxBytes);
    const normal = normalizeBody(body);
    const key = this.#staging.keys.next();
    this.inFlight += 1;
    const taking = new Taking(this.#staging, this.#budget, this.#limits, key, sync, options.size);
    try {
      if ('bytes' in normal && normal.bytes.length <= this.#limits.smallFileBytes) {
        if (normal.bytes.length > maxBytes) throw tooLarge(maxBytes);
        taking.adopt(normal.bytes);
      } else if ('bytes' in normal) {
        await taking.add(normal.bytes, maxBytes);
      } else {
        await drain(normal.chunks, options.signal, (chunk) => taking.add(chunk, maxBytes));
      }
      checkSize(options.size, taking.size);
      return await taking.finish(meta);
    } catch (error) {
      await taking.discard();
      throw error;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** Makes what was taken durable, all or nothing. */
  async stage(taken: readonly Taken[], how: StageOptions, now: number): Promise<NewFile[]> {
    const { group, once } = how;
    // Property by property: a spread costs more than all the rest of this.
    const files = taken.map(({ key, meta, size, crc32: crc, body, spool }) => ({
      name: meta.name,
      type: meta.type,
      group: group ?? meta.group,
      expiresAt: meta.expiresAt,
      once,
      key,
      size,
      crc32: crc,
      stagedAt: now,
      body,
      blocks: spool?.blocks,
    }));
    try {
      await this.#staging.acceptance.stage(files, how.sync && this.#limits.sync);
      this.#release(taken);
      return files;
    } catch (error) {
      await this.discard(taken);
      throw error;
    }
  }

  async discard(taken: readonly Taken[]): Promise<void> {
    this.#release(taken);
    await Promise.all(taken.map(({ spool }) => spool?.discard()));
  }

  #release(taken: readonly Taken[]): void {
    for (const { heldBytes } of taken) this.#budget.give(heldBytes);
  }
}

/** One body while it arrives. */
class Taking {
  readonly #staging: Staging;
  readonly #budget: ByteBudget;
  readonly #limits: IntakeLimits;
  readonly #key: Buffer;
  readonly #sync: boolean;
  /** What is said beforehand of its size. */
  readonly #announcedBytes: number | undefined;
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  #heldBytes = 0;
  #crc = 0;
  #spool: SpoolWriter | undefined;
  size = 0;

  constructor(
    staging: Staging,
    budget: ByteBudget,
    limits: IntakeLimits,
    key: Buffer,
    sync: boolean,
    announcedBytes: number | undefined,
  ) {
    this.#sync = sync && limits.sync;
    this.#announcedBytes = announcedBytes;
    this.#staging = staging;
    this.#budget = budget;
    this.#limits = limits;
    this.#key = key;
  }

  /** A whole small body that the caller holds in memory anyway. */
  adopt(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.#crc = crc32(bytes);
    this.size = bytes.length;
  }

  async add(chunk: Uint8Array, maxBytes: number): Promise<void> {
    if (!(chunk instanceof Uint8Array))
      throw invalidOption('the body yields something else than bytes');
    this.size += chunk.length;
    if (this.size > maxBytes) throw tooLarge(maxBytes);
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
    if (!this.#spool) {
      if (this.#isSmallSoFar() && this.#budget.take(chunk.length, this.#share)) {
        this.#heldBytes += chunk.length;
        this.#crc = crc32(chunk, this.#crc);
        return;
      }
      this.#spool = await this.#staging.acceptance.beginSpooled(this.#key, this.size);
      await this.#flush();
    } else if (this.#chunkBytes >= SPOOL_WRITE_BYTES) {
      this.#staging.acceptance.checkRoom();
      await this.#flush();
    }
  }

  #isSmallSoFar(): boolean {
    return Math.max(this.size, this.#announcedBytes ?? 0) <= this.#limits.smallFileBytes;
  }

  get #share(): number {
    return this.#announcedBytes === undefined ? UNANNOUNCED_SHARE : 1;
  }

  async finish(meta: FileMeta): Promise<Taken> {
    const { size } = this;
    const key = this.#key;
    if (!this.#spool) {
      const body = this.#chunks;
      return {
        key,
        meta,
        size,
        crc32: this.#crc,
        body,
        heldBytes: this.#heldBytes,
        spool: undefined,
      };
    }
    const spool = this.#spool;
    await this.#flush();
    if (size <= this.#limits.smallFileBytes) {
      // It went to the disk for want of memory only; its place is the container.
      const bytes = await spool.readBack();
      await spool.discard();
      return {
        key,
        meta,
        size,
        crc32: crc32(bytes),
        body: [bytes],
        heldBytes: 0,
        spool: undefined,
      };
    }
    await spool.finish(this.#sync);
    return { key, meta, size, crc32: spool.crc32, body: undefined, heldBytes: 0, spool };
  }

  async discard(): Promise<void> {
    this.#budget.give(this.#heldBytes);
    this.#heldBytes = 0;
    await this.#spool?.discard();
  }

  async #flush(): Promise<void> {
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#chunkBytes = 0;
    this.#budget.give(this.#heldBytes);
    this.#heldBytes = 0;
    if (chunks.length > 0) await this.#spool!.write(chunks);
  }
}

/** Hands every chunk on; a body that fails or is aborted is `aborted`, and is told to stop. */
async function drain(
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal | undefined,
  onChunk: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await nextChunk(chunks, signal);
      if (done) {
        finished = true;
        return;
      }
      await onChunk(value);
    }
  } finally {
    // Not awaited: an aborted source may never answer.
    if (!finished) chunks.return?.()?.then(undefined, () => undefined);
  }
}

async function nextChunk(
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<IteratorResult<Uint8Array>> {
  try {
    if (!signal) return await chunks.next();
    signal.throwIfAborted();
    return await abortable(chunks.next(), signal);
  } catch (error) {
    throw aborted(error);
  }
}

function aborted(cause: unknown): StoreError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StoreError(
    'aborted',
    `the body did not arrive whole (${reason}); nothing was stored`,
    {
      cause,
    },
  );
}

/** What a Blob says of itself, and a File of a form. */
function aboutBlob(blob: Blob): PutOptions {
  return {
    ...(blob.type === '' ? {} : { type: blob.type }),
    ...(blob instanceof File ? { name: blob.name } : {}),
  };
}

function checkMeta({
  name = '',
  type = DEFAULT_TYPE,
  group,
  expiresAt,
}: Omit<PutOptions, 'durability' | 'once'>): FileMeta {
  checkText('name', name, MAX_FILE_NAME_BYTES);
  checkText('type', type, MAX_TYPE_BYTES);
  if (group !== undefined) checkText('group', group, MAX_GROUP_BYTES);
  if (expiresAt === undefined) return { name, type, group };
  const time = expiresAt instanceof Date ? expiresAt.getTime() : Number.NaN;
  if (!Number.isSafeInteger(time)) throw invalidOption('expiresAt: a valid Date is needed');
  return { name, type, group, expiresAt: time };
}

export function checkText(what: string, text: unknown, maxBytes: number): void {
  if (typeof text !== 'string') throw invalidOption(`${what}: a text is needed`);
  if (Buffer.byteLength(text) > maxBytes) {
    throw invalidOption(`${what}: at most ${maxBytes} bytes, this has ${Buffer.byteLength(text)}`);
  }
}

function checkSize(announced: number | undefined, size: number): void {
  if (announced === undefined || announced === size) return;
  throw new StoreError(
    'length_mismatch',
    `the body has ${size} bytes, ${announced} were announced; nothing was stored`,
  );
}

function tooLarge(maxBytes: number): StoreError {
  return new StoreError('too_large', `the body is longer than the ${maxBytes} bytes allowed`);
}
