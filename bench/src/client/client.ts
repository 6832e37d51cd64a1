import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { MEMORY_GOALS, PIECES_GOALS, TRANSFER_GOALS } from './goals.js';
import { measureMemory } from './memory.js';
import { showMemory, showPieces, showTransfers } from './output.js';
import { measurePieces } from './pieces.js';
import { PLANS } from './plan.js';
import { measureTransfers } from './transfers.js';

/**
 * Our FastDFS client against npm `fdfs`: small uploads and downloads over 1, 16 and
 * 64 connections, uploads written as the C client does, and whether the memory stays flat.
 */
export const client: Benchmark = {
  durability: 'sync on disk; none in the cluster in memory',
  packages: ['fdfs'],
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      transfers: {
        goals: TRANSFER_GOALS,
        run: async (context) => showTransfers(context, await measureTransfers(context, plan)),
      },
      pieces: {
        goals: PIECES_GOALS,
        run: async (context) => {
          await measurePieces(context, plan);
          showPieces(context, plan);
        },
      },
      memory: {
        goals: MEMORY_GOALS,
        run: async (context) => {
          await measureMemory(context, plan);
          showMemory(context, plan);
        },
      },
    };
  },
};

function introduce({ print, trackers, scale }: BenchmarkContext): void {
  const plan = PLANS[scale];
  print(
    [
      `${plan.runs} runs${remarkOn(scale)} with new processes in each, clients in turns, every measurement ${plan.uploadSeconds} s of uploads and ${plan.downloadSeconds} s of downloads of what was uploaded; every byte that comes back is compared. KB and MB are 10^3 and 10^6 bytes.`,
      'Each client is a process of its own; tracker and storage are another one, the same for both. The load is loops in the client process; what they cost was measured against calls that do nothing.',
      'fdfs has no pool: each of its calls opens a socket to the tracker and one to the storage. So many *connections* are so many calls at a time, and for our client the limit of its pool. Each measurement begins with one call per connection before the clock.',
      'Measured against our storage as it is, which syncs every upload before it answers, and against a cluster in memory, where no disk takes part.',
    ].join('\n'),
  );
  print(
    trackers
      ? `And against the cluster of ${trackers.join(', ')}; files put there are deleted again.`
      : 'No other cluster is measured: `--trackers HOST:PORT` names one.',
  );
}
