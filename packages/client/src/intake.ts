import { types } from 'node:util';
import { crc32 } from 'node:zlib';
import type { FileMeta, NewFile, SpoolWriter, Staging } from '@stevedore/staging';
import {
  MAX_FILE_NAME_BYTES,
  MAX_GROUP_BYTES,
  MAX_TYPE_BYTES,
} from '@stevedore/staging/text-limits';
import { Chunks, readBody } from './body.js';
import { withOwnNames } from './body-kinds.js';
import { onceText } from './once.js';
import { invalidOption } from './options.js';
import type { Body, PutOptions } from './types.js';

/**
 * Receives bodies. Small ones go to memory while the budget lasts, all others to a spool file, so
 * no upload holds more than a few MiB. A received body is staged or discarded; a failed one leaves
 * nothing behind.
 */
export interface IntakeLimits {
  /** Larger bodies become large files, stored from the spool. */
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
  /** Bytes that it holds of the memory budget. */
  readonly heldBytes: number;
  readonly spool: SpoolWriter | undefined;
}

export interface StageOptions {
  readonly group: string | undefined;
  readonly once: string | undefined;
  /** False: less than the store's own durability is enough. */
  readonly sync: boolean;
}

export const DEFAULT_TYPE = 'application/octet-stream';
/** Memory for all arriving bodies together. */
const BUDGET_BYTES = 32 * 2 ** 20;
/** Share of it for bodies of unknown length, which must not use it all. */
const UNANNOUNCED_SHARE = 0.25;
/** Bytes to gather before a write to the spool. */
const SPOOL_WRITE_BYTES = 128 * 1024;

export class Intake {
  readonly staging: Staging;
  readonly limits: IntakeLimits;
  inFlight = 0;
  #heldBytes = 0;

  constructor(staging: Staging, limits: IntakeLimits) {
    this.staging = staging;
    this.limits = limits;
  }

  /** Synchronous for a small body in memory. Throws if the options are invalid. */
  take(body: Body, options: PutOptions, sync: boolean): Taken | Promise<Taken> {
    const meta = checkMeta(withOwnNames(body, options));
    const { maxBytes = Infinity } = options;
    const bytes = readBody(body, options, Math.min(maxBytes, this.limits.maxFileBytes));
    if (bytes instanceof Chunks || bytes.length > this.limits.smallFileBytes) {
      return this.#takeSlowly(bytes, meta, new Taking(this, sync, bytes));
    }
    return {
      key: this.staging.keys.next(),
      meta,
      size: bytes.length,
      crc32: crc32(bytes),
      body: [bytes],
      heldBytes: 0,
      spool: undefined,
    };
  }

