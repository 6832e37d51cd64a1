import fs from 'node:fs';
import { promisify } from 'node:util';
import type { DiskFile, FileStat } from './disk.js';
import { MAX_SHORT_BYTES, ReadPace } from './read-pace.js';

const open = promisify(fs.open);
const close = promisify(fs.close);
const fdatasync = promisify(fs.fdatasync);
const fstat = promisify(fs.fstat);
const ftruncate = promisify(fs.ftruncate);
const futimes = promisify(fs.futimes);

/** What one writev takes at the most (IOV_MAX is 1024 on every system we know). */
const MAX_VECTORS = 1024;

/** Of all files: they lie on few disks, and mostly on one. */
const pace = new ReadPace();

/** Elsewhere it is unknown whether such writes pass the caches of the medium. */
const DURABLE_WRITE =
  process.platform === 'linux' ? fs.constants.O_WRONLY | fs.constants.O_DSYNC : undefined;

/**
 * A file of this machine, by its descriptor: the plain calls cost less for each
 * read than a FileHandle. Closing it is the user's business.
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

  constructor(fd: number) {
    this.#fd = fd;
  }

  async stat(): Promise<FileStat> {
    const stat = await fstat(this.#fd);
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
  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    return writeAll(this.#fd, chunks, position);
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

  setModified(seconds: number): Promise<void> {
    return futimes(this.#fd, seconds, seconds);
  }

  sync(): Promise<void> {
    return this.#inTurn(() => fdatasync(this.#fd));
  }

  async releaseDurable(): Promise<void> {
    await closeAll(this.#durable.splice(0));
  }

  close(): Promise<void> {
    return closeAll([...this.#durable.splice(0), this.#fd]);
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#synced.then(work);
    this.#synced = done.catch(() => undefined);
    return done;
  }
}

/** Rejects with the first failure, when all are closed that can be. */
async function closeAll(descriptors: readonly number[]): Promise<void> {
  const ended = await Promise.allSettled(descriptors.map((each) => close(each)));
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
}

/** The same file once more, whatever has become of its name. */
async function openDurable(fd: number): Promise<number | undefined> {
  if (DURABLE_WRITE === undefined) return undefined;
  return open(`/proc/self/fd/${fd}`, DURABLE_WRITE).catch(() => undefined);
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
