import { panel } from '@stevedore/balance';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { SeededRandom } from '../harness/seeded-random.js';
import type { Plan } from './plan.js';
import { defaultIor, ior } from './replay/ior.js';
import { metadataTrace, paperMetadataTrace } from './replay/metadata-trace.js';
import { replay } from './replay/replay.js';
import { together } from './replay/workload.js';
import { VARIANTS, type Variant } from './trade-off.js';

/**
 * Figure 5: one to three metadata servers under the paper's metadata trace and sixteen
 * small-file clients, with the method and without it, in simulated time; and in processes:
 * see real-servers.ts.
 */

export const SERVERS = [1, 2, 3] as const;
export type SimulatedFigure = 'metadata.p99' | 'metadata.rate' | 'small-files.rate' | 'moves';

const CLIENTS = 16;
const DISK = { bytesPerSecond: 40e6, accessBytes: 4096, metadataHoldMs: 0 } as const;

export function simulatedId(variant: Variant, servers: number, figure: SimulatedFigure): string {
  return `several-servers.${variant}.s${servers}.${figure}`;
}

export function measureSeveralServers(
  { figures, progress }: BenchmarkContext,
  { simulatedMs }: Plan,
): void {
  for (const variant of VARIANTS) {
    for (const servers of SERVERS) {
      progress(`simulated: ${variant}, ${servers} metadata servers`);
      const { metadata, smallFile, moves } = simulate(variant, servers, simulatedMs);
      const perSecond = (count: number) => (count * 1000) / simulatedMs;
      const add = (figure: SimulatedFigure, unit: string, value: number) =>
        figures.add(simulatedId(variant, servers, figure), unit, value);
      add('metadata.rate', 'requests/s', perSecond(metadata.requests));
      add('metadata.p99', 'ms', metadata.p99Ms);
      add('small-files.rate', 'requests/s', perSecond(smallFile.requests));
      add('moves', 'moves', moves);
    }
  }
}

function simulate(variant: Variant, metadataServers: number, untilMs: number) {
  const workload = together(
    metadataTrace({ ...paperMetadataTrace, repetitions: 7 }, new SeededRandom(1)),
    ior(
      {
        ...defaultIor,
        clients: [CLIENTS],
        transferBytes: 32 * 1024,
        window: 4,
        barriersPerPhase: Number.MAX_SAFE_INTEGER,
        computeMs: 50,
      },
      new SeededRandom(2),
    ),
  );
  return replay(workload, {
    metadataServers,
    server: { ...DISK, order: variant === 'method' ? 'metadata-first' : 'fifo' },
    ioServers: 4,
    ioServer: { ...DISK, order: 'fifo' },
    ioNetworkMs: 2,
    intervalMs: 1000,
    migration: variant === 'method',
    parameters: { efficiencyMark: 0.9 },
    thresholdBytes: 2 ** 20,
    storeBytes: Number.MAX_SAFE_INTEGER,
    maximumWaiting: 1e6,
    retryMs: 50,
    seed: 3,
    untilMs,
    forecaster: (capacityBytes) => panel({ capacityBytes }),
  });
}
