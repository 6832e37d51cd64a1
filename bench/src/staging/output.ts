import type { BenchmarkContext } from '../harness/benchmark.js';
import { spread, table } from '../harness/markdown.js';
import { costId, OPERATIONS } from './costs.js';
import { type Plan, SMALL_ROWS } from './plan.js';
import { STATES, startId } from './starting.js';
import { BODIES, uploadId } from './writing.js';

/** Tables of what was measured; median (least–greatest) everywhere. */

const BODY_NAMES = { mixed: '2 to 100 KB', '4k': '4 KiB' } as const;

export function showStarting({ figures, print }: BenchmarkContext, plan: Plan): void {
  const rows = STATES.map((state) => [
    state,
    ...['ready', 'open', 'memory', 'memory.after'].map((what) =>
      spread(figures.summary(startId(state, what))),
    ),
  ]);
  const head = ['', 'Ready, s', 'of that `open`, s', 'Memory when ready, MiB', 'most after, MiB'];
  print(
    `## Start with ${plan.startFiles.toLocaleString('en-US')} files\n\nReady is counted from the start of the process. Most after: within ${plan.watchSeconds} s of being ready, when merging has begun.\n\n${table(head, rows)}`,
  );
}

export function showCosts({ figures, print }: BenchmarkContext, plan: Plan): void {
  const whats = ['small', 'large', 'ratio', 'ratio.cpu'];
  const rows = OPERATIONS.map((operation) => [
    operation,
    ...whats.map((what) => spread(figures.summary(costId(operation, what)))),
  ]);
  const [small, large] = [SMALL_ROWS, plan.largeRows].map((n) => n.toLocaleString('en-US'));
  const head = ['', `${small} files, µs`, `${large} files, µs`, 'Ratio', 'Ratio of CPU time'];
  print(`## Cost by number of files\n\n${table(head, rows)}`);
  const memory = (size: string) => spread(figures.summary(`cost.memory.${size}`));
  print(`Memory behind that, MiB: ${memory('small')} and ${memory('large')}.`);
}

export function showWriting({ figures, print }: BenchmarkContext): void {
  const rows = BODIES.map((bodies) => [
    BODY_NAMES[bodies],
    ...['sync.uploads', 'os.uploads', 'sync-vs-os', 'sync.MBps', 'os.MBps'].map((what) =>
      spread(figures.summary(uploadId(bodies, what))),
    ),
  ]);
  const head = [
    'Bodies',
    '`sync`, uploads/s',
    '`os`, uploads/s',
    'Ratio',
    '`sync`, MB/s',
    '`os`, MB/s',
  ];
  print(`## Group commit\n\n${table(head, rows)}`);
  const container = [
    'container.write',
    'container.plain',
    'container.write-vs-plain',
    'container.batch.files',
    'container.batch.bytes',
    'container.batch.durable',
  ].map((id) => spread(figures.summary(id)));
  print(
    `## Container\n\n${table(
      [
        '',
        'Container, MB/s',
        'Plain, MB/s',
        'Ratio',
        'Files per batch',
        'kB per batch',
        'Durable in one call',
      ],
      [['2 to 100 KB', ...container]],
    )}`,
  );
}