  async #takeSlowly(bytes: Buffer | Chunks, meta: FileMeta, taking: Taking): Promise<Taken> {
    this.inFlight += 1;
    try {
      if (bytes instanceof Chunks) for await (const chunk of bytes) await taking.add(chunk);
      else await taking.add(bytes);
      return await taking.finish(meta);
    } catch (error) {
      await taking.discard();
      throw error;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** Makes the received bodies durable, all or none, with as many copies as the options ask for. */
  async stage(taken: readonly Taken[], how: StageOptions, now: number): Promise<NewFile[]> {
    const { group, once } = how;
    // Property by property: a spread would cost more than all the rest of this method.
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
    const { copies, acceptance } = this.staging;
    let isCopied: boolean;
    try {
      copies?.demand();
      isCopied = await acceptance.stage(files, how.sync);
    } catch (error) {
      await this.discard(taken);
      throw error;
    }
    try {
      if (copies) await copies.acknowledge(files, isCopied);
    } finally {
      for (const { heldBytes } of taken) this.release(heldBytes);
    }
    return files;
  }

  async discard(taken: readonly Taken[]): Promise<void> {
    for (const { heldBytes } of taken) this.release(heldBytes);
    await Promise.all(taken.map(({ spool }) => spool?.discard()));
  }

  /**
   * Reserves memory; false if the budget is used up, and the bytes must go to disk. No upload ever
   * waits for memory. `share` limits the used part of the budget, from 0 to 1.
   */
  hold(bytes: number, share: number): boolean {
    if (this.#heldBytes + bytes > BUDGET_BYTES * share) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }
}

/** A body being received. */
class Taking {
  readonly #intake: Intake;
  readonly #key: Buffer;
  readonly #sync: boolean;
  readonly #announcedBytes: number | undefined;
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  #heldBytes = 0;
  #crc = 0;
  #spool: SpoolWriter | undefined;
  size = 0;

  constructor(intake: Intake, sync: boolean, body: Buffer | Chunks) {
    this.#intake = intake;
    this.#key = intake.staging.keys.next();
    this.#sync = sync && intake.limits.sync;
    this.#announcedBytes = body instanceof Chunks ? body.announcedBytes : body.length;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.size += chunk.length;
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
    const { acceptance } = this.#intake.staging;
    if (!this.#spool) {
      if (this.#isSmallSoFar() && this.#intake.hold(chunk.length, this.#share)) {
        this.#heldBytes += chunk.length;
        this.#crc = crc32(chunk, this.#crc);
        return;
      }
      this.#spool = await acceptance.beginSpooled(this.#key, this.size);
      await this.#flush();
    } else if (this.#chunkBytes >= SPOOL_WRITE_BYTES) {
      acceptance.checkRoom();
      await this.#flush();
    }
  }

  #isSmallSoFar(): boolean {
    const bytes = Math.max(this.size, this.#announcedBytes ?? 0);
    return bytes <= this.#intake.limits.smallFileBytes;
  }

  get #share(): number {
    return this.#announcedBytes === undefined ? UNANNOUNCED_SHARE : 1;
  }

  async finish(meta: FileMeta): Promise<Taken> {
    const { size } = this;
    const key = this.#key;
    const spool = this.#spool;
    if (!spool) {
      const body = this.#chunks;
      return { key, meta, size, crc32: this.#crc, body, heldBytes: this.#heldBytes, spool };
    }
    await this.#flush();
    if (size > this.#intake.limits.smallFileBytes) {
      await spool.finish(this.#sync);
      return { key, meta, size, crc32: spool.crc32, body: undefined, heldBytes: 0, spool };
    }
    // It went to disk only because memory was short; it belongs in the container.
    const bytes = await spool.readBack();
    await spool.discard();
    const about = { key, meta, size, crc32: crc32(bytes), body: [bytes] };
    return { ...about, heldBytes: 0, spool: undefined };
  }

  async discard(): Promise<void> {
    this.#intake.release(this.#heldBytes);
    this.#heldBytes = 0;
    await this.#spool?.discard();
  }

  async #flush(): Promise<void> {
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#chunkBytes = 0;
    this.#intake.release(this.#heldBytes);
    this.#heldBytes = 0;
    if (chunks.length > 0) await this.#spool!.write(chunks);
  }
}

/** Throws `invalid_option`. */
export function stageOptions({
  durability,
  once,
}: Pick<PutOptions, 'durability' | 'once'>): StageOptions {
  if (durability !== undefined && durability !== 'sync' && durability !== 'os') {
    throw invalidOption('durability: sync or os');
  }
  if (once === undefined) return { group: undefined, once, sync: durability !== 'os' };
  return { group: undefined, once: onceText(once), sync: durability !== 'os' };
}

export function checkMeta({
  name = '',
  type = DEFAULT_TYPE,
  group,
  expiresAt,
}: PutOptions): FileMeta {
  const meta = {
    name: checkText('name', name, MAX_FILE_NAME_BYTES),
    type: checkText('type', type, MAX_TYPE_BYTES),
    group: group === undefined ? undefined : checkText('group', group, MAX_GROUP_BYTES),
  };
  if (expiresAt === undefined) return meta;
  const time = types.isDate(expiresAt) ? expiresAt.getTime() : Number.NaN;
  if (!Number.isSafeInteger(time)) throw invalidOption('expiresAt: a valid Date is needed');
  // Nobody could read what was acknowledged.
  if (time <= Date.now()) throw invalidOption('expiresAt: this time has passed');
  return { ...meta, expiresAt: time };
}

/** As it can be stored: half of a surrogate pair, as in names from Windows, is no text in UTF-8. */
export function checkText(what: string, text: unknown, maxBytes: number): string {
  if (typeof text !== 'string') throw invalidOption(`${what}: a text is needed`);
  const stored = text.toWellFormed();
  if (Buffer.byteLength(stored) <= maxBytes) return stored;
  throw invalidOption(`${what}: at most ${maxBytes} bytes, this has ${Buffer.byteLength(stored)}`);
}
