import { type Observation, sesm } from '@stevedore/balance';
import { SeededRandom } from '../harness/seeded-random.js';
import type { Plan } from './plan.js';
import { defaultIor, type IorOptions, ior } from './replay/ior.js';
import {
  type MetadataTraceOptions,
  metadataTrace,
  paperMetadataTrace,
} from './replay/metadata-trace.js';
import { replay } from './replay/replay.js';
import type { RequestClass } from './replay/workload.js';

/**
 * The loads that are forecast: the paper's two, the same metadata load on a scheduler
 * that holds nothing back, and others that no forecaster was made with.
 */

export type TraceName = 'metadata' | 'smallFile' | 'metadata-unheld' | HoldOutName;
type HoldOutName = (typeof HOLD_OUTS)[number];

export const HOLD_OUTS = [
  'metadata-irregular',
  'metadata-three-phases',
  'small-files-32k',
  'small-files-96k',
] as const;

export interface LoadSeries {
  readonly intervals: readonly Observation[];
  /** B_logic for one interval. */
  readonly capacityBytes: number;
}

interface Trace {
  readonly class: RequestClass;
  readonly bytesPerSecond: number;
  readonly intervalMs: number;
  readonly metadataHoldMs: number;
  readonly metadata?: Partial<MetadataTraceOptions>;
  readonly ior?: Partial<IorOptions>;
}

const METADATA = {
  class: 'metadata',
  bytesPerSecond: 12e6,
  intervalMs: 1000,
  metadataHoldMs: 2000,
} as const;
const SMALL_FILES = {
  class: 'smallFile',
  bytesPerSecond: 100e6,
  intervalMs: 1000,
  metadataHoldMs: 0,
} as const;

export const TRACES: Readonly<Record<TraceName, Trace>> = {
  metadata: { ...METADATA, metadata: {} },
  smallFile: { ...SMALL_FILES, ior: {} },
  'metadata-unheld': { ...METADATA, metadataHoldMs: 0, metadata: {} },
  'metadata-irregular': {
    ...METADATA,
    bytesPerSecond: 9e6,
    metadata: {
      phases: [
        { accesses: 3000, intervalMs: 1.5 },
        { accesses: 8000, intervalMs: 0.2 },
      ],
      irregularity: 0.4,
      phaseJitter: 0.15,
    },
  },
  'metadata-three-phases': {
    ...METADATA,
    bytesPerSecond: 15e6,
    intervalMs: 800,
    metadataHoldMs: 1500,
    metadata: {
      phases: [
        { accesses: 4000, intervalMs: 2 },
        { accesses: 12_000, intervalMs: 0.25 },
        { accesses: 6000, intervalMs: 0.5 },
      ],
      irregularity: 0.2,
      phaseJitter: 0.1,
    },
  },
  'small-files-32k': {
    ...SMALL_FILES,
    bytesPerSecond: 70e6,
    ior: {
      clients: [3, 6, 12],
      transferBytes: 32 * 1024,
      transfersPerFile: 8,
      filesPerBarrier: 24,
      computeMs: 6000,
      computeJitter: 0.5,
    },
  },
  'small-files-96k': {
    ...SMALL_FILES,
    bytesPerSecond: 120e6,
    intervalMs: 700,
    ior: {
      clients: [16, 2, 9],
      transferBytes: 96 * 1024,
      transfersPerFile: 3,
      filesPerBarrier: 20,
      computeMs: 5000,
      computeJitter: 0.4,
    },
  },
};

/** What a scheduler would have observed, interval by interval. */
export function loadSeries(name: TraceName, seed: number, plan: Plan): LoadSeries {
  const trace = TRACES[name];
  const { bytesPerSecond, intervalMs, metadataHoldMs } = trace;
  const server = {
    bytesPerSecond,
    accessBytes: 0,
    order: 'metadata-first',
    metadataHoldMs,
  } as const;
  const { intervals } = replay(workload(trace, seed, plan), {
    metadataServers: 1,
    server,
    ioServers: 1,
    ioServer: server,
    ioNetworkMs: 1,
    intervalMs,
    migration: false,
    parameters: {},
    thresholdBytes: 2 ** 20,
    storeBytes: Number.MAX_SAFE_INTEGER,
    maximumWaiting: Number.MAX_SAFE_INTEGER,
    retryMs: 50,
    seed,
    untilMs: Number.MAX_SAFE_INTEGER,
    forecaster: (capacityBytes) => sesm(0.1, capacityBytes),
  });
  return {
    intervals: intervals.map((interval) => interval[trace.class]),
    capacityBytes: (bytesPerSecond * intervalMs) / 1000,
  };
}

function workload(trace: Trace, seed: number, { repetitions, barriers }: Plan) {
  const random = new SeededRandom(seed);
  if (trace.ior) {
    return ior({ ...defaultIor, barriersPerPhase: barriers, ...trace.ior }, random);
  }
  return metadataTrace({ ...paperMetadataTrace, repetitions, ...trace.metadata }, random);
}
