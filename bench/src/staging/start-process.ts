import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open } from '@stevedore/client';
import type { Sample } from './fill-process.js';
import { bodyOf } from './small-files.js';

/**
 * The measured process: an application that opens a store, embedded node and all. Nothing is to be
 * merged after the measurement: the store is left as it is.
 */

const POLL_MS = 20;
let store: FileStore | undefined;

export async function start(directory: string) {
  const begun = performance.now();
  store = await open({ directory });
  /** From the beginning of the process to ready, Node's own start included. */
  const processMs = performance.now();
  const readyRssBytes = process.memoryUsage.rss();
  // The files of these directories are staged or packed again; trouble shows as no figure.
  store.on('error', () => undefined);
  const { stagedFiles, mergedFiles } = store.stats();
  return {
    ...{ processMs, readyRssBytes, files: stagedFiles + mergedFiles },
    /** Of the time, the call of `open`. */
    openMs: processMs - begun,
  };
}

/** The most memory that is taken within so many seconds. */
export async function watch(seconds: number): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let most = process.memoryUsage.rss();
  while (performance.now() < end) {
    await sleep(POLL_MS);
    most = Math.max(most, process.memoryUsage.rss());
  }
  return most;
}

/** Throws if a file does not come back as it was stored. */
export async function verify(samples: readonly Sample[], bodyBytes: number): Promise<void> {
  for (const { key, index } of samples) {
    const bytes = await (await store!.get(key)).bytes();
    if (!bytes.equals(bodyOf(index, bodyBytes))) throw new Error(`${key} has other bytes`);
  }
}
