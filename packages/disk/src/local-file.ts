import fs from 'node:fs';
import { promisify } from 'node:util';
import type { DiskFile, FileStat } from './disk.js';
import { MAX_SHORT_BYTES, type Paces, promptly } from './pace.js';

const close = promisify(fs.close);
const open = promisify(fs.open);
const fdatasync = promisify(fs.fdatasync);
const ftruncate = promisify(fs.ftruncate);
const futimes = promisify(fs.futimes);

/** Most vectors of one writev (IOV_MAX is 1024 on every system we know). */
const MAX_VECTORS = 1024;

/** No descriptor has this number. */
const CLOSED = -1;

/**
 * Open flag for durable writes. 0 elsewhere, because it is unknown whether such writes pass the
 * caches of the medium.
 */
export const DURABLE_WRITES = process.platform === 'linux' ? fs.constants.O_DSYNC : 0;

/** With every write: it was opened with DURABLE_WRITES. */
export type Syncing = 'when asked' | 'every write' | 'never';

/** At once: while the system only takes the bytes into its memory. */
export type ShortWrites = 'at once' | 'in a thread';

/**
 * A local file by its descriptor, because plain calls cost less per read than a FileHandle. The
 * user must close it. `stat` and `close` are synchronous: the system answers them from memory, and
 * handing such a call to a thread of Node's pool costs ten times as much. A long file is closed in a
 * thread: if it was unlinked, the system frees it then, which takes 20 ms for 64 MiB.
 */
export class LocalFile implements DiskFile {
  #fd: number;
  /**
   * Unused descriptors for durable writes. The system reports a failed write once per descriptor:
   * two writes through one could each get the other's answer.
   */
  readonly #durable: number[] = [];
  /** Serializes syncs, for the same reason: they share one descriptor. */
  #synced: Promise<void> = Promise.resolve();

  readonly #paces: Paces;
  readonly #syncing: Syncing;
  readonly #shortWrites: ShortWrites;
  #isWritten = false;

  constructor(
    fd: number,
    paces: Paces,
    syncing: Syncing = 'when asked',
    shortWrites: ShortWrites = 'at once',
  ) {
    this.#fd = fd;
    this.#paces = paces;
    this.#syncing = syncing;
    this.#shortWrites = shortWrites;
  }

