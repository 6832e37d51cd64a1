import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchArguments } from './arguments.js';
import type { Benchmark, BenchmarkContext, Part } from './benchmark.js';
import { Figures } from './figures.js';
import { judge } from './goals.js';
import { type LineChart, lineChart } from './line-chart.js';
import { describeMachine, describeVersions, type Machine, type Versions } from './machine.js';
import { chartOf, figureTable, goalsTable, round } from './markdown.js';
import { UsageError } from './usage-error.js';
import { Workspace } from './workspace.js';

/** Runs one benchmark, prints its report, and gives it as the JSON file has it. */

export type Report = Awaited<ReturnType<typeof runBenchmark>>;

const REMARKS = { quick: 'Quick: figures are rough.', smoke: 'Smoke: figures mean nothing.' };

/** `directory`: where the data goes, in one of its own; undefined: the temporary one. */
export type ReportOptions = Pick<BenchArguments, 'scale' | 'servers' | 'parts' | 'directory'> & {
  /** Where charts go. */
  readonly out: string;
};

/** By name; throws a UsageError for a part that the benchmark does not have. */
export function chooseParts(
  name: string,
  benchmark: Benchmark,
  { scale, servers, parts: wanted }: Pick<ReportOptions, 'scale' | 'servers' | 'parts'>,
): readonly (readonly [string, Part])[] {
  const all = Object.entries(benchmark.parts(scale, servers));
  const unknown = wanted?.find((part) => !all.some(([each]) => each === part));
  if (unknown !== undefined) {
    const there = all.map(([part]) => part).join(', ');
    throw new UsageError(`${name} has no part "${unknown}"; there are: ${there}`);
  }
  return all.filter(([part]) => wanted?.includes(part) ?? true);
}

export async function runBenchmark(name: string, benchmark: Benchmark, options: ReportOptions) {
  const { scale, servers } = options;
  const parts = chooseParts(name, benchmark, options);
  await using workspace = await Workspace.open(options.directory);
  const figures = new Figures();
  /** Of the part that runs. */
  let drawn = newDrawn();
  const machine = await describeMachine(workspace.directory);
  const packages = benchmark.packages ?? [];
  const versions = describeVersions(packages);
  print(`# ${name}`);
  print(machineText(machine, versions, packages));
  if (scale !== 'full') print(REMARKS[scale]);
  const progress = (text: string) => void process.stderr.write(`bench: ${name}: ${text}\n`);
  const chart: BenchmarkContext['chart'] = (file, { series, ...about }) => {
    mkdirSync(options.out, { recursive: true });
    const path = join(options.out, `${name}-${file}.svg`);
    const lines = series.map(({ values, ...each }) => ({
      ...each,
      values: values.map((value) => medianIn(figures, value)),
    }));
    drawn.charts[file] = { ...about, series: lines };
    writeFileSync(path, lineChart(drawn.charts[file]));
    print(`Chart: ${path}`);
  };
  const context: BenchmarkContext = {
    ...{ scale, servers, workspace, figures, print, progress, chart },
    table: (id, spec) => {
      const text = typeof spec === 'string' ? spec : figureTable(figures, spec);
      drawn.tables[id] = text;
      print(text);
      if (typeof spec !== 'string' && spec.chart) chart(id, chartOf(spec, spec.chart));
    },
    runs: async (what, count, run) => {
      for (let index = 0; index < count; index += 1) {
        progress(`${what}, run ${index + 1} of ${count}`);
        await run(index);
      }
    },
  };
  print(benchmark.introduce(context));
  /** Parts that failed, and goals that were not measured; a goal that is not met is no failure. */
  const failures: string[] = [];
  const done: Record<string, ReturnType<typeof newDrawn> & { figures: Listed }> = {};
  for (const [part, { run }] of parts) {
    // What all parts leave would fill a disk.
    await using own = await Workspace.open(options.directory);
    const before = figures.list().length;
    drawn = newDrawn();
    try {
      await run({ ...context, workspace: own });
      done[part] = { ...drawn, figures: figures.list().slice(before) };
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      failures.push(`${part}: ${text}`);
      print(`**${part} failed**: ${text}`);
      process.stderr.write(`bench: ${error instanceof Error ? error.stack : text}\n`);
    }
  }
  const goals = parts
    .flatMap(([, part]) => part.goals)
    .map((goal) => judge(goal, figures, (reason) => failures.push(reason)));
  if (goals.length > 0) print(`## Goals\n\n${goalsTable(goals)}`);
  const { durability } = benchmark;
  const about = { name, scale, machine, versions, durability };
  return { ...about, parts: done, goals, failures };
}

type Listed = ReturnType<Figures['list']>;

/** Tables as they were printed, and charts, by their names. */
function newDrawn() {
  return { tables: {} as Record<string, string>, charts: {} as Record<string, LineChart> };
}

function medianIn(figures: Figures, value: number | string | null): number | null {
  if (typeof value !== 'string') return value;
  return figures.has(value) ? figures.median(value) : null;
}

function print(markdown: string): void {
  process.stdout.write(`${markdown}\n\n`);
}

function machineText(machine: Machine, versions: Versions, packages: readonly string[]): string {
  const { cpu, cores, memoryBytes, platform, release, arch, loadAverage } = machine;
  const others = packages.map((name) => `${name} ${versions[name]}, `).join('');
  const lines = [
    `Stevedore ${versions.stevedore}, ${others}Node ${versions.node}, ${platform} ${release} ${arch}, ${cores} × ${cpu}, ${round(memoryBytes / 2 ** 30)} GiB memory, load average ${round(loadAverage)} at the start.`,
    `Disk: appending 4 KiB durably takes ${round(machine.syncMs)} ms; 4 MiB at a time, durably, ${round(machine.sequentialMBps)} MB/s.`,
  ];
  if (machine.dataInMemory) {
    lines.push('The data is in memory (tmpfs): syncs cost nothing, durable writes look too fast.');
  }
  return lines.join('\n');
}
