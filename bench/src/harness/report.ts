import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from './arguments.js';
import type { Benchmark, BenchmarkContext } from './benchmark.js';
import { type Figure, Figures, type Goal } from './figures.js';
import { describeMachine, describeVersions, type Machine, type Versions } from './machine.js';
import { goalsTable, round } from './markdown.js';
import { Workspace } from './workspace.js';

/** Runs one benchmark, prints its report, and gives it as the JSON file has it. */

export interface Report {
  readonly name: string;
  readonly machine: Machine;
  readonly versions: Versions;
  readonly durability: string;
  readonly figures: readonly Figure[];
  readonly goals: readonly Goal[];
}

export interface ReportOptions {
  readonly quick: boolean;
  readonly trackers: readonly string[] | undefined;
  /** Undefined: all parts. */
  readonly parts: readonly string[] | undefined;
  /** Where the data goes, in a directory of its own; undefined: the temporary one. */
  readonly directory: string | undefined;
  /** Where charts go. */
  readonly out: string;
}

export async function runBenchmark(
  name: string,
  benchmark: Benchmark,
  options: ReportOptions,
): Promise<Report> {
  const { parts } = options;
  const unknown = parts?.find((part) => !benchmark.parts?.includes(part));
  if (unknown !== undefined) {
    const there = benchmark.parts?.join(', ') ?? 'none';
    throw new UsageError(`${name} has no part "${unknown}"; there are: ${there}`);
  }
  await using workspace = await Workspace.open(options.directory);
  const figures = new Figures();
  const machine = await describeMachine(workspace.directory);
  const versions = await describeVersions();
  print(`# ${name}`);
  print(machineText(machine, versions));
  const context: BenchmarkContext = {
    quick: options.quick,
    trackers: options.trackers,
    runs: (part) => parts === undefined || parts.includes(part),
    workspace,
    figures,
    print,
    progress: (text) => process.stderr.write(`bench: ${text}\n`),
    chart: async (file, svg) => {
      await mkdir(options.out, { recursive: true });
      const path = join(options.out, file);
      await writeFile(path, svg);
      print(`Chart: ${path}`);
    },
  };
  await benchmark.run(context);
  const goals = figures.goals();
  if (goals.length > 0) print(`## Goals\n\n${goalsTable(goals)}`);
  return {
    name,
    machine,
    versions,
    durability: benchmark.durability,
    figures: figures.list(),
    goals,
  };
}

function print(markdown: string): void {
  process.stdout.write(`${markdown}\n\n`);
}

function machineText(machine: Machine, { stevedore, node }: Versions): string {
  const { cpu, cores, memoryBytes, platform, release, arch, loadAverage } = machine;
  const lines = [
    `Stevedore ${stevedore}, Node ${node}, ${platform} ${release} ${arch}, ${cores} × ${cpu}, ${round(memoryBytes / 2 ** 30)} GiB memory, load average ${round(loadAverage)} at the start.`,
    `Disk: appending 4 KiB durably takes ${round(machine.syncMs)} ms; 4 MiB at a time, durably, ${round(machine.sequentialMBps)} MB/s.`,
  ];
  if (machine.dataInMemory) {
    lines.push('The data is in memory (tmpfs): syncs cost nothing, durable writes look too fast.');
  }
  return lines.join('\n');
}
