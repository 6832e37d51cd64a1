import fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

/**
 * The one door to the file system: everything the container writes, reads, syncs
 * or renames goes through a `Disk`, so that a test can lose what was not synced.
 */
export interface Disk {
  /** Creates a file that must not exist yet. */
  create(path: string): Promise<DiskFile>;
  openForReading(path: string): Promise<DiskFile>;
  /** Names in a folder; an empty list when there is no such folder. */
  list(folder: string): Promise<string[]>;
  makeFolder(path: string): Promise<void>;
  readText(path: string): Promise<string | undefined>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Makes creations, renames and removals in the folder durable. */
  syncFolder(path: string): Promise<void>;
  /** Bytes free for this process on the disk of the folder. */
  freeBytes(folder: string): Promise<number>;
}

export interface DiskFile {
  /** Writes all of the buffers, one behind the other. */
  write(buffers: readonly Uint8Array[], position: number): Promise<void>;
  /** Fills the buffer; resolves with fewer bytes only at the end of the file. */
  read(target: Buffer, position: number): Promise<number>;
  size(): Promise<number>;
  truncate(bytes: number): Promise<void>;
  /** Makes the file's bytes and length durable. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

const open = promisify(fs.open);
const close = promisify(fs.close);
const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);
const fstat = promisify(fs.fstat);
const ftruncate = promisify(fs.ftruncate);

/** What one writev takes at the most (IOV_MAX is 1024 on every system we know). */
const MAX_VECTORS = 1024;

class RealFile implements DiskFile {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  async write(buffers: readonly Uint8Array[], position: number): Promise<void> {
    let left = [...buffers];
    let at = position;
    while (left.length > 0) {
      const written = await writev(this.#fd, left.slice(0, MAX_VECTORS), at);
      if (written === 0) throw new Error(`nothing could be written at byte ${at}`);
      at += written;
      left = withoutFirst(left, written);
    }
  }

  async read(target: Buffer, position: number): Promise<number> {
    let filled = 0;
    while (filled < target.length) {
      const count = await read(this.#fd, target, filled, position + filled);
      if (count === 0) break;
      filled += count;
    }
    return filled;
  }

  async size(): Promise<number> {
    return (await fstat(this.#fd)).size;
  }

  truncate(bytes: number): Promise<void> {
    return ftruncate(this.#fd, bytes);
  }

  sync(): Promise<void> {
    return fdatasync(this.#fd);
  }

  close(): Promise<void> {
    return close(this.#fd);
  }
}

export const realDisk: Disk = {
  create: async (path) => new RealFile(await open(path, 'wx+')),
  openForReading: async (path) => new RealFile(await open(path, 'r')),
  async list(folder) {
    try {
      return await fs.promises.readdir(folder);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    }
  },
  makeFolder,
  async readText(path) {
    try {
      return await fs.promises.readFile(path, 'utf8');
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
  },
  rename: (from, to) => fs.promises.rename(from, to),
  remove: (path) => fs.promises.rm(path, { force: true }),
  async freeBytes(folder) {
    const { bavail, bsize } = await fs.promises.statfs(folder);
    return bavail * bsize;
  },
  async syncFolder(path) {
    const fd = await open(path, 'r');
    try {
      await fsync(fd);
    } finally {
      await close(fd);
    }
  },
};

/**
 * Makes the folder and those above it. Node's own recursive mkdir never ends where a
 * system answers ENOENT although the parent is there, as /proc does.
 */
async function makeFolder(path: string): Promise<void> {
  try {
    await fs.promises.mkdir(path);
  } catch (error) {
    if (hasCode(error, 'EEXIST') && (await fs.promises.stat(path)).isDirectory()) return;
    if (!hasCode(error, 'ENOENT') || (await isFolder(dirname(path)))) throw error;
    await makeFolder(dirname(path));
    await fs.promises.mkdir(path);
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await fs.promises.stat(path)).isDirectory();
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}

/** True for an error of the system with this code (`ENOENT`, `ENOSPC`, ...). */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === code;
}

/** Writes a small file so that after a crash it is there whole or not at all. */
export async function writeFileDurably(
  disk: Disk,
  folder: string,
  name: string,
  text: string,
): Promise<void> {
  const temporary = `${folder}/${name}.new`;
  await disk.remove(temporary);
  const file = await disk.create(temporary);
  try {
    await file.write([Buffer.from(text)], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, `${folder}/${name}`);
  await disk.syncFolder(folder);
}

function withoutFirst(buffers: readonly Uint8Array[], count: number): Uint8Array[] {
  let skip = count;
  let index = 0;
  while (index < buffers.length && skip >= buffers[index]!.length) {
    skip -= buffers[index]!.length;
    index += 1;
  }
  const rest = buffers.slice(index);
  if (skip > 0) rest[0] = rest[0]!.subarray(skip);
  return rest;
}

function writev(fd: number, buffers: Uint8Array[], position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.writev(fd, buffers, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}

function read(fd: number, target: Buffer, offset: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, offset, target.length - offset, position, (error, count) =>
      error ? reject(error) : resolve(count),
    );
  });
}
