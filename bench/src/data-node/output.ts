import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, round, spread, table } from '../harness/markdown.js';
import { figureId, type Series } from './measuring.js';
import { PAPER_GAINS } from './paper.js';
import type { Plan } from './plan.js';
import { DISKS, type DiskKind, SETTINGS, type Setting } from './settings.js';
import { SIZED, sizeOf } from './sizes.js';

/** Tables and charts of what was measured, beside the paper's percentages. */

const DISK_NAMES: Readonly<Record<DiskKind, string>> = {
  measured: 'the measured disk',
  slowed: "a disk slowed to the paper's kind",
};

interface Shown {
  readonly series: Exclude<Series, 'size'>;
  readonly title: string;
  readonly file: string;
  readonly xTitle: string;
  readonly labels: readonly number[];
  readonly prefix: string;
}

export async function showThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  const shown: readonly Shown[] = [
    {
      series: 'read',
      title: 'Figure 6: reads over threads',
      file: 'read',
      xTitle: 'threads',
      labels: plan.threads,
      prefix: 't',
    },
    {
      series: 'mixed',
      title: 'Figure 8: 20 reads for a write, over threads',
      file: 'mixed',
      xTitle: 'threads',
      labels: plan.threads,
      prefix: 't',
    },
    {
      series: 'nodes',
      title: 'Figure 9: reads over nodes',
      file: 'nodes',
      xTitle: 'nodes',
      labels: plan.nodes,
      prefix: 'n',
    },
  ];
  for (const each of shown) {
    context.print(`## ${each.title}`);
    for (const disk of DISKS) await showOne(context, each, disk);
  }
}

async function showOne(
  { figures, print, chart }: BenchmarkContext,
  { series, title, file, xTitle, labels, prefix }: Shown,
  disk: DiskKind,
): Promise<void> {
  const of = (setting: Setting, label: number, what: string) =>
    figures.summary(figureId({ series, disk, setting, at: `${prefix}${label}` }, what));
  const rows = labels.map((label): Cell[] => [
    String(label),
    ...SETTINGS.map((setting) => spread(of(setting, label, 'requests'))),
  ]);
  print(
    `On ${DISK_NAMES[disk]}, requests/s, median (least–greatest):\n\n${table([capital(xTitle), ...SETTINGS], rows)}`,
  );
  const gained = SETTINGS.filter((setting) => setting !== 'neither');
  const gains = labels.map((label): Cell[] => [
    String(label),
    ...gained.map((setting) => percent(of(setting, label, 'vs-neither').median)),
  ]);
  const paper: Cell[] = [
    'the paper',
    ...gained.map((setting) => PAPER_GAINS[series][setting] ?? ''),
  ];
  print(`Gain over neither, percent:\n\n${table([capital(xTitle), ...gained], [...gains, paper])}`);
  const perRequest = labels.map((label): Cell[] => [
    String(label),
    ...SETTINGS.map((setting) => {
      const [reads, bytes, node, load] = ['disk.reads', 'disk.bytes', 'cpu.node', 'cpu.load'].map(
        (what) => round(of(setting, label, what).median),
      );
      return `${reads}, ${bytes}; ${node}, ${load}`;
    }),
  ]);
  print(
    `Disk reads and kB read from the disk per request; CPU of nodes and load, in cores:\n\n${table([capital(xTitle), ...SETTINGS], perRequest)}`,
  );
  const cpu = labels.map((label): Cell[] => [
    String(label),
    ...SETTINGS.map((setting) => {
      const used = round(of(setting, label, 'cpu.request').median);
      return setting === 'neither'
        ? used
        : `${used} (${round(of(setting, label, 'cpu-vs-neither').median)})`;
    }),
  ]);
  print(
    `CPU of the nodes for each request, µs (as a multiple of neither's):\n\n${table([capital(xTitle), ...SETTINGS], cpu)}`,
  );
  await chart(`data-node-${file}-${disk}.svg`, {
    title: `${title} (${DISK_NAMES[disk]})`,
    xTitle,
    yTitle: 'requests/s',
    labels: labels.map(String),
    series: SETTINGS.map((setting) => ({
      name: setting,
      values: labels.map((label) => of(setting, label, 'requests').median),
    })),
  });
}

export async function showSizes(
  { figures, print, chart }: BenchmarkContext,
  plan: Plan,
): Promise<void> {
  print('## Figure 7: gain over the size of the cache');
  for (const disk of DISKS) {
    const of = (setting: Setting, mebibytes: number, what: string) =>
      figures.summary(figureId({ series: 'size', disk, setting, at: sizeOf(mebibytes) }, what))
        .median;
    const rows = plan.cacheMebibytes.map((mebibytes): Cell[] => [
      sizeOf(mebibytes),
      ...SIZED.flatMap((setting) => [
        of(setting, mebibytes, 'requests'),
        percent(of(setting, mebibytes, 'vs-neither')),
        of(setting, mebibytes, 'hits'),
      ]),
    ]);
    const head = [
      'Cache',
      ...SIZED.flatMap((name) => [`${name}, requests/s`, 'gain, %', 'hit ratio']),
    ];
    const nothing = round(of('neither', 0, 'requests'));
    print(
      `On ${DISK_NAMES[disk]}; neither: ${nothing} requests/s. The paper's gain grows nearly linearly up to 64 MB and much slower from there on.\n\n${table(head, rows)}`,
    );
    await chart(`data-node-size-${disk}.svg`, {
      title: `Figure 7: gain over cache size (${DISK_NAMES[disk]})`,
      xTitle: 'cache',
      yTitle: 'gain over neither, percent',
      labels: plan.cacheMebibytes.map(sizeOf),
      series: SIZED.map((setting) => ({
        name: setting,
        values: plan.cacheMebibytes.map((size) => 100 * (of(setting, size, 'vs-neither') - 1)),
      })),
    });
  }
}

function percent(times: number): string {
  return (100 * (times - 1)).toFixed(0);
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
