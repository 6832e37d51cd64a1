import assert from 'node:assert';
import { types } from 'node:util';
import { crc32 } from 'node:zlib';
import {
  type FileFacts,
  type NewFile,
  parseKey,
  type SpoolWriter,
  type Staging,
  smallFile,
  spooledFile,
} from '@stevedore/staging';
import {
  MAX_FILE_NAME_BYTES,
  MAX_GROUP_BYTES,
  MAX_TYPE_BYTES,
} from '@stevedore/staging/text-limits';
import { invalidOption, type StoreOptions } from '../options.js';
import type { Body, PutOptions } from '../store/types.js';
import { Chunks, readBody } from './body.js';
import { withOwnNames } from './body-kinds.js';
import { onceText } from './once.js';

/**
 * Receives bodies. Small ones go to memory while the budget lasts, all others to a spool file, so
 * no upload holds more than a few MiB. A file that was received is then staged, and `release`d, or
 * `discard`ed; a failed one leaves nothing behind.
 */
interface IntakeLimits {
  /** Larger bodies become large files, stored from the spool. */
  readonly smallFileBytes: number;
  readonly maxFileBytes: number;
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
  readonly now: () => number;
  inFlight = 0;
  #heldBytes = 0;
  /** Those that hold memory or a spool file. */
  readonly #takings = new Map<NewFile, Taking>();

  constructor(staging: Staging, options: StoreOptions, now: () => number) {
    this.staging = staging;
    this.limits = {
      smallFileBytes: options.smallFileLimit,
      maxFileBytes: options.maxFileSize,
      sync: options.durability === 'sync',
    };
    this.now = now;
  }

  /** Synchronous for a small body in memory. Throws if the options are invalid. */
  take(body: Body, options: PutOptions): NewFile | Promise<NewFile> {
    const about = checkMeta(withOwnNames(body, options));
    const { maxBytes = Infinity } = options;
    const bytes = readBody(body, options, Math.min(maxBytes, this.limits.maxFileBytes));
    const key = this.staging.keys.next();
    if (bytes instanceof Chunks || bytes.length > this.limits.smallFileBytes) {
      return this.#takeSlowly(bytes, about, new Taking(this, key, isSync(options), bytes));
    }
    return smallFile(factsOf(about, key, bytes.length, crc32(bytes), this.now()), [bytes]);
  }

