import { readFileSync, statSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { type Disk, hasCode, privateDisk } from '@stevedore/disk';
import { openDatabase } from '@stevedore/disk/sqlite';
import { parseOrigin } from './container/recovery.js';
import { Segment, Unreadable } from './container/segment.js';
import { Spool } from './container/spool.js';
import { StoreError } from './errors.js';
import { FileMapQueries } from './filemap/queries.js';
import type { FileRow } from './filemap/rows.js';
import type { WaitingFiles } from './merge/waiting-files.js';
import type { LocalBytes } from './repair/local-bytes.js';
import type { Quarantine } from './repair/quarantine.js';
import { isRebuilt } from './repair/rebuild.js';
import type { Staging } from './staging.js';

/**
 * Reads the staging directory of another process on this machine, while that process runs and after
 * it has died. SQLite's log (WAL) lets other processes read, so files that the owner acknowledged
 * or deleted are seen at once. Segments may be removed meanwhile: if bytes do not match the CRC-32
 * of their row, the row is looked up again. Nothing is written.
 */

/** The parts of staging that a reader needs, of this process or of a sibling. */
export interface ReadableStaging {
  readonly fileMap: FileMapQueries & Pick<Staging['fileMap'], 'setBlocks'>;
  readonly local: Pick<LocalBytes, 'has' | 'readNow' | 'read' | 'rollBackMove' | 'noteDamage'>;
  readonly spool: Pick<Spool, 'read'>;
  readonly quarantine: Pick<Quarantine, 'holders'>;
  readonly rebuild: { readonly isComplete: boolean };
  readonly files: Pick<WaitingFiles, 'isPacking'>;
}

const BUSY_TIMEOUT_MS = 1_000;
/** Maximum segments kept open, except those being read. */
const MAX_SEGMENTS = 32;
const KEEP_OPEN_MS = 5_000;

export class SiblingView implements ReadableStaging {
  readonly #directory: string;
  readonly #segments: SegmentReaders;
  readonly spool: Spool;
  readonly local: ReadableStaging['local'];
  readonly quarantine: ReadableStaging['quarantine'];
  readonly rebuild: ReadableStaging['rebuild'];
  /** Only the owner knows which files it is packing. */
  readonly files = { isPacking: () => false };
  #opened: OpenedFileMap | undefined;
  #origin: number | undefined;

  constructor(directory: string, disk: Disk = privateDisk) {
    this.#directory = directory;
    this.#segments = new SegmentReaders(disk, `${directory}/container`);
    this.spool = new Spool(disk, `${directory}/spool`);
    const view = this;
    this.local = {
      // A missing copy is detected when it is read.
      has: ({ local }) => local.at === 'spool' || local.segment > 0,
      readNow: () => undefined,
      read: (row) => this.#read(row),
      rollBackMove: async () => false,
      // The owner finds the damage when it reads or scrubs.
      noteDamage: () => undefined,
    };
    this.quarantine = { holders: (key) => this.fileMap.damagedHolders(key) };
    this.rebuild = {
      get isComplete() {
        return isRebuilt(view.fileMap);
      },
    };
  }

  /** The origin of its keys; undefined while its directory is being created. */
  get origin(): number | undefined {
    this.#origin ??= readOriginNow(this.#directory);
    return this.#origin;
  }

  /** Throws `storage_unavailable` while there is no readable FileMap. */
  get fileMap(): ReadableStaging['fileMap'] {
    this.#opened ??= this.#open();
    return this.#opened.queries;
  }

  /** Reopens the FileMap if its owner has restarted with another file, or another origin. */
  lookAgain(): void {
    this.#origin = undefined;
    if (this.#opened && inodeOf(this.#path) !== this.#opened.inode) this.#close();
  }

  close(): void {
    this.#close();
    this.#segments.close();
  }

  get #path(): string {
    return `${this.#directory}/filemap.sqlite`;
  }

  #close(): void {
    this.#opened?.close();
    this.#opened = undefined;
  }

  #open(): OpenedFileMap {
    try {
      const inode = inodeOf(this.#path);
      const database = openDatabase(this.#path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
      try {
        const queries = Object.assign(new FileMapQueries(database), {
          setBlocks: () => ({ changes: 0 }),
        });
        return { inode, queries, close: () => database.close() };
      } catch (error) {
        database.close();
        throw error;
      }
    } catch (error) {
      throw new StoreError(
        'storage_unavailable',
        `the FileMap of ${this.#directory} cannot be read now: ${(error as Error).message}`,
        { cause: error },
      );
    }
  }

  /** Undefined if FastDFS has the file and this disk does not. */
  async #read({ key, local, size, crc32: expected, trunk }: FileRow): Promise<Buffer | undefined> {
    const bytes = await this.#segments.read(local.segment, local.position, size);
    if (bytes?.length === size && crc32(bytes) === expected) return bytes;
    if (trunk) return undefined;
    throw new StoreError(
      'corrupt',
      `the staged bytes of ${key.toString('base64url')} are not those that were stored`,
    );
  }
}

interface OpenedFileMap {
  readonly inode: number;
  readonly queries: ReadableStaging['fileMap'];
  readonly close: () => void;
}

function inodeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? 0;
}

function readOriginNow(directory: string): number | undefined {
  try {
    return parseOrigin(readFileSync(`${directory}/origin`, 'utf8'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

interface OpenSegment {
  readonly opened: Promise<Segment | undefined>;
  readers: number;
}

/**
 * Segments of another process, kept open for a moment only: a removed one occupies space until it
 * is closed.
 */
class SegmentReaders {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #open = new Map<number, OpenSegment>();
  #sweeping: NodeJS.Timeout | undefined;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  async read(number: number, position: number, size: number): Promise<Buffer | undefined> {
    let open = this.#open.get(number);
    if (!open) {
      if (this.#open.size >= MAX_SEGMENTS) this.close();
      open = { opened: Segment.openToRead(this.#disk, this.#folder, number), readers: 0 };
      this.#open.set(number, open);
      this.#sweeping ??= setInterval(() => this.close(), KEEP_OPEN_MS).unref();
    }
    open.readers += 1;
    try {
      const segment = await open.opened;
      return await segment?.readFirmly(position, size);
    } catch (error) {
      if (error instanceof Unreadable) return undefined;
      throw error;
    } finally {
      open.readers -= 1;
    }
  }

  /** Closes the segments that nobody reads. */
  close(): void {
    for (const [number, { opened, readers }] of this.#open) {
      if (readers > 0) continue;
      this.#open.delete(number);
      opened.then((segment) => segment?.close()).catch(() => undefined);
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}
