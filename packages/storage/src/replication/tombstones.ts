import { createHash } from 'node:crypto';
import type { Disk } from '@stevedore/disk';
import { parseFileName, parseSliceId } from '@stevedore/protocol';
import { METADATA_SUFFIX } from '../layout.js';
import { SavedFile } from '../saved-file.js';
import type { Binlog, Position } from './binlog.js';
import type { LogRecord } from './log-record.js';

/**
 * Tombstones: the names of deleted files, with the times of their deletions, until every
 * member has acknowledged them. A member without the deletion may still send the file, which
 * must not come back. This is an index of the binlog, by hashes of the names; the file
 * `deletions` saves a start from reading the whole binlog.
 *
 *     position  f64      the binlog up to here is in the table
 *     entries   20 each  64 bits of the name's SHA-1, deletion in unix seconds u32, end of
 *                        its record in the binlog f64
 *
 * Beyond `maxEntries` names the oldest is dropped.
 */

const FILE = 'deletions';
const HEAD_BYTES = 8;
const ENTRY_BYTES = 20;
const DEFAULT_MAX_ENTRIES = 2 ** 20;
/** New tombstones after which the table is written again. */
const SAVE_EVERY = 2 ** 14;
/** The position of a record that is not in the binlog yet. */
const PENDING: Position = Number.MAX_SAFE_INTEGER;

interface Tombstone {
  readonly seconds: number;
  readonly position: Position;
}

export class Tombstones {
  readonly #file: SavedFile;
  readonly #onError: (error: Error) => void;
  readonly #maxEntries: number;
  /** In the order of the binlog. */
  readonly #all = new Map<bigint, Tombstone>();
  #unsaved = 0;
  #isOverfull = false;

  constructor(
    disk: Disk,
    directory: string,
    onError: (error: Error) => void,
    maxEntries = DEFAULT_MAX_ENTRIES,
  ) {
    this.#file = new SavedFile(disk, directory, FILE, onError);
    this.#onError = onError;
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Reads the table, then the rest of the binlog. */
  async load(log: Binlog): Promise<void> {
    let read: Position = 0;
    const bytes = await this.#file.load();
    const isTable = bytes && (bytes.length - HEAD_BYTES) % ENTRY_BYTES === 0;
    const until = isTable ? bytes.readDoubleBE(0) : 0;
    // A binlog shorter than the table's position is a different one.
    if (isTable && until >= 0 && until <= log.end) {
      read = until;
      for (let at = HEAD_BYTES; at < bytes.length; at += ENTRY_BYTES) {
        const seconds = bytes.readUInt32BE(at + 8);
        const position = bytes.readDoubleBE(at + 12);
        this.#set(bytes.readBigUInt64BE(at), { seconds, position });
      }
    }
    for (;;) {
      const { entries, next } = await log.read(read);
      if (next === read) break;
      for (const { record, end } of entries) this.note(record, end);
      read = next;
    }
    this.saveAtTimes(log.end);
  }

  /** Adds a record's deletion: before it is in the binlog, and again with its end after. */
  note({ operation, name, extra, atSeconds }: LogRecord, end: Position = PENDING): void {
    const gone = operation === 'R' ? extra : name;
    if ((operation !== 'D' && operation !== 'R') || !isWholeFile(gone)) return;
    this.#set(hashOf(gone), { seconds: atSeconds, position: end });
    this.#unsaved += 1;
  }

  /** When the file of this name was last deleted, unix seconds; undefined if it was not. */
  at(name: string): number | undefined {
    return this.#all.get(hashOf(name))?.seconds;
  }

  /** Drops the tombstones up to `until`, which all members have acknowledged. */
  forget(until: Position): void {
    for (const [hash, { position }] of this.#all) {
      if (position > until) return;
      this.#all.delete(hash);
    }
    this.#isOverfull = false;
  }

  /** Writes the table every `SAVE_EVERY` tombstones; it has the binlog up to `end`. */
  saveAtTimes(end: Position): void {
    if (this.#unsaved >= SAVE_EVERY) this.#save(end);
  }

  async close(end: Position): Promise<void> {
    if (this.#unsaved > 0) this.#save(end);
    await this.#file.settled;
  }

  /** A failed write only makes the next start slower. */
  #save(end: Position): void {
    this.#unsaved = 0;
    void this.#file.saveLater(() => this.#table(end));
  }

  #table(end: Position): Buffer {
    const all = [...this.#all].filter(([, { position }]) => position <= end);
    const bytes = Buffer.allocUnsafe(HEAD_BYTES + all.length * ENTRY_BYTES);
    bytes.writeDoubleBE(end, 0);
    for (const [index, [hash, { seconds, position }]] of all.entries()) {
      const at = HEAD_BYTES + index * ENTRY_BYTES;
      bytes.writeBigUInt64BE(hash, at);
      bytes.writeUInt32BE(seconds >>> 0, at + 8);
      bytes.writeDoubleBE(position, at + 12);
    }
    return bytes;
  }

  #set(hash: bigint, { seconds, position }: Tombstone): void {
    const known = this.#all.get(hash)?.seconds ?? 0;
    this.#all.delete(hash);
    this.#all.set(hash, { seconds: Math.max(seconds, known), position });
    if (this.#all.size <= this.#maxEntries) return;
    for (const oldest of this.#all.keys()) {
      this.#all.delete(oldest);
      break;
    }
    if (this.#isOverfull) return;
    this.#isOverfull = true;
    this.#onError(
      new Error(
        `A member of the storage group lacks more than ${this.#maxEntries} deletions, and the oldest are ` +
          'forgotten: if it has been away, start it again without its files.',
      ),
    );
  }
}

/** Slices have lists of their own, and metadata has modification times: no tombstones. */
export function isWholeFile(name: string): boolean {
  const id = parseFileName('group', name);
  return id !== undefined && !name.endsWith(METADATA_SUFFIX) && !parseSliceId(id);
}

function hashOf(name: string): bigint {
  return createHash('sha1').update(name, 'latin1').digest().readBigUInt64BE(0);
}