  async #takeSlowly(bytes: Buffer | Chunks, about: About, taking: Taking): Promise<NewFile> {
    this.inFlight += 1;
    try {
      if (bytes instanceof Chunks) for await (const chunk of bytes) await taking.add(chunk);
      else await taking.add(bytes);
      const file = await taking.finish(about);
      this.#takings.set(file, taking);
      return file;
    } catch (error) {
      await taking.discard();
      throw error;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** True if the file must be released. */
  holds(file: NewFile): boolean {
    return this.#takings.has(file);
  }

  /** The files are staged: their memory is free. */
  release(files: readonly NewFile[]): void {
    for (const file of files) {
      this.#takings.get(file)?.release();
      this.#takings.delete(file);
    }
  }

  async discard(files: readonly NewFile[]): Promise<void> {
    const takings = files.map((file) => this.#takings.get(file));
    this.release(files);
    await Promise.all(takings.map((taking) => taking?.discard()));
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

  letGo(bytes: number): void {
    this.#heldBytes -= bytes;
    assert(this.#heldBytes >= 0);
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

  constructor(intake: Intake, key: Buffer, sync: boolean, body: Buffer | Chunks) {
    this.#intake = intake;
    this.#key = key;
    this.#sync = sync && intake.limits.sync;
    this.#announcedBytes = body instanceof Chunks ? body.announcedBytes : body.length;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.size += chunk.length;
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
    const { acceptance } = this.#intake.staging;
    if (!this.#spool) {
      const bytes = Math.max(this.size, this.#announcedBytes ?? 0);
      const isSmall = bytes <= this.#intake.limits.smallFileBytes;
      const share = this.#announcedBytes === undefined ? UNANNOUNCED_SHARE : 1;
      if (isSmall && this.#intake.hold(chunk.length, share)) {
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

  async finish(about: About): Promise<NewFile> {
    const { size } = this;
    const facts = (crc: number) => factsOf(about, this.#key, size, crc, this.#intake.now());
    const spool = this.#spool;
    if (!spool) return smallFile(facts(this.#crc), this.#chunks);
    await this.#flush();
    if (size > this.#intake.limits.smallFileBytes) {
      await spool.finish(this.#sync);
      return spooledFile(facts(spool.crc32), spool.blocks);
    }
    // It went to disk only because memory was short; it belongs in the container.
    const bytes = await spool.readBack();
    await this.discard();
    return smallFile(facts(crc32(bytes)), [bytes]);
  }

  release(): void {
    this.#intake.letGo(this.#heldBytes);
    this.#heldBytes = 0;
  }

  /** A trunk in flight may read the spool file of one that was refused late: its end removes it. */
  async discard(): Promise<void> {
    this.release();
    const spool = this.#spool;
    this.#spool = undefined;
    if (spool && !this.#intake.staging.files.isPacking(this.#key)) await spool.discard();
  }

  async #flush(): Promise<void> {
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#chunkBytes = 0;
    this.release();
    if (chunks.length > 0) await this.#spool!.write(chunks);
  }
}

/** What the caller says about a file. */
type About = Pick<FileFacts, 'name' | 'type' | 'group' | 'expiresAt' | 'once' | 'pictureOf'>;

function factsOf(
  { name, type, group, expiresAt, once, pictureOf }: About,
  key: Buffer,
  size: number,
  crc: number,
  stagedAt: number,
): FileFacts {
  return { key, name, type, group, expiresAt, once, pictureOf, size, crc32: crc, stagedAt };
}

/** False: less than the store's own durability is enough. Throws `invalid_option`. */
export function isSync({ durability }: Pick<PutOptions, 'durability'>): boolean {
  if (durability !== undefined && durability !== 'sync' && durability !== 'os') {
    throw invalidOption('durability: sync or os');
  }
  return durability !== 'os';
}

/** Throws `invalid_option`. */
export function checkMeta({
  name = '',
  type = DEFAULT_TYPE,
  group,
  expiresAt,
  once,
  pictureOf,
}: PutOptions): About {
  const original = pictureOf === undefined ? undefined : parseKey(pictureOf);
  if (pictureOf !== undefined && !original) {
    throw invalidOption('pictureOf: the key of a file is needed');
  }
  return {
    name: checkText('name', name, MAX_FILE_NAME_BYTES),
    type: checkText('type', type, MAX_TYPE_BYTES),
    group: group === undefined ? undefined : checkText('group', group, MAX_GROUP_BYTES),
    expiresAt: expiresAt === undefined ? undefined : checkTime(expiresAt),
    once: once === undefined ? undefined : onceText(once),
    pictureOf: original,
  };
}

function checkTime(expiresAt: Date): number {
  const time = types.isDate(expiresAt) ? expiresAt.getTime() : Number.NaN;
  if (!Number.isSafeInteger(time)) throw invalidOption('expiresAt: a valid Date is needed');
  // Nobody could read what was acknowledged.
  if (time <= Date.now()) throw invalidOption('expiresAt: this time has passed');
  return time;
}

/** Of UTF-8 and a unit of UTF-16. */
const MAX_BYTES_PER_CHAR = 3;

/** As it can be stored: half of a surrogate pair, as in names from Windows, is no text in UTF-8. */
export function checkText(what: string, text: unknown, maxBytes: number): string {
  if (typeof text !== 'string') throw invalidOption(`${what}: a text is needed`);
  const stored = text.toWellFormed();
  if (stored.length * MAX_BYTES_PER_CHAR <= maxBytes) return stored;
  if (Buffer.byteLength(stored) <= maxBytes) return stored;
  throw invalidOption(`${what}: at most ${maxBytes} bytes, this has ${Buffer.byteLength(stored)}`);
}
