import { setTimeout as sleep } from 'node:timers/promises';
import type { Observation } from '@stevedore/balance';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { settled } from '../harness/load.js';
import { type Running, start } from '../harness/processes.js';
import type { Plan } from './plan.js';
import { IOR, type Ior, type MetadataTrace, PAPER_METADATA } from './workloads.js';

/**
 * Queues of our own scheduler: the paper's two loads in real time, five times as fast, each alone and
 * both together, sent to a storage on this machine's disk, whose scheduler is asked after every
 * interval. Bursts of metadata take ten twelfths of what the storage can answer, as in the simulation.
 */

export interface Recorded {
  readonly intervals: readonly Observation[];
  /** B_logic for one interval. */
  readonly capacityBytes: number;
}

export const RECORDED = {
  'recorded-metadata': 'Our queue: metadata alone',
  'recorded-small-files': 'Our queue: small files alone',
  'recorded-metadata-beside': 'Our queue: metadata beside small files',
  'recorded-small-files-beside': 'Our queue: small files beside metadata',
} as const;
type QueueName = keyof typeof RECORDED;

const LIMIT_MS = 600_000;
const SPEED = 5;
const INTERVAL_MS = 1000 / SPEED;
const FILE_BYTES = 16 * 1024;
const FILES = 256;
/** So many loops ask for all that there is. */
const FULL_LOOPS = 64;
const BURST_SHARE = 10 / 12;
const TIER = {
  ...{ enabled: true, intervalMs: INTERVAL_MS },
  // A threshold that is learnt falls below the files, and they take no turns any more.
  parameters: { minimumThresholdBytes: FILE_BYTES, maximumThresholdBytes: FILE_BYTES },
  thresholdBytes: FILE_BYTES,
};

export async function recordQueues(
  context: BenchmarkContext,
  { recordedSeconds, recordedBarriers }: Plan,
  seed: number,
): Promise<Record<QueueName, Recorded>> {
  await using trackers = start('harness/nodes');
  await using storage = start('harness/nodes');
  // No kind of load waits for the other before it is even sent.
  await using metadataLoad = start('migration/load', { callLimitMs: LIMIT_MS });
  await using smallLoad = start('migration/load', { callLimitMs: LIMIT_MS });
  const tracker = await trackers.call('tracker');
  await storage.call('storage', {
    ...{ storePaths: [context.workspace.fresh('queues')], trackers: [tracker] },
    ...{ cacheBytes: 0, tiers: TIER },
  });
  const files = await metadataLoad.call('files', tracker, FILES);
  const full = { files, seconds: recordedSeconds / 10, warmUpSeconds: 0 };
  const { requests } = await metadataLoad.call('run', tracker, {
    ...{ ...full, kind: 'metadata', loops: FULL_LOOPS },
  });
  const burst = Math.max(1, (requests / full.seconds) * BURST_SHARE);
  const phase = (accesses: number, intervalMs: number) => ({
    accesses: Math.ceil(accesses),
    intervalMs,
  });
  const metadata = {
    ...PAPER_METADATA,
    phases: [phase((5 / SPEED) * (burst / 10), 10_000 / burst), phase(burst / SPEED, 1000 / burst)],
    repetitions: Math.ceil((recordedSeconds * SPEED) / 6),
  };
  const ior = {
    ...{ ...IOR, filesPerBarrier: 4, barriersPerPhase: recordedBarriers },
    computeMs: IOR.computeMs / SPEED,
  };
  const send = (child: Running<'migration/load'>, load: MetadataTrace | Ior) => () =>
    child.call('replay', tracker, files, load, seed, 2 * recordedSeconds);
  const [sendMetadata, sendFiles] = [send(metadataLoad, metadata), send(smallLoad, ior)];
  const record = async (what: string, loads: readonly (() => Promise<unknown>)[]) => {
    context.progress(`recording queues of ${what}`);
    let ended = false;
    const sent = settled(loads.map((load) => load())).finally(() => {
      ended = true;
    });
    const seen = { metadata: [] as Observation[], smallFile: [] as Observation[] };
    let [last, capacityBytes] = [0, 1];
    while (!ended) {
      const status = await storage.call('migration');
      // The interval under way when the load began is not its own.
      if (last > 0 && status.intervals > last) {
        seen.metadata.push(status.load.metadata);
        seen.smallFile.push(status.load.smallFile);
      }
      last = status.intervals;
      capacityBytes = Math.max(capacityBytes, status.capacityBytes);
      await sleep(INTERVAL_MS / 4);
    }
    await sent;
    const { metadata: meta, smallFile } = seen;
    return {
      metadata: { intervals: meta, capacityBytes },
      smallFile: { intervals: smallFile, capacityBytes },
    };
  };
  const alone = await record('metadata', [sendMetadata]);
  const small = await record('small files', [sendFiles]);
  const both = await record('both', [sendMetadata, sendFiles]);
  return {
    'recorded-metadata': alone.metadata,
    'recorded-small-files': small.smallFile,
    'recorded-metadata-beside': both.metadata,
    'recorded-small-files-beside': both.smallFile,
  };
}
