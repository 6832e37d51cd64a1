import { FastdfsClient } from '@stevedore/fastdfs';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atMost, type Goal } from '../harness/goals.js';
import { settled, until } from '../harness/load.js';
import { middle } from '../harness/markdown.js';
import { Nodes } from '../harness/nodes.js';
import type { Plan } from './plan.js';

/**
 * Moves under load: appenders that grow out of their rows and are cut back into them,
 * while others read them. Every reply and every byte is looked at.
 */

const WRITERS = 8;
const READERS = 4;
const SMALL_BYTES = 3000;
const GROWTH_BYTES = 5000;
const THRESHOLD_BYTES = 4096;
const MOVES_PER_SECOND = 10_000;
/** Of all moves together. */
const MOVES_LIMIT_MS = 900_000;

export const MOVING_GOALS: readonly Goal[] = [
  atMost(
    'moving.failed',
    'no read or write failed or wrong in moves under load',
    0,
    (figures) => figures.summary('moving.failed').max + figures.summary('moving.wrong').max,
  ),
];

export async function measureMoving(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, workspace, print, table } = context;
  await using node = new Nodes();
  const tracker = await node.call('tracker');
  await node.call('storage', {
    ...{ storePaths: [workspace.fresh('moving')], trackers: [tracker], cacheBytes: 0 },
    tiers: {
      enabled: true,
      thresholdBytes: THRESHOLD_BYTES,
      // A threshold that is learnt falls below the files, and they move no more.
      parameters: {
        minimumThresholdBytes: THRESHOLD_BYTES,
        maximumThresholdBytes: THRESHOLD_BYTES,
      },
      movesPerSecond: MOVES_PER_SECOND,
    },
  });
  await using client = new FastdfsClient({ trackers: [tracker] });
  /** The storage counts files that come back into rows: each has outgrown its row before. */
  const moves = async () => 2 * (await node.call('migration')).moves.moved;
  const counts = { changes: 0, reads: 0, failed: 0, wrong: 0 };
  let ended = false;
  const files: string[] = [];
  const start = performance.now();
  const writer = async (index: number): Promise<void> => {
    const file = await client.uploadAppender(pattern(SMALL_BYTES), { extension: 'log' });
    files[index] = file;
    while (!ended) {
      try {
        await client.append(file, pattern(SMALL_BYTES + GROWTH_BYTES).subarray(SMALL_BYTES));
        await client.truncate(file, SMALL_BYTES);
        counts.changes += 2;
      } catch {
        counts.failed += 1;
        // Whatever came of it, the next round begins where this one did.
        await client.truncate(file, SMALL_BYTES).catch(() => {});
      }
    }
  };
  const reader = async (index: number): Promise<void> => {
    for (let turn = index; !ended; turn += 1) {
      const file = files[turn % WRITERS];
      if (file === undefined) {
        await new Promise(setImmediate);
        continue;
      }
      try {
        const bytes = await client.downloadBytes(file);
        counts.reads += 1;
        const isWhole = bytes.length === SMALL_BYTES || bytes.length === SMALL_BYTES + GROWTH_BYTES;
        if (!isWhole || !bytes.equals(pattern(bytes.length))) counts.wrong += 1;
      } catch {
        counts.failed += 1;
      }
    }
  };
  const enough = async () => (await moves()) >= plan.moves;
  const watched = until(`${plan.moves} moves`, enough, MOVES_LIMIT_MS).finally(() => {
    ended = true;
  });
  await settled([
    watched,
    ...Array.from({ length: WRITERS }, (_, index) => writer(index)),
    ...Array.from({ length: READERS }, (_, index) => reader(index)),
  ]);
  const seconds = (performance.now() - start) / 1000;
  const made = await moves();
  figures.addAll('moving', {
    moves: [made, 'moves'],
    rate: [made / seconds, 'moves/s'],
    changes: [counts.changes, 'requests'],
    reads: [counts.reads, 'requests'],
    failed: [counts.failed, 'requests'],
    wrong: [counts.wrong, 'reads'],
  });
  print('## Moves under load');
  table('moving', {
    head: '',
    rows: [['grown out of a row, cut back into one', 'moving']],
    columns: [
      ['Moves', 'moves', middle],
      ['Moves/s', 'rate', middle],
      ['Changes', 'changes', middle],
      ['Reads', 'reads', middle],
      ['Failed', 'failed', middle],
      ['Wrong', 'wrong', middle],
    ],
  });
}

const PATTERN = Buffer.from(
  Array.from({ length: SMALL_BYTES + GROWTH_BYTES }, (_, index) => (index * 31) % 251),
);

function pattern(bytes: number): Buffer {
  return PATTERN.subarray(0, bytes);
}
