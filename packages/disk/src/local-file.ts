import fs from 'node:fs';
import { promisify } from 'node:util';
import type { DiskFile, FileStat } from './disk.js';
import { MAX_SHORT_BYTES, Pace } from './pace.js';

const open = promisify(fs.open);
const fdatasync = promisify(fs.fdatasync);
const ftruncate = promisify(fs.ftruncate);
const futimes = promisify(fs.futimes);

/** What one writev takes at the most (IOV_MAX is 1024 on every system we know). */
const MAX_VECTORS = 1024;

/** Of all files: they lie on few disks, and mostly on one. */
const pace = new Pace();

/**
 * The flag for writes that are on the medium when they return, or 0: elsewhere it is unknown
 * whether such writes pass the caches of the medium.
 */
export const DURABLE_WRITES = process.platform === 'linux' ? fs.constants.O_DSYNC : 0;

/**
 * A file of this machine, by its descriptor: the plain calls cost less for each
 * read than a FileHandle. Closing it is the user's business. Calls that the system answers
 * from memory (`stat`, `close`) are made at once: handing one to a thread of Node's pool
 * costs ten times as much as the call.
 */
export class LocalFile implements DiskFile {
  readonly #fd: number;
  /**
   * Descriptors for durable writes that are not in use. The system tells each descriptor of
   * a failed write once: two writes through one could each get the other's answer.
   */
  readonly #durable: number[] = [];
  /** Syncs one after the other, for the same reason: they share one descriptor. */
  #synced: Promise<void> = Promise.resolve();

  /** What was opened with DURABLE_WRITES needs no sync once it has been written. */
  readonly #writesAreDurable: boolean;
  #isWritten = false;

  constructor(fd: number, writesAreDurable = false) {
    this.#fd = fd;
    this.#writesAreDurable = writesAreDurable;
  }

  async stat(): Promise<FileStat> {
    const stat = fs.fstatSync(this.#fd);
    return {
      size: stat.size,
      mtimeSeconds: Math.floor(stat.mtimeMs / 1000),
      isFile: stat.isFile(),
    };
  }

  /** One system call, unless the system gives less than there is. */
  async readAt(target: Buffer, position: number): Promise<number> {
    const began = performance.now();
    if (target.length <= MAX_SHORT_BYTES && pace.isShort(began)) {
      const count = readNow(this.#fd, target, position);
      const ended = performance.now();
      pace.note(ended - began, ended);
      return count;
    }
    let filled = 0;
    while (filled < target.length) {
      const count = await read(this.#fd, target, filled, position + filled);
      if (count === 0) break;
      filled += count;
    }
    return filled;
  }

  /** One system call for up to a thousand chunks; a disk that takes less gets the rest in more. */
  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    await writeAll(this.#fd, chunks, position);
    this.#isWritten ||= chunks.some(({ length }) => length > 0);
  }

  /** One system call through a descriptor of its own, instead of two one after the other. */
  async writeDurablyAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
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

  /** A file that was written this second has its time. */
  async setModified(seconds: number): Promise<void> {
    if ((await this.stat()).mtimeSeconds !== seconds) await futimes(this.#fd, seconds, seconds);
  }

  sync(): Promise<void> {
    if (this.#writesAreDurable && this.#isWritten) return Promise.resolve();
    return this.#inTurn(() => fdatasync(this.#fd));
  }

  async releaseDurable(): Promise<void> {
    closeAll(this.#durable.splice(0));
  }

  async close(): Promise<void> {
    closeAll([...this.#durable.splice(0), this.#fd]);
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#synced.then(work);
    this.#synced = done.catch(() => undefined);
    return done;
  }
}

/** Throws the first failure, when all are closed that can be. */
function closeAll([first, ...others]: readonly number[]): void {
  if (first === undefined) return;
  try {
    fs.closeSync(first);
  } finally {
    closeAll(others);
  }
}

/** The same file once more, whatever has become of its name. */
async function openDurable(fd: number): Promise<number | undefined> {
  if (DURABLE_WRITES === 0) return undefined;
  return open(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY | DURABLE_WRITES).catch(() => undefined);
}

async function writeAll(
  fd: number,
  chunks: readonly Uint8Array[],
  position: number,
): Promise<void> {
  let left = chunks.filter((chunk) => chunk.length > 0);
  let at = position;
  while (left.length > 0) {
    const written = await writev(fd, left.slice(0, MAX_VECTORS), at);
    if (written === 0) throw new Error(`nothing could be written at byte ${at}`);
    at += written;
    left = withoutFirst(left, written);
  }
}

function withoutFirst(chunks: readonly Uint8Array[], count: number): Uint8Array[] {
  let skip = count;
  let index = 0;
  while (index < chunks.length && skip >= chunks[index]!.length) {
    skip -= chunks[index]!.length;
    index += 1;
  }
  const rest = chunks.slice(index);
  if (skip > 0) rest[0] = rest[0]!.subarray(skip);
  return rest;
}

function writev(fd: number, chunks: Uint8Array[], position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.writev(fd, chunks, position, (error, written) => (error ? reject(error) : resolve(written)));
  });
}

function readNow(fd: number, target: Buffer, position: number): number {
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
