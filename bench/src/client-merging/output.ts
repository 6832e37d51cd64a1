import type { BenchmarkContext } from '../harness/benchmark.js';
import { lineChart, type Series } from '../harness/line-chart.js';
import { type Cell, spread, table } from '../harness/markdown.js';
import { type FetchVariant, fetchId, LOCAL_ID } from './fetching.js';
import { FETCH_CONCURRENCIES, PAPER_FETCH, PAPER_WRITE, WRITE_CONCURRENCIES } from './paper.js';
import { OWN_BYTES } from './plan.js';
import { type WriteFigure, writeId } from './writing.js';

/** Tables and charts of what was measured, beside the paper's. */

const X_TITLE = 'concurrency';
const WRITE_NAMES: Readonly<Record<WriteFigure, string>> = {
  direct: 'no merging',
  'own-merging': "FastDFS's own merging",
  acknowledged: 'client merging, acknowledged',
  stored: 'client merging, stored',
};
const FETCH_NAMES: Readonly<Record<FetchVariant, string>> = {
  direct: 'no merging',
  'own-merging': "FastDFS's own merging",
  'merged-default': 'client merging, as configured by default',
  'merged-storage-only': 'client merging, nothing kept locally',
};

export async function showWriting(context: BenchmarkContext): Promise<void> {
  const shown: readonly WriteFigure[] = context.trackers
    ? ['direct', 'own-merging', 'acknowledged', 'stored']
    : ['direct', 'acknowledged', 'stored'];
  const { figures, print, chart } = context;
  const rows = (what: string): Cell[][] =>
    WRITE_CONCURRENCIES.map((c) => [
      String(c),
      ...shown.map((figure) => spread(figures.summary(writeId(figure, c, what)))),
    ]);
  const head = ['Concurrency', ...shown.map((figure) => WRITE_NAMES[figure])];
  print('## Uploads');
  print(`MB/s, median (least–greatest):\n\n${table(head, rows('MBps'))}`);
  print(`Uploads/s:\n\n${table(head, rows('uploads'))}`);
  print(`Beside the paper (times no merging):\n\n${writeRatios(context)}`);
  print(
    `CPU, in cores (the share that is the load's own loops, in percent):\n\n${writeCpu(context, shown)}`,
  );
  const labels = WRITE_CONCURRENCIES.map(String);
  for (const { what, unit } of [
    { what: 'MBps', unit: 'MB/s' },
    { what: 'uploads', unit: 'uploads/s' },
  ]) {
    const series = shown.map((figure) => ({
      name: WRITE_NAMES[figure],
      values: WRITE_CONCURRENCIES.map((c) => figures.summary(writeId(figure, c, what)).median),
    }));
    const title = `Uploads of 2 to 100 KB, ${unit}`;
    await chart(
      `client-merging-${what === 'MBps' ? 'write' : 'uploads'}.svg`,
      lineChart({ title, xTitle: X_TITLE, yTitle: unit, labels, series }),
    );
  }
  await chart('client-merging-write-against-paper.svg', againstPaper(context));
}

function writeRatios({ figures }: BenchmarkContext): string {
  const ratio = (figure: WriteFigure, c: number) =>
    figures.summary(writeId(figure, c, 'vs-direct')).median;
  return table(
    ['Concurrency', 'Acknowledged', 'Stored', "Paper's client merging", "Paper's own merging"],
    WRITE_CONCURRENCIES.map((c, index) => [
      String(c),
      ratio('acknowledged', c),
      ratio('stored', c),
      PAPER_WRITE.merging[index]! / PAPER_WRITE.direct[index]!,
      PAPER_WRITE.own[index]! / PAPER_WRITE.direct[index]!,
    ]),
  );
}

function writeCpu({ figures }: BenchmarkContext, shown: readonly WriteFigure[]): string {
  const columns = shown.filter((figure) => figure !== 'own-merging');
  return table(
    ['Concurrency', ...columns.map((figure) => `${WRITE_NAMES[figure]}: web server, storage`)],
    WRITE_CONCURRENCIES.map((c) => [
      String(c),
      ...columns.map((figure) => {
        const of = (what: string) => figures.summary(writeId(figure, c, what)).median;
        const storage = figure === 'acknowledged' ? '' : `, ${of('cpu.storage').toFixed(2)}`;
        const load = (100 * of('cpu.load')).toFixed(1);
        return `${of('cpu.web-server').toFixed(2)} (${load})${storage}`;
      }),
    ]),
  );
}

