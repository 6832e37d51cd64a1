import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import type { SampleFile } from '../harness/file-set.js';

/** The ways to store a file that are held against each other, behind one face. */
export interface Target {
  /** Resolves with what the file is fetched by, once the file is safe. */
  put(file: SampleFile): Promise<string>;
  fetch(id: string): Promise<Buffer>;
  /** Resolves once everything is stored in FastDFS. */
  settle(): Promise<void>;
  remove(id: string): Promise<void>;
  close(): Promise<void>;
}

/** One FastDFS file per file. */
export function openDirect(trackers: readonly string[]): Target {
  const client = new FastdfsClient({ trackers });
  return {
    put: ({ bytes, name }) =>
      client.upload(bytes, { extension: name.slice(name.indexOf('.') + 1) }),
    fetch: (id) => client.downloadBytes(id),
    settle: () => Promise.resolve(),
    remove: (id) => client.delete(id),
    close: () => client.close(),
  };
}

export interface MergingOptions {
  readonly trackers: readonly string[];
  readonly directory: string;
  /** Every fetch goes to FastDFS: nothing is read from this disk or from memory. */
  readonly storageOnly: boolean;
}

/** The SDK: acknowledged from the container, merged in the background. */
export async function openMerging(options: MergingOptions): Promise<Target> {
  const { trackers, directory, storageOnly } = options;
  const store = await open({
    trackers,
    directory,
    durability: 'sync',
    ...(storageOnly ? { retain: 0, cacheSize: 0 } : {}),
  });
  // Trouble that is retried would only show as bad figures.
  store.on('error', (error) => console.error(`store: ${error.message}`));
  if (storageOnly) await localCopiesGone(store);
  return {
    put: async ({ bytes, name, type }) => (await store.put(bytes, { name, type })).key,
    fetch: async (id) => (await store.get(id)).bytes(),
    settle: () => store.flush(),
    remove: (id) => store.delete(id),
    close: () => store.close(),
  };
}

/** Stores nothing: what the load itself costs. */
export function openNothing(files: readonly SampleFile[]): Target {
  return {
    put: ({ name }) => Promise.resolve(name),
    // A view of its own, so that comparing the bytes is real work.
    fetch: async (id) => files[Number(id)]!.bytes.subarray(),
    settle: () => Promise.resolve(),
    remove: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

const COPIES_LIMIT_MS = 20_000;
const COPIES_LEFT_BYTES = 2 ** 20;

async function localCopiesGone(store: FileStore): Promise<void> {
  const end = performance.now() + COPIES_LIMIT_MS;
  while (store.stats().containerBytes > COPIES_LEFT_BYTES) {
    if (performance.now() > end) throw new Error('merged files are still on the local disk');
    await sleep(20);
  }
}
