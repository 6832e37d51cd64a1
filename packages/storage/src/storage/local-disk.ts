import { constants } from 'node:fs';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  stat,
  statfs,
  symlink,
  unlink,
} from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from '../errors.js';
import type { DiskFile, StorageDisk } from './disk.js';

/** Windows has no such flag, and no links without privileges. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;

/** The disk of this machine. */
export const localDisk: StorageDisk = {
  create: async (path) => localFile(await open(path, 'wx+')),
  openToRead: async (path) => localFile(await open(path, constants.O_RDONLY | NO_FOLLOW)),
  openToUpdate: async (path) =>
    localFile(await open(path, constants.O_RDWR | constants.O_CREAT | NO_FOLLOW, 0o644)),
  makeLink: symlink,
  async readLink(path) {
    const [target, { mtimeMs }] = await Promise.all([readlink(path), lstat(path)]);
    return { target, mtimeSeconds: Math.floor(mtimeMs / 1000) };
  },
  rename,
  unlink,
  async exists(path) {
    try {
      await lstat(path);
      return true;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    }
  },
  makeDirectory,
  async syncDirectory(path) {
    // Windows cannot open directories; its file systems journal renames by themselves.
    if (process.platform === 'win32') return;
    const directory = await open(path, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  },
  async list(path) {
    try {
      return await readdir(path);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return [];
      throw error;
    }
  },
  async space(path) {
    const { bsize, blocks, bavail } = await statfs(path);
    return { totalBytes: bsize * blocks, freeBytes: bsize * bavail };
  },
};

/**
 * Not mkdir's own recursion: where the system answers ENOENT although the
 * directory above is there (as /proc does), that one tries for ever.
 */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectory(dirname(path));
    await mkdir(path).catch((again: unknown) => {
      if (codeOf(again) !== 'EEXIST') throw again;
    });
  }
}

function localFile(handle: FileHandle): DiskFile {
  return {
    async stat() {
      const stat = await handle.stat();
      return {
        size: stat.size,
        mtimeSeconds: Math.floor(stat.mtimeMs / 1000),
        isFile: stat.isFile(),
      };
    },
    async readAt(target, position) {
      let done = 0;
      while (done < target.length) {
        const { bytesRead } = await handle.read(
          target,
          done,
          target.length - done,
          position + done,
        );
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return done;
    },
    writeAt: (chunks, position) => writeAll(handle, chunks, position),
    truncate: (size) => handle.truncate(size),
    setModified: (seconds) => handle.utimes(seconds, seconds),
    sync: () => handle.datasync(),
    close: () => handle.close(),
  };
}

/** One system call for all chunks; a disk that takes less gets the rest in further ones. */
async function writeAll(
  handle: FileHandle,
  chunks: readonly Buffer[],
  position: number,
): Promise<void> {
  let left = [...chunks];
  let at = position;
  while (left.length > 0) {
    let { bytesWritten } = await handle.writev(left, at);
    at += bytesWritten;
    const rest: Buffer[] = [];
    for (const chunk of left) {
      if (bytesWritten < chunk.length) rest.push(chunk.subarray(bytesWritten));
      bytesWritten = Math.max(bytesWritten - chunk.length, 0);
    }
    left = rest;
  }
}
