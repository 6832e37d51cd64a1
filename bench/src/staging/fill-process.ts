import { monitorEventLoopDelay } from 'node:perf_hooks';
import { formatKey, Staging } from '@stevedore/staging';
import { drive, startClock } from '../harness/load.js';
import { bodyOf, newFile, stagingOptions } from './small-files.js';
import { absentTrunkStore, forgettingTrunkStore } from './trunk-stores.js';

/**
 * Fills directories through the real Staging. It never closes them: it ends by a
 * kill, so that a start finds what a kill leaves.
 */

export interface Sample {
  readonly key: string;
  readonly index: number;
}

const BATCH_FILES = 250;
const BATCHES_IN_FLIGHT = 4;
const SAMPLES = 200;
const POLL_MS = 10;
const FLUSH_LIMIT_MS = 590_000;

/** Stages so many files while FastDFS is away; answers with some of them. */
export async function stage(
  directory: string,
  files: number,
  bodyBytes: number,
): Promise<readonly Sample[]> {
  const staging = await Staging.open(stagingOptions(directory, absentTrunkStore()));
  const samples: Sample[] = [];
  const every = Math.ceil(files / SAMPLES);
  const load = { operations: Math.ceil(files / BATCH_FILES), concurrency: BATCHES_IN_FLIGHT };
  await drive(load, async (batch) => {
    const first = batch * BATCH_FILES;
    const length = Math.min(BATCH_FILES, files - first);
    const fresh = Array.from({ length }, (_, at) => {
      const file = newFile(staging, first + at, bodyOf(first + at, bodyBytes));
      if ((first + at) % every === 0) samples.push({ key: formatKey(file.key), index: first + at });
      return file;
    });
    await staging.acceptance.stage(fresh);
  });
  return samples;
}

/** Merges all that is staged in the directory, as fast as can be. */
export async function merge(directory: string, trunkSize?: number) {
  const options = stagingOptions(directory, forgettingTrunkStore(), trunkSize ? { trunkSize } : {});
  const staging = await Staging.open(options);
  let [trunks, mostRssBytes] = [0, 0];
  staging.changes.on('trunk', () => {
    trunks += 1;
  });
  const watch = setInterval(() => {
    mostRssBytes = Math.max(mostRssBytes, process.memoryUsage.rss());
  }, POLL_MS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const clock = startClock();
  await staging.merging.flush(AbortSignal.timeout(FLUSH_LIMIT_MS));
  const span = clock();
  delay.disable();
  clearInterval(watch);
  const delays = { delayP99Ms: delay.percentile(99) / 1e6, mostDelayMs: delay.max / 1e6 };
  return { ...span, ...delays, trunks, mostRssBytes };
}

export const close = () => new Promise(() => process.kill(process.pid, 'SIGKILL'));
