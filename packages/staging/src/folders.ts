import { type Disk, removeIfThere } from '@stevedore/disk';

/** The folders of a store's directory. Each may be a disk of its own. */
export const FOLDERS = ['container', 'spool', 'unfinished'] as const;

/** Bytes of a trial write. */
export const TRIAL_BYTES = 2 ** 20;
/** A name that none of the folders keeps. */
const TRIAL_NAME = 'trial';

/** On the fullest of the disks. */
export async function freeBytes(disk: Disk, directory: string): Promise<number> {
  const paths = [directory, ...FOLDERS.map((folder) => `${directory}/${folder}`)];
  const spaces = await Promise.all(paths.map((path) => disk.space(path)));
  return Math.min(...spaces.map((space) => space.freeBytes));
}

/** Writes a file there as an upload does, and removes it. */
export async function tryFolder(disk: Disk, folder: string): Promise<void> {
  const path = `${folder}/${TRIAL_NAME}`;
  await removeIfThere(disk, path);
  const file = await disk.create(path);
  try {
    await file.writeAt([Buffer.alloc(TRIAL_BYTES)], 0);
    await file.sync();
  } finally {
    await file.close();
    await disk.unlink(path);
  }
  await disk.syncDirectory(folder);
}
