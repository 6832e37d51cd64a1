import fs from 'node:fs';
import { mkdir, readdir, readlink, statfs, symlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { CreatedNow, Disk } from './disk.js';
import { hasCode } from './disk.js';
import { DURABLE_WRITES, LocalFile, type Syncing, writeWhole } from './local-file.js';
import { MAX_SHORT_BYTES, paces, promptly } from './pace.js';

const { constants } = fs;
// They are cheaper than those of `fs/promises`, most of all when they fail.
const open = promisify(fs.open);
const fsync = promisify(fs.fsync);
const lstat = promisify(fs.lstat);
const rename = promisify(fs.rename);
const unlink = promisify(fs.unlink);

/**
 * Names originate from clients, so a link put in the place of a file is not followed. Windows has
 * no such flag, and no links without privileges.
 */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
/** Opening a pipe must not block a thread. */
const READ = constants.O_RDONLY | NO_FOLLOW | (constants.O_NONBLOCK ?? 0);
const CREATE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
const UPDATE = constants.O_RDWR | constants.O_CREAT | NO_FOLLOW;
const FILE_MODE = 0o644;
const DIRECTORY_MODE = 0o755;
const PRIVATE_FILE_MODE = 0o600;
const PRIVATE_DIRECTORY_MODE = 0o700;

const local = {
  create: (path, isWrittenOnce) => create(path, syncingOf(isWrittenOnce)),
  openToRead: async (path) =>
    new LocalFile(
      await promptly(
        paces.looks,
        () => fs.openSync(path, READ),
        () => open(path, READ),
      ),
    ),
  readNow,
  openToUpdate: async (path) => new LocalFile(await open(path, UPDATE, FILE_MODE)),
  makeLink: symlink,
  async readLink(path) {
    const [target, { mtimeMs }] = await Promise.all([readlink(path), lstat(path)]);
    return { target, mtimeSeconds: Math.floor(mtimeMs / 1000) };
  },
  rename: (from, to) =>
    promptly(
      paces.changes,
      () => fs.renameSync(from, to),
      () => rename(from, to),
    ),
  unlink,
  exists: (path) =>
    promptly(
      paces.looks,
      () => exists(path),
      () => existsLater(path),
    ),
  makeDirectory: (path) => makeDirectory(path, DIRECTORY_MODE),
  async syncDirectory(path) {
    // Windows cannot open directories; its file systems journal renames.
    if (process.platform === 'win32') return;
    // The system has a directory in use in memory, so handing these two calls to a thread costs
    // more.
    const directory = fs.openSync(path, 'r');
    try {
      await fsync(directory);
    } finally {
      fs.closeSync(directory);
    }
  },
  async list(path) {
    try {
      return await readdir(path);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    }
  },
  async space(path) {
    const { bsize, blocks, bavail } = await statfs(path);
    return { totalBytes: bsize * blocks, freeBytes: bsize * bavail };
  },
} satisfies Disk;

/** The disk of this machine, for many small files: the event loop makes what is short. */
export const localDisk: Disk = local;

/**
 * The local disk, but only the owner may read what it creates. It has few files and large ones, and
 * shares its event loop with requests: threads open, write and rename them.
 */
export const privateDisk: Disk = {
  ...local,
  async create(path, isWrittenOnce) {
    const syncing = syncingOf(isWrittenOnce);
    const fd = await open(path, flagsOf(syncing), PRIVATE_FILE_MODE);
    return new LocalFile(fd, syncing, 'in a thread');
  },
  openToRead: async (path) => new LocalFile(await open(path, READ)),
  readNow: () => undefined,
  openToUpdate: async (path) =>
    new LocalFile(await open(path, UPDATE, PRIVATE_FILE_MODE), 'when asked', 'in a thread'),
  rename,
  makeDirectory: (path) => makeDirectory(path, PRIVATE_DIRECTORY_MODE),
};

/** The local disk without syncs: what was written survives a kill of the process only. */
export const unsyncedDisk: Disk = {
  ...local,
  create: (path) => create(path, 'never'),
  createNow,
  openToUpdate: async (path) => new LocalFile(await open(path, UPDATE, FILE_MODE), 'never'),
  syncDirectory: async () => {},
};

/** One turn instead of four waits, and no descriptor stays open: a third of the processor's time. */
function readNow(path: string, bytes: number): Buffer | undefined {
  const began = performance.now();
  const isShort = paces.looks.isShort(began) && paces.reads.isShort(began);
  if (!isShort || bytes > MAX_SHORT_BYTES) return undefined;
  let fd: number;
  try {
    fd = fs.openSync(path, READ);
  } catch {
    return undefined;
  }
  const opened = performance.now();
  paces.looks.note(opened - began, opened);
  try {
    // A byte more shows that the file is longer.
    const target = Buffer.allocUnsafeSlow(bytes + 1);
    const read = fs.readSync(fd, target, 0, bytes + 1, 0);
    return read === bytes ? target.subarray(0, bytes) : undefined;
  } catch {
    return undefined;
  } finally {
    const ended = performance.now();
    paces.reads.note(ended - opened, ended);
    fs.closeSync(fd);
  }
}

/** One turn instead of eight waits. */
function createNow(
  temporary: string,
  path: string,
  chunks: readonly Uint8Array[],
  mtimeSeconds: number,
): CreatedNow {
  const began = performance.now();
  if (!paces.looks.isShort(began) || !paces.changes.isShort(began)) return undefined;
  const isTaken = exists(path);
  const looked = performance.now();
  paces.looks.note(looked - began, looked);
  if (isTaken) return 'taken';
  const fd = fs.openSync(temporary, CREATE, FILE_MODE);
  try {
    const opened = performance.now();
    paces.changes.note(opened - looked, opened);
    try {
      writeWhole(fd, chunks, mtimeSeconds);
    } finally {
      fs.closeSync(fd);
    }
    const written = performance.now();
    paces.changes.note(written - opened, written);
    fs.renameSync(temporary, path);
    const ended = performance.now();
    paces.changes.note(ended - written, ended);
    return 'created';
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
}

function exists(path: string): boolean {
  return fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

async function existsLater(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}

async function create(path: string, syncing: Syncing): Promise<LocalFile> {
  const flags = flagsOf(syncing);
  const fd = await promptly(
    paces.changes,
    () => fs.openSync(path, flags, FILE_MODE),
    () => open(path, flags, FILE_MODE),
  );
  return new LocalFile(fd, syncing);
}

function flagsOf(syncing: Syncing): number {
  return syncing === 'every write' ? CREATE | DURABLE_WRITES : CREATE;
}

function syncingOf(isWrittenOnce = false): Syncing {
  return isWrittenOnce && DURABLE_WRITES !== 0 ? 'every write' : 'when asked';
}

/**
 * Does not use mkdir's own recursion, which loops forever if the system answers ENOENT although the
 * parent exists (as /proc does).
 */
async function makeDirectory(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (hasCode(error, 'EEXIST') && (await fs.promises.stat(path)).isDirectory()) return;
    if (!hasCode(error, 'ENOENT') || dirname(path) === path) throw error;
    await makeDirectory(dirname(path), mode);
    await mkdir(path, { mode }).catch((again: unknown) => {
      if (!hasCode(again, 'EEXIST')) throw again;
    });
  }
}
