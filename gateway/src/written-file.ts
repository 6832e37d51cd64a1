import { randomUUID } from 'node:crypto';
import { createWriteStream, type Stats } from 'node:fs';
import { type FileHandle, open, readlink, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';

/**
 * Writes to a place that the user names, whatever is there. A regular file appears when it is
 * complete; one that is replaced keeps its mode and, where the system allows it, its owner. A link
 * is followed. A device or a pipe is written to.
 */

interface Writing {
  /** Of a new file; default: as this process makes files. */
  readonly mode?: number;
  readonly changedAt?: Date | undefined;
  /** Durable when it resolves. */
  readonly isSynced?: boolean;
}

/** Streams that are open already: a log that `>>` appends to must not be replaced. */
const OPEN_STREAM = /^\/(?:dev\/(?:fd\/\d+|stdout|stderr)|proc\/self\/fd\/\d+)$/;
const PERMISSIONS = 0o777;
const PRIVATE_MODE = 0o600;

export async function writeTo(
  path: string,
  content: AsyncIterable<Uint8Array>,
  { mode, changedAt, isSynced = false }: Writing = {},
): Promise<void> {
  const there = await unlessMissing(stat(path));
  if (there && (!there.isFile() || OPEN_STREAM.test(path))) {
    await pipeline(content, createWriteStream(path, { flags: 'a' }));
    return;
  }
  const place = await placeOf(path);
  const partial = join(dirname(place), `.${randomUUID()}.part`);
  try {
    const created = { flags: 'wx', ...{ mode: there ? PRIVATE_MODE : mode } };
    await pipeline(content, createWriteStream(partial, created));
    const file = await open(partial, 'r+');
    try {
      if (there) await keepRights(file, there);
      if (changedAt) await file.utimes(changedAt, changedAt);
      if (isSynced) await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, place);
  } catch (error) {
    await rm(partial, { force: true });
    // Nobody knows the other name.
    const isOwn = (error as NodeJS.ErrnoException).path === partial;
    throw isOwn ? Object.assign(error as Error, { path }) : error;
  }
}

/** Where the links end at `path` lead, also if there is no file. */
export async function placeOf(path: string): Promise<string> {
  const found = await unlessMissing(realpath(path));
  if (found !== undefined) return found;
  const target = await readlink(path).catch(() => undefined);
  return target === undefined ? path : placeOf(resolve(await realpath(dirname(path)), target));
}

async function keepRights(file: FileHandle, { uid, gid, mode }: Stats): Promise<void> {
  await file
    .chown(uid, gid)
    .catch(() => file.chown(-1, gid))
    .catch(() => undefined);
  await file.chmod(mode & PERMISSIONS);
}

/** Undefined if there is nothing. */
export async function unlessMissing<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  try {
    return await looking;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
