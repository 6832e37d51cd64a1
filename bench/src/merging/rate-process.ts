import { monitorEventLoopDelay } from 'node:perf_hooks';
import { crc32 } from 'node:zlib';
import { Staging, smallFile } from '@stevedore/staging';
import { drive } from '../harness/load.js';
import { cpuUsed, serve } from '../harness/serve.js';
import { bodyOf } from '../staging/bodies.js';
import { absentTrunkStore, forgettingTrunkStore } from '../staging/trunk-stores.js';
import { TRUNK_BYTES } from './sites.js';

/** The measured process: a backlog of files, all of one size, that is merged as fast as can be. */

export interface Backlog {
  readonly directory: string;
  readonly files: number;
  readonly bodyBytes: number;
}

export interface Rate {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly trunks: number;
  /** Of the fullest but the last. */
  readonly leastFill: number;
  readonly delayP99Ms: number;
  readonly mostDelayMs: number;
  readonly mostRssBytes: number;
}

export type RateHandlers = {
  /** Stages them while FastDFS is away. */
  readonly stage: (backlog: Backlog) => Promise<void>;
  readonly merge: (directory: string) => Promise<Rate>;
};

const BATCH_FILES = 500;
const BATCHES_IN_FLIGHT = 4;
const DAY_MS = 86_400_000;
const GIB = 2 ** 30;
const POLL_MS = 10;

function options(directory: string, trunkStore: ReturnType<typeof absentTrunkStore>) {
  return {
    directory,
    connect: () => Promise.resolve(trunkStore),
    trunkSize: TRUNK_BYTES,
    mergeMaxAge: DAY_MS,
    containerSize: 40 * GIB,
    retain: GIB,
    durability: 'os' as const,
    now: Date.now,
    randomFill: (target: Buffer) => crypto.getRandomValues(target),
    packingSeed: 1,
  };
}

async function stage({ directory, files, bodyBytes }: Backlog): Promise<void> {
  const staging = await Staging.open(options(directory, absentTrunkStore()));
  const load = { operations: Math.ceil(files / BATCH_FILES), concurrency: BATCHES_IN_FLIGHT };
  await drive(load, async (batch) => {
    const first = batch * BATCH_FILES;
    const count = Math.min(BATCH_FILES, files - first);
    const stagedAt = Date.now();
    const fresh = Array.from({ length: count }, (_, at) => {
      const body = bodyOf(first + at, bodyBytes);
      const about = { name: `upload-${first + at}.jpg`, type: 'image/jpeg', group: undefined };
      const key = staging.keys.next();
      const facts = { ...about, key, size: bodyBytes, crc32: crc32(body), stagedAt };
      return smallFile(facts, [body]);
    });
    await staging.acceptance.stage(fresh);
  });
  await staging.close();
}

async function merge(directory: string): Promise<Rate> {
  const staging = await Staging.open(options(directory, forgettingTrunkStore()));
  const fills: number[] = [];
  staging.changes.on('trunk', ({ fill }) => fills.push(fill));
  let mostRssBytes = 0;
  const watch = setInterval(() => {
    mostRssBytes = Math.max(mostRssBytes, process.memoryUsage.rss());
  }, POLL_MS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const { cpuSeconds } = cpuUsed();
  const start = performance.now();
  await staging.merging.flush();
  const seconds = (performance.now() - start) / 1000;
  delay.disable();
  clearInterval(watch);
  const rate = {
    ...{ seconds, cpuSeconds: cpuUsed().cpuSeconds - cpuSeconds, trunks: fills.length },
    leastFill: Math.min(1, ...fills.slice(0, -1)),
    delayP99Ms: delay.percentile(99) / 1e6,
    ...{ mostDelayMs: delay.max / 1e6, mostRssBytes },
  };
  await staging.close();
  return rate;
}

serve({ stage, merge } satisfies RateHandlers, () => Promise.resolve());
