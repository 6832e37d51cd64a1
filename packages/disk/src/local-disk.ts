import fs from 'node:fs';
import { mkdir, readdir, readlink, statfs, symlink } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { promisify } from 'node:util';
import type { CreatedNow, Disk } from './disk.js';
import { hasCode } from './disk.js';
import { DURABLE_WRITES, LocalFile, type Syncing, writeWhole } from './local-file.js';
import { MAX_SHORT_BYTES, Paces, promptly } from './pace.js';

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

/** The paces of the disk that a path is on. */
type PacesAt = (path: string) => Paces;

const local = (at: PacesAt) =>
  ({
    create: (path, isWrittenOnce) => create(path, at(path), syncingOf(isWrittenOnce)),
    async openToRead(path) {
      const paces = at(path);
      const fd = await promptly(
        paces.looks,
        () => fs.openSync(path, READ),
        () => open(path, READ),
      );
      return new LocalFile(fd, paces);
    },
    readNow: (path, bytes) => readNow(path, at(path), bytes),
    openToUpdate: (path) => openToUpdate(path, at(path)),
    makeLink: symlink,
    async readLink(path) {
      const [target, { mtimeMs }] = await Promise.all([readlink(path), lstat(path)]);
      return { target, mtimeSeconds: Math.floor(mtimeMs / 1000) };
    },
    rename: (from, to) =>
      promptly(
        at(from).changes,
        () => fs.renameSync(from, to),
        () => rename(from, to),
      ),
    unlink,
    exists: (path) =>
      promptly(
        at(path).looks,
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
  }) satisfies Disk;

/**
 * For many small files: the event loop makes what is short. Each of the directories is on a disk of
 * its own: a slow one leaves the pace of the others as it is. Without syncs, what was written
 * survives a kill of the process only.
 */
export function storeDisk(directories: readonly string[], syncs = true): Disk {
  const disks = directories.map((each) => [join(each, sep), new Paces()] as const);
  const elsewhere = new Paces();
  const at = (path: string): Paces =>
    disks.find(([directory]) => path.startsWith(directory))?.[1] ?? elsewhere;
  const synced = local(at);
  if (syncs) return synced;
  return {
    ...synced,
    create: (path) => create(path, at(path), 'never'),
    createNow: (path, ...file) => createNow(path, at(path), ...file),
    openToUpdate: (path) => openToUpdate(path, at(path), 'never'),
    syncDirectory: async () => {},
  };
}

/** The disk of this machine, for what is in no store path. */
export const localDisk: Disk = storeDisk([]);

const OF_PRIVATE = new Paces();

/**
 * The local disk, but only the owner may read what it creates. It has few files and large ones, and
 * shares its event loop with requests: threads open, write and rename them.
 */
export const privateDisk: Disk = {
  ...local(() => OF_PRIVATE),
  async create(path, isWrittenOnce) {
    const syncing = syncingOf(isWrittenOnce);
    const fd = await open(path, flagsOf(syncing), PRIVATE_FILE_MODE);
    return new LocalFile(fd, OF_PRIVATE, syncing, 'in a thread');
  },
  openToRead: async (path) => new LocalFile(await open(path, READ), OF_PRIVATE),
  readNow: () => undefined,
  openToUpdate: async (path) =>
    new LocalFile(
      await open(path, UPDATE, PRIVATE_FILE_MODE),
      OF_PRIVATE,
      'when asked',
      'in a thread',
    ),
  rename,
  makeDirectory: (path) => makeDirectory(path, PRIVATE_DIRECTORY_MODE),
};

/** One turn instead of four waits, and no descriptor stays open: a third of the processor's time. */
function readNow(path: string, { looks, reads }: Paces, bytes: number): Buffer | undefined {
  const began = performance.now();
  const isShort = looks.isShort(began) && reads.isShort(began);
  if (!isShort || bytes > MAX_SHORT_BYTES) return undefined;
  let fd: number;
  try {
    fd = fs.openSync(path, READ);
  } catch {
    return undefined;
  }
  const opened = performance.now();
  looks.note(opened - began, opened);
  try {
    // A byte more shows that the file is longer.
    const target = Buffer.allocUnsafeSlow(bytes + 1);
    const read = fs.readSync(fd, target, 0, bytes + 1, 0);
    return read === bytes ? target.subarray(0, bytes) : undefined;
  } catch {
    return undefined;
  } finally {
    const ended = performance.now();
    reads.note(ended - opened, ended);
    fs.closeSync(fd);
  }
}

/** One turn instead of five waits. */
function createNow(
  path: string,
  { changes }: Paces,
  chunks: readonly Uint8Array[],
  mtimeSeconds: number,
): CreatedNow {
  const began = performance.now();
  if (!changes.isShort(began)) return undefined;
  let fd: number;
  try {
    fd = fs.openSync(path, CREATE, FILE_MODE);
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return 'taken';
    throw error;
  }
  try {
    const opened = performance.now();
    changes.note(opened - began, opened);
    try {
      writeWhole(fd, chunks, mtimeSeconds);
    } finally {
      fs.closeSync(fd);
    }
    const ended = performance.now();
    changes.note(ended - opened, ended);
    return 'created';
  } catch (error) {
    fs.rmSync(path, { force: true });
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

async function create(path: string, paces: Paces, syncing: Syncing): Promise<LocalFile> {
  const flags = flagsOf(syncing);
  const fd = await promptly(
    paces.changes,
    () => fs.openSync(path, flags, FILE_MODE),
    () => open(path, flags, FILE_MODE),
  );
  return new LocalFile(fd, paces, syncing);
}

async function openToUpdate(path: string, paces: Paces, syncing?: Syncing): Promise<LocalFile> {
  const fd = await promptly(
    paces.looks,
    () => fs.openSync(path, UPDATE, FILE_MODE),
    () => open(path, UPDATE, FILE_MODE),
  );
  return new LocalFile(fd, paces, syncing);
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
