import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, spread, table } from '../harness/markdown.js';
import {
  COLD_CONCURRENCIES,
  type FetchKind,
  type FetchVariant,
  fetchId,
  fetchRatioId,
  fetchVariants,
  localId,
  type Warmth,
} from './fetching.js';
import { FETCH_CONCURRENCIES, PAPER_FETCH, PAPER_WRITE, paperRatio } from './paper.js';
import { trackersOf, type Where, type WriteSeries } from './plan.js';
import { type Column, columnsOn, ratioId, type Step, writeId } from './writing.js';

/** Tables and charts of what was measured, beside the paper's. */

const X_TITLE = 'concurrency';
const STEPS: Readonly<Record<Step, string>> = {
  direct: 'no merging',
  acknowledged: 'client merging, acknowledged',
  stored: 'client merging, stored',
};
const KINDS: Readonly<Record<FetchKind, string>> = {
  none: 'no merging',
  default: 'client merging, as configured by default',
  half: 'client merging, half local',
  nothing: 'client merging, nothing local',
};

/** FastDFS's own merging is its storages' affair: its clients upload as without. */
function titleOf(title: string, where: Where): string {
  if (where === 'fastdfs-trunk') return "FastDFS's own merging";
  return where === 'ours' ? `${title}, our storage` : `${title}, FastDFS`;
}

const columnTitle = ({ step, where }: Column) => titleOf(STEPS[step], where);
const variantTitle = ({ kind, where }: FetchVariant) => titleOf(KINDS[kind], where);

export async function showWriting(context: BenchmarkContext, series: WriteSeries): Promise<void> {
  const { figures, print, chart, servers } = context;
  const { id, title, concurrencies } = series;
  const columns = columnsOn(servers);
  const rows = (what: string): Cell[][] =>
    concurrencies.map((c) => [
      String(c),
      ...columns.map((column) => spread(figures.summary(`${writeId(id, column, c)}.${what}`))),
    ]);
  const head = ['Concurrency', ...columns.map(columnTitle)];
  print(`## Uploads: ${title}`);
  print(`MB/s, median (least–greatest):\n\n${table(head, rows('MBps'))}`);
  print(`Uploads/s:\n\n${table(head, rows('uploads'))}`);
  print(`Stored by client merging, times the other column:\n\n${ratios(context, series)}`);
  print(`CPU of web server and our storages, in cores:\n\n${cpu(context, series)}`);
  const lines = columns.map((column) => ({
    name: columnTitle(column),
    values: concurrencies.map((c) => figures.summary(`${writeId(id, column, c)}.MBps`).median),
  }));
  const labels = concurrencies.map(String);
  await chart(`client-merging-write-${id}.svg`, {
    title: `${title}, MB/s`,
    xTitle: X_TITLE,
    yTitle: 'MB/s',
    labels,
    series: lines,
  });
}

function ratios({ figures, servers }: BenchmarkContext, series: WriteSeries): string {
  const { id, concurrencies } = series;
  const named = trackersOf('fastdfs', servers) !== undefined;
  const hasOwn = trackersOf('fastdfs-trunk', servers) !== undefined;
  const ratio = (where: Where, beside: Where, c: number) =>
    figures.summary(ratioId(id, where, beside, c)).median;
  const own = "FastDFS's own merging";
  return table(
    [
      ...['Concurrency', 'No merging, our storage'],
      ...(named ? ['No merging, FastDFS'] : []),
      ...[hasOwn ? own : `${own} (no cluster named)`],
      ...['Paper: no merging', 'Paper: own merging'],
    ],
    concurrencies.map((c) => {
      const beside = [paperRatio(PAPER_WRITE, 'merging', c), paperRatio(PAPER_WRITE, 'own', c)];
      const [all, part] = beside;
      return [
        ...[String(c), ratio('ours', 'ours', c)],
        ...(named ? [ratio('fastdfs', 'fastdfs', c)] : []),
        ...[hasOwn ? ratio(named ? 'fastdfs' : 'ours', 'fastdfs-trunk', c) : ''],
        ...[all!, typeof all === 'number' && typeof part === 'number' ? all / part : ''],
      ];
    }),
  );
}

