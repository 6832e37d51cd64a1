import { panel } from '@stevedore/balance';
import { describe, expect, test } from 'vitest';
import { SeededRandom } from '../../../bench/dist/harness/seeded-random.js';
import { defaultIor, ior } from '../../../bench/dist/migration/replay/ior.js';
import {
  metadataTrace,
  paperMetadataTrace,
} from '../../../bench/dist/migration/replay/metadata-trace.js';
import { type ReplayOptions, replay } from '../../../bench/dist/migration/replay/replay.js';
import { together, type Workload } from '../../../bench/dist/migration/replay/workload.js';

const SERVER = {
  bytesPerSecond: 20e6,
  accessBytes: 4096,
  order: 'metadata-first',
  metadataHoldMs: 0,
} as const;

const OPTIONS: ReplayOptions = {
  metadataServers: 1,
  server: SERVER,
  ioServers: 2,
  ioServer: SERVER,
  ioNetworkMs: 1,
  intervalMs: 1000,
  migration: true,
  parameters: {},
  thresholdBytes: 2 ** 20,
  storeBytes: 1e12,
  maximumWaiting: 100_000,
  retryMs: 50,
  seed: 1,
  untilMs: 1e9,
  forecaster: (capacityBytes) => panel({ capacityBytes }),
};

function metadata(seed = 1, repetitions = 4): Workload {
  const options = { ...paperMetadataTrace, repetitions, irregularity: 0.5, phaseJitter: 0.2 };
  return metadataTrace(options, new SeededRandom(seed));
}

function smallFiles(clients: number, seed = 2): Workload {
  const options = {
    ...defaultIor,
    clients: [clients],
    filesPerBarrier: 4,
    barriersPerPhase: 20,
    computeMs: 500,
  };
  return ior(options, new SeededRandom(seed));
}

/** Each file is read at this rate, evenly. */
function hotFiles(files: readonly string[], bytesPerSecond: number, forMs: number): Workload {
  const bytes = 16_384;
  const everyMs = (1000 * bytes) / bytesPerSecond / files.length;
  return {
    *arrivals() {
      for (let count = 0; count * everyMs < forMs; count += 1) {
        const file = files[count % files.length]!;
        const request = {
          class: 'smallFile',
          bytes,
          file,
          fileBytes: bytes,
          write: false,
        } as const;
        yield { atMs: count * everyMs, request };
      }
    },
  };
}

describe('replay', () => {
  test('the paper’s trace comes out whole: 15,000 entries of 1 KB per repetition', () => {
    const workload = metadataTrace({ ...paperMetadataTrace, repetitions: 3 }, new SeededRandom(1));
    const result = replay(workload, OPTIONS);
    expect(result.metadata.requests).toBe(45_000);
    expect(result.metadata.bytes).toBe(45_000 * 1024);
    const observed = result.intervals.reduce((sum, each) => sum + each.metadata.servedBytes, 0);
    expect(observed).toBe(45_000 * (1024 + SERVER.accessBytes));
  });

  test('the same seeds give the same answer, other seeds another', () => {
    const run = (seed: number, serverSeed: number) =>
      replay(together(metadata(seed, 1), smallFiles(4, seed)), {
        ...OPTIONS,
        server: { ...SERVER, metadataHoldMs: 500 },
        seed: serverSeed,
      });
    expect(run(1, 1)).toEqual(run(1, 1));
    expect(run(1, 2)).not.toEqual(run(1, 1));
    expect(run(2, 1)).not.toEqual(run(1, 1));
  });

  test('no request is lost: every transfer of every client is answered', () => {
    for (const clients of [1, 12]) {
      for (const metadataServers of [1, 3]) {
        const result = replay(together(metadata(1, 1), smallFiles(clients)), {
          ...OPTIONS,
          metadataServers,
        });
        const transfers = 2 * defaultIor.transfersPerFile * 4 * 20 * clients;
        expect(result.smallFile.requests).toBe(transfers);
      }
    }
  });

  test('a full queue says busy, and whoever comes back is served', () => {
    const result = replay(smallFiles(16), { ...OPTIONS, maximumWaiting: 20 });
    expect(result.busyAnswers).toBeGreaterThan(0);
    expect(result.smallFile.requests).toBe(2 * defaultIor.transfersPerFile * 4 * 20 * 16);
  });

  test('an overloaded server moves files, and its metadata waits no longer for small files', () => {
    const load = () => together(metadata(1, 6), smallFiles(16));
    const slow = { ...SERVER, bytesPerSecond: 60e6 };
    const baseline = replay(load(), {
      ...OPTIONS,
      server: { ...slow, order: 'fifo' },
      migration: false,
    });
    const adaptive = replay(load(), { ...OPTIONS, server: slow });
    expect(baseline.moves).toBe(0);
    expect(adaptive.moves).toBeGreaterThan(0);
    expect(adaptive.metadata.requests).toBe(baseline.metadata.requests);
    expect(adaptive.metadata.p99Ms).toBeLessThan(baseline.metadata.p99Ms);
  });

  test('with several metadata servers, one takes what another cannot carry', () => {
    // Both lie on the same of four servers.
    const result = replay(hotFiles(['hot-0', 'hot-4'], 3e6, 20_000), {
      ...OPTIONS,
      metadataServers: 4,
      server: { ...SERVER, bytesPerSecond: 8e6 },
      parameters: { efficiencyMark: 0.9 },
    });
    const to = (key: 'movesToServer' | 'movesToIoServers') =>
      result.intervals.reduce((sum, interval) => sum + interval[key], 0);
    expect(to('movesToServer')).toBeGreaterThan(0);
  });
});
