import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { parseFileName, parseSliceId } from '@stevedore/protocol';
import { asError } from '../errors.js';
import { METADATA_SUFFIX } from '../storage/layout.js';
import type { Binlog, Position } from './binlog.js';
import type { LogRecord } from './log-record.js';

/**
 * Names of files that have been deleted, each with the time of its deletion: a
 * member that was away sends what it still has, and must not bring them back. The
 * log is the truth; this is a table over it, kept as the hashes of the names, and
 * `deletions` is what of it a start need not read from the log again.
 *
 *     position  f64      the log up to here is in the table
 *     entries   12 each  64 bits of the name's SHA-1, deletion in unix seconds u32
 *
 * Of more than `maxEntries` names the older half is forgotten.
 */

const FILE = 'deletions';
const HEAD_BYTES = 8;
const ENTRY_BYTES = 12;
const DEFAULT_MAX_ENTRIES = 2 ** 19;
/** Deletions after which the table is written anew. */
const SAVE_EVERY = 2 ** 14;

export class Deletions {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onError: (error: Error) => void;
  readonly #maxEntries: number;
  /** Newer names; when it is full it becomes the older one. */
  #newer = new Map<bigint, number>();
  #older = new Map<bigint, number>();
  #unsaved = 0;
  #saving: Promise<void> = Promise.resolve();

  constructor(
    disk: Disk,
    directory: string,
    onError: (error: Error) => void,
    maxEntries = DEFAULT_MAX_ENTRIES,
  ) {
    this.#disk = disk;
    this.#directory = directory;
    this.#onError = onError;
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }

  /** Reads the table, and from the log what it lacks. */
  async load(log: Binlog): Promise<void> {
    let position: Position = 0;
    const bytes = await readSmallFile(this.#disk, join(this.#directory, FILE));
    if (bytes && (bytes.length - HEAD_BYTES) % ENTRY_BYTES === 0) {
      position = bytes.readDoubleBE(0);
      for (let at = HEAD_BYTES; at < bytes.length; at += ENTRY_BYTES) {
        this.#set(bytes.readBigUInt64BE(at), bytes.readUInt32BE(at + 8));
      }
    }
    // A log that is shorter than it was is another one.
    if (!(position >= 0 && position <= log.end)) position = 0;
    for (;;) {
      const { entries, next } = await log.read(position);
      if (next === position) break;
      for (const { record } of entries) this.note(record);
      position = next;
    }
    this.saveAtTimes(log.end);
  }

  /** Takes a record of the log into account. */
  note({ operation, name, extra, atSeconds }: LogRecord): void {
    const gone = operation === 'R' ? extra : name;
    if ((operation !== 'D' && operation !== 'R') || !isWholeFile(gone)) return;
    this.#set(hashOf(gone), atSeconds);
    this.#unsaved += 1;
  }

  /** When the file of this name was last deleted, unix seconds; undefined if it was not. */
  at(name: string): number | undefined {
    const hash = hashOf(name);
    return this.#newer.get(hash) ?? this.#older.get(hash);
  }

  /** Writes the table once in a while; `end`: the log up to here has been noted. */
  saveAtTimes(end: Position): void {
    if (this.#unsaved < SAVE_EVERY) return;
    void this.#saveSafely(end);
  }

  async close(end: Position): Promise<void> {
    if (this.#unsaved > 0) await this.#saveSafely(end);
    await this.#saving;
  }

  /** A table that cannot be written costs time at the next start, nothing else. */
  #saveSafely(end: Position): Promise<void> {
    this.#unsaved = 0;
    this.#saving = this.#saving
      .then(() => this.#save(end))
      .catch((error: unknown) => this.#onError(asError(error)));
    return this.#saving;
  }

  async #save(end: Position): Promise<void> {
    const all = [...this.#older, ...this.#newer];
    const bytes = Buffer.allocUnsafe(HEAD_BYTES + all.length * ENTRY_BYTES);
    bytes.writeDoubleBE(end, 0);
    for (const [index, [hash, seconds]] of all.entries()) {
      const at = HEAD_BYTES + index * ENTRY_BYTES;
      bytes.writeBigUInt64BE(hash, at);
      bytes.writeUInt32BE(seconds >>> 0, at + 8);
    }
    await replaceFile(this.#disk, this.#directory, FILE, bytes);
  }

  #set(hash: bigint, seconds: number): void {
    if (this.#newer.size >= this.#maxEntries / 2 && !this.#newer.has(hash)) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(hash, Math.max(seconds, this.#newer.get(hash) ?? 0));
  }
}

/** Slices have lists of their own, and metadata the times of its files. */
function isWholeFile(name: string): boolean {
  const id = parseFileName('group', name);
  return id !== undefined && !name.endsWith(METADATA_SUFFIX) && !parseSliceId(id);
}

function hashOf(name: string): bigint {
  return createHash('sha1').update(name, 'latin1').digest().readBigUInt64BE(0);
}