function cpu({ figures, servers }: BenchmarkContext, { id, concurrencies }: WriteSeries): string {
  const columns = columnsOn(servers);
  return table(
    ['Concurrency', ...columns.map((column) => `${columnTitle(column)}: web server, storage`)],
    concurrencies.map((c) => [
      String(c),
      ...columns.map((column) => {
        const of = (what: string) => figures.summary(`${writeId(id, column, c)}.${what}`).median;
        const isMeasured = column.where === 'ours' && column.step !== 'acknowledged';
        const storage = isMeasured ? `, ${of('cpu.storage').toFixed(2)}` : '';
        const load = (100 * of('cpu.load')).toFixed(1);
        return `${of('cpu.web-server').toFixed(2)} (of it the load: ${load} %)${storage}`;
      }),
    ]),
  );
}

export async function showFetching(context: BenchmarkContext, isCold: boolean): Promise<void> {
  const { figures, print, chart, servers } = context;
  const variants = fetchVariants(servers);
  const median = (variant: FetchVariant, warmth: Warmth, c: number, what: string) =>
    figures.summary(`${fetchId(variant, warmth, c)}.${what}`).median;
  const head = ['Concurrency', ...variants.map(variantTitle)];
  const fetches = (warmth: Warmth, concurrencies: readonly number[]) =>
    table(
      head,
      concurrencies.map((c) => [
        String(c),
        ...variants.map((each) => spread(figures.summary(`${fetchId(each, warmth, c)}.fetches`))),
      ]),
    );
  print('## Fetches');
  print(
    `Fetches/s, median (least–greatest); every file was compared with what was stored:\n\n${fetches('warm', FETCH_CONCURRENCIES)}`,
  );
  print(
    isCold
      ? `Cold: the page cache was emptied, and no file was fetched twice:\n\n${fetches('cold', COLD_CONCURRENCIES)}`
      : 'Not measured cold: the page cache can be emptied on Linux, by root.',
  );
  const merged = variants.filter(({ kind }) => kind !== 'none');
  const local = merged.map(
    (each) => `${variantTitle(each)}: ${spread(figures.summary(localId(each)))}`,
  );
  print(`MB on the web server's own disk: ${local.join('; ')}.`);
  print(
    `Times no merging on the same storage:\n\n${table(
      [
        ...['Concurrency', ...merged.map(variantTitle)],
        ...["Paper's client merging", "Paper's own merging"],
      ],
      FETCH_CONCURRENCIES.map((c) => [
        String(c),
        ...merged.map(
          ({ kind, where }) => figures.summary(fetchRatioId(kind as never, where, c)).median,
        ),
        ...[paperRatio(PAPER_FETCH, 'merging', c), paperRatio(PAPER_FETCH, 'own', c)],
      ]),
    )}`,
  );
  print(
    `CPU of one fetch in the web server (without the load's own) and in our storage, in µs:\n\n${table(
      head,
      FETCH_CONCURRENCIES.map((c) => [
        String(c),
        ...variants.map((variant) => {
          const own = median(variant, 'warm', c, 'cpu').toFixed(0);
          if (variant.where !== 'ours') return own;
          return `${own}, ${median(variant, 'warm', c, 'cpu.storage').toFixed(0)}`;
        }),
      ]),
    )}`,
  );
  const series = variants.map((variant) => ({
    name: variantTitle(variant),
    values: FETCH_CONCURRENCIES.map((c) => median(variant, 'warm', c, 'fetches')),
  }));
  const labels = FETCH_CONCURRENCIES.map(String);
  const title = 'Fetches of 2 to 100 KB, fetches/s';
  await chart('client-merging-fetch.svg', {
    title,
    xTitle: X_TITLE,
    yTitle: 'fetches/s',
    labels,
    series,
  });
}
