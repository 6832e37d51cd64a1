import type { BenchmarkContext } from '../harness/benchmark.js';
import { round, spread, table } from '../harness/markdown.js';
import { errorId, FORECASTERS, type ForecasterName, ratioId } from './forecasting.js';
import { shareId } from './goals.js';
import { ACCESS_KIB, costId, WAY_TEXTS, WAYS } from './moving-cost.js';
import { PAPER_ERRORS } from './paper.js';
import { SERVERS, simulatedId } from './several-servers.js';
import { TRACES, type TraceName } from './traces.js';
import {
  CLIENTS,
  GENERATOR_CPU_ID,
  latencyId,
  PACED_PER_SECOND,
  pacedId,
  STORAGE_CPU_ID,
  throughputId,
  VARIANTS,
} from './trade-off.js';

/** Tables of what was replayed; median (least–greatest) over the runs' seeds. */

const TRACE_TEXTS: Readonly<Record<TraceName, string>> = {
  metadata: 'Metadata, the paper’s trace',
  smallFile: 'Small files, 1 to 16 clients',
  'metadata-unheld': 'Metadata, nothing held back',
  'metadata-irregular': 'Hold-out: metadata, irregular',
  'metadata-three-phases': 'Hold-out: metadata, three phases',
  'small-files-32k': 'Hold-out: small files, 32 KiB',
  'small-files-96k': 'Hold-out: small files, 96 KiB',
};

const FORECASTER_TEXTS: Readonly<Record<ForecasterName, string>> = {
  'ba-esm': 'BA-ESM 0.1',
  'sesm-0.1': 'SESM 0.1',
  'sesm-0.6': 'SESM 0.6',
  'sesm-0.9': 'SESM 0.9',
  panel: 'Panel (ours)',
};

export function showForecasts({ figures, print }: BenchmarkContext): void {
  const names = Object.keys(TRACES) as TraceName[];
  const rows = names.flatMap((trace) => {
    const measured = [
      TRACE_TEXTS[trace],
      ...FORECASTERS.map((name) => spread(figures.summary(errorId(trace, name)))),
      round(figures.summary(ratioId(trace, 'ba-esm-vs-sesm')).median),
      round(figures.summary(ratioId(trace, 'panel-vs-ba-esm')).median),
    ];
    const paper = trace === 'metadata' || trace === 'smallFile' ? PAPER_ERRORS[trace] : undefined;
    if (paper === undefined) return [measured];
    const best = Math.min(paper['sesm-0.1'], paper['sesm-0.6'], paper['sesm-0.9']);
    const printed = [
      ...FORECASTERS.map((name) => (name === 'panel' ? '' : round(paper[name]))),
      round(paper['ba-esm'] / best),
      '',
    ];
    return [measured, ['– in the paper', ...printed]];
  });
  const head = [
    'MAE, MB per interval',
    ...FORECASTERS.map((name) => FORECASTER_TEXTS[name]),
    'BA-ESM / best SESM',
    'Panel / BA-ESM',
  ];
  print(`## Table 3: accuracy of the forecasts\n\n${table(head, rows)}`);
}

export function showTradeOff({ figures, print }: BenchmarkContext): void {
  const cells = (id: (clients: number) => string) =>
    CLIENTS.map((clients) => spread(figures.summary(id(clients))));
  const rows = VARIANTS.flatMap((variant) => [
    ...(['metadata', 'small-files'] as const).map((kind) => [
      `${variant}, ${kind}`,
      ...cells((clients) => throughputId(variant, kind, clients)),
    ]),
    [
      `${variant}, metadata, 99 % within (ms)`,
      ...cells((clients) => latencyId(variant, clients, 'p99')),
    ],
  ]);
  const head = ['Requests/s', ...CLIENTS.map((clients) => `${clients} clients`)];
  const paced = VARIANTS.map((variant) => [
    variant,
    ...(['metadata', 'p50', 'p99', 'small-files'] as const).map((what) =>
      spread(figures.summary(pacedId(variant, what))),
    ),
  ]);
  const pacedHead = ['', 'metadata/s', '50 % within (ms)', '99 % within (ms)', 'small files/s'];
  const cores = (id: string) => round(figures.summary(id).median);
  const shares = VARIANTS.map(
    (variant) => `${spread(figures.summary(shareId(variant)))} (${variant})`,
  );
  print(
    [
      `## Figure 4: one metadata server\n\n${table(head, rows)}`,
      'In the paper metadata throughput falls by 66.7 % between 1 and 16 clients without the method, and stays level with it. Each small file here is read once, just after it was stored, so none of them moves: what small files give up goes to nobody else.',
      `Metadata at ${PACED_PER_SECOND} requests a second, 16 small-file clients:\n\n${table(pacedHead, paced)}`,
      `Metadata at 16 clients, times that at 1 just before or after: ${shares.join(', ')}.`,
      `CPU: the storage used ${cores(STORAGE_CPU_ID)} cores, the two generators together ${cores(GENERATOR_CPU_ID)} (medians over all of the above).`,
    ].join('\n\n'),
  );
}

export function showMoving({ figures, print }: BenchmarkContext): void {
  const value = (id: string) => figures.summary(`moving.${id}`).median;
  print(
    `## Moves under load\n\n${table(
      ['', 'Moves', 'Moves/s', 'Changes', 'Reads', 'Failed', 'Wrong'],
      [
        [
          'grown out of a row, cut back into one',
          ...['moves', 'rate', 'changes', 'reads', 'failed', 'wrong'].map((id) =>
            value(id).toFixed(0),
          ),
        ],
      ],
    )}`,
  );
}

export function showSeveralServers({ figures, print }: BenchmarkContext): void {
  const rows = VARIANTS.flatMap((variant) =>
    SERVERS.map((servers) => [
      `${variant}, ${servers}`,
      ...(['metadata.rate', 'metadata.p99', 'small-files.rate', 'moves'] as const).map((figure) =>
        round(figures.summary(simulatedId(variant, servers, figure)).median),
      ),
    ]),
  );
  const head = [
    'Metadata servers',
    'Metadata, requests/s',
    'its 99th percentile, ms',
    'Small files, requests/s',
    'Moves',
  ];
  print(
    `## Figure 5: several metadata servers, simulated\n\n${table(head, rows)}\n\nIn the paper several servers raise metadata throughput by 3 %. Here metadata arrives at its own pace, so what more it gets shows in the time that it takes.`,
  );
}

export function showMovingCost({ figures, print }: BenchmarkContext): void {
  const rows = WAYS.map((way) => [
    WAY_TEXTS[way],
    ...ACCESS_KIB.map((access) => spread(figures.summary(costId(way, access)))),
  ]);
  const head = [
    'Milliseconds',
    ...ACCESS_KIB.map((kib) => (kib < 1024 ? `${kib} KiB` : `${kib / 1024} MiB`)),
  ];
  const paper = [
    'The paper shows this as a chart without numbers. There the writer waits until the file has got to the I/O servers, which passive migration and two schemes make shorter.',
    'Ours: threshold 1 MiB, everything synced, all processes on one machine. The write makes the file one of the storage; it goes on to the other group afterwards, and nobody waits for that. With accesses of 4 MiB the file is empty before.',
  ];
  print(`## Figure 6: cost of a migration\n\n${table(head, rows)}\n\n${paper.join('\n\n')}`);
}
