import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Disk, type DiskFile, hasCode } from '@stevedore/disk';
import { asError } from '@stevedore/wire';
import { formatRecord, type LogRecord, MAX_LINE_BYTES, parseRecord } from './log-record.js';

/**
 * The binlog records all changes of a storage: append-only files `binlog.000`, `binlog.001`,
 * … of text lines. A record is durable when `append` resolves; records that wait for a running
 * sync share the next one. An incomplete line after a crash was never acknowledged and is
 * truncated at the next start.
 *
 * A position is one number: the file's number times 2^32, plus the offset.
 */

export type Position = number;

const FILE = /^binlog\.(\d{3,6})$/;
const FILE_SPAN = 2 ** 32;
/** When a file is this long, the next one begins, as in FastDFS. */
const MAX_FILE_BYTES = 2 ** 30;
/** Bytes of the binlog's end kept in memory for senders. */
const RECENT_BYTES = 256 * 1024;
const READ_BYTES = 64 * 1024;
/** Lines that go into one write. */
const MAX_BATCH_LINES = 4096;

export interface Entry {
  readonly record: LogRecord;
  /** Where the next record begins. */
  readonly end: Position;
}

export interface Batch {
  readonly entries: readonly Entry[];
  /** Where to read on; unchanged at the end. */
  readonly next: Position;
  /** Lines that are not records. */
  readonly damaged: number;
}

interface Waiting {
  readonly line: Buffer;
  resolve(end: Position): void;
  reject(error: Error): void;
}

export interface BinlogOptions {
  readonly disk: Disk;
  /** `data/sync` of the first store path. */
  readonly directory: string;
  readonly onError: (error: Error) => void;
}

export class Binlog {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onError: (error: Error) => void;
  #file: DiskFile | undefined;
  #index = 0;
  #offset = 0;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #recent: Buffer[] = [];
  #recentBytes = 0;
  readonly #listeners = new Set<() => void>();
  #closed = false;

  constructor(options: BinlogOptions) {
    this.#disk = options.disk;
    this.#directory = options.directory;
    this.#onError = options.onError;
  }

