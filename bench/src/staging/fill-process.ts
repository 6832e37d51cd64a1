import { formatKey, Staging } from '@stevedore/staging';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';
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
const FLUSH_LIMIT_MS = 590_000;

/** Stages so many files while FastDFS is away; answers with some of them. */
async function stageMany(
  staging: Staging,
  files: number,
  bodyBytes: number,
): Promise<readonly Sample[]> {
  const samples: Sample[] = [];
  const every = Math.ceil(files / SAMPLES);
  const load = { operations: Math.ceil(files / BATCH_FILES), concurrency: BATCHES_IN_FLIGHT };
  await drive(load, async (batch) => {
    const first = batch * BATCH_FILES;
    const count = Math.min(BATCH_FILES, files - first);
    const fresh = Array.from({ length: count }, (_, at) => {
      const file = newFile(staging, first + at, bodyOf(first + at, bodyBytes));
      if ((first + at) % every === 0) samples.push({ key: formatKey(file.key), index: first + at });
      return file;
    });
    await staging.acceptance.stage(fresh);
  });
  return samples;
}

const handlers = {
  async stage({
    directory,
    files,
    bodyBytes,
  }: {
    readonly directory: string;
    readonly files: number;
    readonly bodyBytes: number;
  }): Promise<readonly Sample[]> {
    const staging = await Staging.open(stagingOptions(directory, absentTrunkStore()));
    return stageMany(staging, files, bodyBytes);
  },
  /** Merges all that is staged in the directory. */
  async merge(directory: string): Promise<void> {
    const staging = await Staging.open(stagingOptions(directory, forgettingTrunkStore()));
    await staging.merging.flush(AbortSignal.timeout(FLUSH_LIMIT_MS));
  },
};

export type FillHandlers = typeof handlers;

serve(handlers, () => new Promise(() => process.kill(process.pid, 'SIGKILL')));
