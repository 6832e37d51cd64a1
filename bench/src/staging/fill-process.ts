import { crc32 } from 'node:zlib';
import { formatKey, Staging, smallFile } from '@stevedore/staging';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';
import { bodyOf } from './bodies.js';
import { START_BODY_BYTES } from './plan.js';
import { stagingOptions } from './staging-options.js';
import { absentTrunkStore, forgettingTrunkStore } from './trunk-stores.js';

/**
 * Fills directories through the real Staging. It never closes them: it ends by a
 * kill, so that a start finds what a kill leaves.
 */

export interface Sample {
  readonly key: string;
  readonly index: number;
}

export type FillHandlers = {
  /** Stages so many files while FastDFS is away; answers with some of them. */
  readonly stage: (options: {
    readonly directory: string;
    readonly files: number;
  }) => Promise<readonly Sample[]>;
  /** Merges all that is staged in the directory. */
  readonly merge: (directory: string) => Promise<void>;
};

const BATCH_FILES = 250;
const BATCHES_IN_FLIGHT = 4;
const SAMPLES = 200;
const FLUSH_LIMIT_MS = 590_000;

async function stage({
  directory,
  files,
}: Parameters<FillHandlers['stage']>[0]): ReturnType<FillHandlers['stage']> {
  const staging = await Staging.open(stagingOptions(directory, false, absentTrunkStore()));
  const samples: Sample[] = [];
  const every = Math.ceil(files / SAMPLES);
  const load = { operations: Math.ceil(files / BATCH_FILES), concurrency: BATCHES_IN_FLIGHT };
  await drive(load, async (batch) => {
    const first = batch * BATCH_FILES;
    const count = Math.min(BATCH_FILES, files - first);
    const now = Date.now();
    const fresh = Array.from({ length: count }, (_, at) => {
      const index = first + at;
      const body = bodyOf(index, START_BODY_BYTES);
      const key = staging.keys.next();
      if (index % every === 0) samples.push({ key: formatKey(key), index });
      const facts = {
        key,
        name: `upload-${index}.jpg`,
        type: 'image/jpeg',
        group: undefined,
        size: body.length,
        crc32: crc32(body),
        stagedAt: now,
      };
      return smallFile(facts, [body]);
    });
    await staging.acceptance.stage(fresh);
  });
  return samples;
}

async function merge(directory: string): Promise<void> {
  const staging = await Staging.open(stagingOptions(directory, false, forgettingTrunkStore()));
  await staging.merging.flush(AbortSignal.timeout(FLUSH_LIMIT_MS));
}

serve(
  { stage, merge } satisfies FillHandlers,
  () => new Promise(() => process.kill(process.pid, 'SIGKILL')),
);