  async stat(): Promise<FileStat> {
    const stat = fs.fstatSync(this.#fd);
    return {
      size: stat.size,
      mtimeSeconds: Math.floor(stat.mtimeMs / 1000),
      isFile: stat.isFile(),
    };
  }

  /** One system call, unless it returns fewer bytes than the file has. */
  async readAt(target: Buffer, position: number): Promise<number> {
    const count = this.readNow(target, position);
    if (count !== undefined) return count;
    let filled = 0;
    while (filled < target.length) {
      const count = await read(this.#fd, target, filled, position + filled);
      if (count === 0) break;
      filled += count;
    }
    return filled;
  }

  readNow(target: Buffer, position: number): number | undefined {
    const began = performance.now();
    if (target.length > MAX_SHORT_BYTES || !this.#paces.reads.isShort(began)) return undefined;
    const count = readSync(this.#fd, target, position);
    const ended = performance.now();
    this.#paces.reads.note(ended - began, ended);
    return count;
  }

  /**
   * One system call for up to `MAX_VECTORS` chunks; more only after a short write.
   */
  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
    const later = (): Promise<void> => writeAll(this.#fd, chunks, position);
    const isAtOnce = this.#shortWrites === 'at once' && this.#syncing !== 'every write';
    if (!isAtOnce || bytes > MAX_SHORT_BYTES) await later();
    else await promptly(this.#paces.changes, () => writeNow(this.#fd, chunks, position), later);
    this.#isWritten ||= bytes > 0;
  }

  /** One system call through a descriptor of its own, instead of a write and a sync. */
  async writeDurablyAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    if (this.#syncing === 'never') return this.writeAt(chunks, position);
    const durable = this.#durable.pop() ?? (await openDurable(this.#fd));
    if (durable === undefined) {
      return this.#inTurn(async () => {
        await this.writeAt(chunks, position);
        await fdatasync(this.#fd);
      });
    }
    try {
      await writeAll(durable, chunks, position);
    } finally {
      this.#durable.push(durable);
    }
  }

  truncate(size: number): Promise<void> {
    return ftruncate(this.#fd, size);
  }

  /** Saves the call for a file written this second. */
  async setModified(seconds: number): Promise<void> {
    if (mtimeOf(this.#fd) !== seconds) await futimes(this.#fd, seconds, seconds);
  }

  sync(): Promise<void> {
    if (this.#syncing === 'never' && this.#fd !== CLOSED) return Promise.resolve();
    if (this.#syncing === 'every write' && this.#isWritten) return Promise.resolve();
    return this.#inTurn(() => fdatasync(this.#fd));
  }

  async releaseDurable(): Promise<void> {
    closeAll(this.#durable.splice(0));
  }

  /** From here on every call fails, another `close` too: the number may be another file's by then. */
  async close(): Promise<void> {
    const fd = this.#fd;
    this.#fd = CLOSED;
    try {
      closeAll(this.#durable.splice(0));
    } finally {
      if (isShort(fd)) fs.closeSync(fd);
      else await close(fd);
    }
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#synced.then(work);
    this.#synced = done.catch(() => undefined);
    return done;
  }
}

/** False if it cannot be found out. */
function isShort(fd: number): boolean {
  try {
    return fs.fstatSync(fd).size <= MAX_SHORT_BYTES;
  } catch {
    return false;
  }
}

/** At once, to a file that was just created. */
export function writeWhole(fd: number, chunks: readonly Uint8Array[], mtimeSeconds: number): void {
  writeNow(fd, chunks, 0);
  if (mtimeOf(fd) !== mtimeSeconds) fs.futimesSync(fd, mtimeSeconds, mtimeSeconds);
}

function mtimeOf(fd: number): number {
  return Math.floor(fs.fstatSync(fd).mtimeMs / 1000);
}

/** Closes all descriptors, then throws the last failure. */
function closeAll([first, ...others]: readonly number[]): void {
  if (first === undefined) return;
  try {
    fs.closeSync(first);
  } finally {
    closeAll(others);
  }
}

/** Opens the file again, even if it was renamed or unlinked; undefined if that fails. */
async function openDurable(fd: number): Promise<number | undefined> {
  if (DURABLE_WRITES === 0) return undefined;
  return open(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY | DURABLE_WRITES).catch(() => undefined);
}

async function writeAll(
  fd: number,
  chunks: readonly Uint8Array[],
  position: number,
): Promise<void> {
  const left = new Unwritten(chunks, position);
  while (left.next.length > 0) left.note(await writev(fd, left.next, left.position));
}

function writeNow(fd: number, chunks: readonly Uint8Array[], position: number): void {
  const left = new Unwritten(chunks, position);
  while (left.next.length > 0) left.note(fs.writevSync(fd, left.next, left.position));
}

/** What is left of chunks that the system may write in several parts. */
class Unwritten {
  position: number;
  #left: Uint8Array[];

  constructor(chunks: readonly Uint8Array[], position: number) {
    this.position = position;
    this.#left = chunks.filter((chunk) => chunk.length > 0);
  }

  /** For one call; empty once all is written. */
  get next(): Uint8Array[] {
    return this.#left.length <= MAX_VECTORS ? this.#left : this.#left.slice(0, MAX_VECTORS);
  }

  note(written: number): void {
    if (written === 0) throw new Error(`nothing could be written at byte ${this.position}`);
    this.position += written;
    this.#left = withoutFirst(this.#left, written);
  }
}

function withoutFirst(chunks: readonly Uint8Array[], count: number): Uint8Array[] {
  const rest: Uint8Array[] = [];
  let skip = count;
  for (const chunk of chunks) {
    if (skip < chunk.length) rest.push(skip > 0 ? chunk.subarray(skip) : chunk);
    skip = Math.max(0, skip - chunk.length);
  }
  return rest;
}

function writev(fd: number, chunks: Uint8Array[], position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.writev(fd, chunks, position, (error, written) => (error ? reject(error) : resolve(written)));
  });
}

function readSync(fd: number, target: Buffer, position: number): number {
  let filled = 0;
  while (filled < target.length) {
    const left = target.length - filled;
    const count = fs.readSync(fd, target, filled, left, position + filled);
    if (count === 0) break;
    filled += count;
  }
  return filled;
}

function read(fd: number, target: Buffer, offset: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, offset, target.length - offset, position, (error, count) =>
      error ? reject(error) : resolve(count),
    );
  });
}
