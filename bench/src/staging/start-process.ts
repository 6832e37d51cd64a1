import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open } from '@stevedore/client';
import { serve } from '../harness/serve.js';
import { bodyOf } from './bodies.js';
import type { Sample } from './fill-process.js';
import { START_BODY_BYTES } from './plan.js';

/** The measured process: an application that opens a store, embedded node and all. */

export interface Start {
  /** From the beginning of the process to ready, Node's own start included. */
  readonly processMs: number;
  /** Of that, the call of `open`. */
  readonly openMs: number;
  readonly readyRssBytes: number;
  readonly files: number;
}

export type StartHandlers = {
  readonly open: (directory: string) => Promise<Start>;
  /** The most memory that is taken within so many seconds. */
  readonly watch: (seconds: number) => Promise<number>;
  /** Throws if a file does not come back as it was stored. */
  readonly verify: (samples: readonly Sample[]) => Promise<void>;
};

const POLL_MS = 20;

let store: FileStore | undefined;

async function start(directory: string): Promise<Start> {
  const begun = performance.now();
  const opened = await open({ directory });
  const ready = performance.now();
  const readyRssBytes = process.memoryUsage.rss();
  store = opened;
  // The files of these directories are staged or packed again; trouble shows as no figure.
  opened.on('error', () => undefined);
  const { stagedFiles, mergedFiles } = opened.stats();
  return {
    processMs: ready,
    openMs: ready - begun,
    readyRssBytes,
    files: stagedFiles + mergedFiles,
  };
}

async function watch(seconds: number): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let most = 0;
  while (performance.now() < end) {
    most = Math.max(most, process.memoryUsage.rss());
    await sleep(POLL_MS);
  }
  return most;
}

async function verify(samples: readonly Sample[]): Promise<void> {
  for (const { key, index } of samples) {
    const bytes = await (await store!.get(key)).bytes();
    if (!bytes.equals(bodyOf(index, START_BODY_BYTES))) throw new Error(`${key} has other bytes`);
  }
}

serve({ open: start, watch, verify } satisfies StartHandlers, () =>
  // Nothing is to be merged after the measurement.
  Promise.resolve(),
);