function againstPaper({ figures }: BenchmarkContext): string {
  const ours = (figure: WriteFigure): Series => ({
    name: WRITE_NAMES[figure],
    values: share(
      WRITE_CONCURRENCIES.map((c) => figures.summary(writeId(figure, c, 'MBps')).median),
    ),
  });
  return lineChart({
    title: 'Writing speed over concurrency, each as a share of its own best',
    xTitle: X_TITLE,
    yTitle: 'percent of the best',
    labels: WRITE_CONCURRENCIES.map(String),
    series: [
      ours('direct'),
      ours('stored'),
      { name: 'paper: no merging', values: share(PAPER_WRITE.direct) },
      { name: "paper: FastDFS's own merging", values: share(PAPER_WRITE.own) },
      { name: 'paper: client merging', values: share(PAPER_WRITE.merging) },
    ],
  });
}

function share(values: readonly number[]): number[] {
  const best = Math.max(...values);
  return values.map((value) => (100 * value) / best);
}

export async function showFetching(context: BenchmarkContext): Promise<void> {
  const shown: readonly FetchVariant[] = context.trackers
    ? ['direct', 'own-merging', 'merged-default', 'merged-storage-only']
    : ['direct', 'merged-default', 'merged-storage-only'];
  const { figures, print, chart } = context;
  const median = (variant: FetchVariant, c: number, what: string) =>
    figures.summary(fetchId(variant, c, what)).median;
  print('## Fetches');
  print(
    `Fetches/s, median (least–greatest); every file was compared with what was stored:\n\n${table(
      ['Concurrency', ...shown.map((variant) => FETCH_NAMES[variant])],
      FETCH_CONCURRENCIES.map((c) => [
        String(c),
        ...shown.map((variant) => spread(figures.summary(fetchId(variant, c, 'fetches')))),
      ]),
    )}`,
  );
  const local = figures.summary(LOCAL_ID);
  print(
    local.max > OWN_BYTES / 1e6
      ? `**Not all of it is fetched from the storage**: with *nothing kept locally* ${spread(local)} MB were still on the web server's disk.`
      : `Nothing kept locally: ${spread(local)} MB were on the web server's disk.`,
  );
  print(
    `Beside the paper (times no merging):\n\n${table(
      [
        'Concurrency',
        'By default',
        'Nothing local',
        "Paper's client merging",
        "Paper's own merging",
      ],
      FETCH_CONCURRENCIES.map((c, index) => [
        String(c),
        median('merged-default', c, 'vs-direct'),
        median('merged-storage-only', c, 'vs-direct'),
        PAPER_FETCH.merging[index]! / PAPER_FETCH.direct[index]!,
        PAPER_FETCH.own[index]! / PAPER_FETCH.direct[index]!,
      ]),
    )}`,
  );
  const cpuShown = shown.filter((variant) => variant !== 'own-merging');
  print(
    `CPU, in cores (the share that is the load's own loops, in percent):\n\n${table(
      ['Concurrency', ...cpuShown.map((variant) => `${FETCH_NAMES[variant]}: web server, storage`)],
      FETCH_CONCURRENCIES.map((c) => [
        String(c),
        ...cpuShown.map((variant) => {
          const load = (100 * median(variant, c, 'cpu.load')).toFixed(1);
          const storage = median(variant, c, 'cpu.storage').toFixed(2);
          return `${median(variant, c, 'cpu.web-server').toFixed(2)} (${load}), ${storage}`;
        }),
      ]),
    )}`,
  );
  const series = shown.map((variant) => ({
    name: FETCH_NAMES[variant],
    values: FETCH_CONCURRENCIES.map((c) => median(variant, c, 'fetches')),
  }));
  const title = 'Fetches of 2 to 100 KB, fetches/s';
  const labels = FETCH_CONCURRENCIES.map(String);
  await chart(
    'client-merging-fetch.svg',
    lineChart({ title, xTitle: X_TITLE, yTitle: 'fetches/s', labels, series }),
  );
}
