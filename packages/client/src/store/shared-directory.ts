import { mkdir, readdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { DirectoryLock, StoreError } from '@stevedore/staging';
import type { OpenOptions } from '../given-options.js';
import { parseStoreOptions } from '../options.js';
import { type Cluster, readClusterSecrets, startCluster } from './cluster.js';

/**
 * A data directory that several processes share. The first uses the directory itself, like a single
 * store; the others use `workers/2`, `workers/3` and so on in it. The number of processes may
 * change: a directory without a process of its own is opened by one that also has another.
 */

export function workerDirectory(directory: string, number: number): string {
  const data = resolve(directory);
  return number === 1 ? data : join(data, 'workers', String(number));
}

/** The data directory to which a worker's directory belongs. */
export function dataDirectory(directory: string): string {
  const above = dirname(directory);
  return basename(above) === 'workers' ? dirname(above) : directory;
}

/** The same of a place in the map, which names host, directory and, behind it, the inode. */
export function dataPlace(place: string): string {
  return dataDirectory(place.replace(/#[^#]*$/, ''));
}

/** Numbers of the existing worker directories, without the first. */
export async function otherWorkers(directory: string): Promise<number[]> {
  const names = await readdir(join(resolve(directory), 'workers')).catch((error: Error) => {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw error;
  });
  const numbers = names.filter((name) => /^[1-9]\d{0,4}$/.test(name)).map(Number);
  return numbers.filter((number) => number > 1).sort((a, b) => a - b);
}

export interface SharedDirectory {
  /** For all processes: those of the options, or the embedded one. */
  readonly trackers: readonly string[];
  /** Of the embedded one. */
  readonly take: Cluster['take'] | undefined;
  close(): Promise<void>;
}

/**
 * Locks the data directory for the processes to be started, and starts the embedded FastDFS node
 * that they use. Rejects as `open`.
 */
export async function openSharedDirectory(
  options: OpenOptions,
  onError: (error: Error) => void,
): Promise<SharedDirectory> {
  const parsed = parseStoreOptions(options);
  const secrets = await readClusterSecrets(parsed.clusterSecretFile);
  const data = resolve(parsed.directory);
  const folder = join(data, 'workers');
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error: Error) => {
    throw new StoreError(
      'directory_unusable',
      `${data} cannot be used (${error.message}); check that it is a directory this user can write to`,
      { cause: error },
    );
  });
  await DirectoryLock.awaitOwner(folder, '1');
  const lock = DirectoryLock.acquire(folder);
  try {
    await DirectoryLock.awaitOwner(data, 'filemap.sqlite');
    // A single store holds this lock: do not start the node beside its own.
    const alone = DirectoryLock.acquire(data);
    try {
      const { trackers, take, close } = await startCluster(parsed, secrets, onError);
      return {
        trackers,
        take,
        close: async () => {
          await close();
          lock.release();
        },
      };
    } finally {
      alone.release();
    }
  } catch (error) {
    lock.release();
    throw error;
  }
}