  /** Opens or creates the last file and truncates an incomplete line at its end. */
  async open(): Promise<void> {
    const names = await this.#disk.list(this.#directory);
    const indexes = names.flatMap((name) => FILE.exec(name)?.[1] ?? []).map(Number);
    this.#index = Math.max(0, ...indexes);
    const path = this.#path(this.#index);
    const isNew = indexes.length === 0;
    const file = isNew ? await this.#disk.create(path) : await this.#disk.openToUpdate(path);
    try {
      const { size } = await file.stat();
      this.#offset = await endOfLines(file);
      if (this.#offset < size) await file.truncate(this.#offset);
      await file.sync();
      if (isNew) await this.#disk.syncDirectory(this.#directory);
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#file = file;
  }

  /** Where the next record will begin. */
  get end(): Position {
    return this.#index * FILE_SPAN + this.#offset;
  }

  get isEmpty(): boolean {
    return this.#index === 0 && this.#offset === 0;
  }

  /** Resolves with the record's end once it is durable. */
  append(record: LogRecord): Promise<Position> {
    if (this.#closed) return Promise.reject(new Error('the log is closed'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line: Buffer.from(formatRecord(record), 'latin1'), resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Reads some records from a position on; none at the end. */
  async read(from: Position): Promise<Batch> {
    const index = Math.floor(from / FILE_SPAN);
    const offset = from % FILE_SPAN;
    const recentFrom = this.#offset - this.#recentBytes;
    if (index === this.#index && offset >= recentFrom) {
      return batchOf(this.#recentFrom(offset - recentFrom), from);
    }
    if (index > this.#index) return { entries: [], next: from, damaged: 0 };
    const bytes = await this.#readFile(index, offset);
    if (bytes.length === 0 && index < this.#index) return this.read((index + 1) * FILE_SPAN);
    return batchOf(bytes, from);
  }

  /** Calls `listener` whenever the binlog grows, until the returned function is called. */
  onGrown(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Bytes between two positions; approximate if they are in different files. */
  distance(from: Position, to: Position): number {
    const files = Math.floor(to / FILE_SPAN) - Math.floor(from / FILE_SPAN);
    return files * MAX_FILE_BYTES + ((to % FILE_SPAN) - (from % FILE_SPAN));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    await this.#file?.close();
    this.#file = undefined;
  }

  async #write(): Promise<void> {
    // Requests that arrive together share a write.
    await nextTurn();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_BATCH_LINES);
      const lines = batch.map(({ line }) => line);
      try {
        await this.#append(lines);
        let end = this.end - lines.reduce((sum, line) => sum + line.length, 0);
        for (const { line, resolve } of batch) {
          end += line.length;
          resolve(end);
        }
      } catch (error) {
        for (const { reject } of batch) reject(asError(error));
      }
    }
    this.#writing = undefined;
  }

  async #append(lines: readonly Buffer[]): Promise<void> {
    if (this.#offset >= MAX_FILE_BYTES) await this.#nextFile();
    const file = this.#file;
    if (!file) throw new Error('the log is not open');
    const bytes = Buffer.concat(lines);
    try {
      if (file.writeDurablyAt) {
        await file.writeDurablyAt([bytes], this.#offset);
      } else {
        await file.writeAt([bytes], this.#offset);
        await file.sync();
      }
    } catch (error) {
      // Leftovers of these lines must not become part of the next ones.
      await file.truncate(this.#offset).catch((again: unknown) => this.#onError(asError(again)));
      throw error;
    }
    this.#offset += bytes.length;
    this.#remember(bytes);
    for (const listener of this.#listeners) listener();
  }

  async #nextFile(): Promise<void> {
    const file = await this.#disk.openToUpdate(this.#path(this.#index + 1));
    try {
      await file.truncate(0);
      await this.#disk.syncDirectory(this.#directory);
    } catch (error) {
      await file.close();
      throw error;
    }
    await this.#file?.close();
    this.#file = file;
    this.#index += 1;
    this.#offset = 0;
    this.#recent = [];
    this.#recentBytes = 0;
  }

  #remember(bytes: Buffer): void {
    this.#recent.push(bytes);
    this.#recentBytes += bytes.length;
    let [oldest] = this.#recent;
    while (oldest && this.#recentBytes - oldest.length > RECENT_BYTES) {
      this.#recentBytes -= oldest.length;
      this.#recent.shift();
      [oldest] = this.#recent;
    }
  }

  /** Bytes from memory, after skipping so many. */
  #recentFrom(skip: number): Buffer {
    const parts: Buffer[] = [];
    let before = skip;
    let bytes = 0;
    for (const part of this.#recent) {
      if (bytes >= READ_BYTES) break;
      if (before < part.length) {
        parts.push(part.subarray(before));
        bytes += part.length - before;
      }
      before = Math.max(before - part.length, 0);
    }
    const [only = Buffer.alloc(0), ...more] = parts;
    return more.length === 0 ? only : Buffer.concat(parts);
  }

  async #readFile(index: number, offset: number): Promise<Buffer> {
    const limit = index === this.#index ? this.#offset : Number.POSITIVE_INFINITY;
    let file: DiskFile;
    try {
      file = await this.#disk.openToRead(this.#path(index));
    } catch (error) {
      // An operator may have moved old files away.
      if (hasCode(error, 'ENOENT') && index < this.#index) return Buffer.alloc(0);
      throw error;
    }
    try {
      const bytes = Buffer.allocUnsafe(Math.max(Math.min(READ_BYTES, limit - offset), 0));
      return bytes.subarray(0, await file.readAt(bytes, offset));
    } finally {
      await file.close();
    }
  }

  #path(index: number): string {
    return join(this.#directory, `binlog.${String(index).padStart(3, '0')}`);
  }
}

/** Parses the complete lines; the next read starts after the last of them. */
function batchOf(bytes: Buffer, from: Position): Batch {
  const entries: Entry[] = [];
  let damaged = 0;
  let at = 0;
  for (;;) {
    const newline = bytes.indexOf(10, at);
    if (newline === -1) break;
    const record = parseRecord(bytes.toString('latin1', at, newline));
    at = newline + 1;
    if (record) entries.push({ record, end: from + at });
    else damaged += 1;
  }
  // A longer line is damage; skip to its end.
  if (at === 0 && bytes.length > MAX_LINE_BYTES)
    return { entries, next: from + bytes.length, damaged: 1 };
  return { entries, next: from + at, damaged };
}

/** Length of a file up to the end of its last complete line. */
export async function endOfLines(file: DiskFile): Promise<number> {
  for (let end = (await file.stat()).size; end > 0; ) {
    const from = Math.max(end - READ_BYTES, 0);
    const bytes = Buffer.allocUnsafe(end - from);
    const newline = bytes.subarray(0, await file.readAt(bytes, from)).lastIndexOf(10);
    if (newline !== -1) return from + newline + 1;
    end = from;
  }
  return 0;
}
