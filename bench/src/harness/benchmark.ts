import type { NamedServer } from '../servers/kinds.js';
import type { Figures } from './figures.js';
import type { Goal } from './goals.js';
import type { ChartSpec, TableSpec } from './markdown.js';
import type { Workspace } from './workspace.js';

/**
 * How much is measured: at least five long runs, a few short ones (all benchmarks within ten
 * minutes on two quiet cores), or just enough to see that everything runs.
 */
export type Scale = 'full' | 'quick' | 'smoke';

/** What every benchmark is, and what it is given. */
export interface Benchmark {
  /** What an upload has survived when it is acknowledged; part of the report. */
  readonly durability: string;
  /** Packages of others that take part: their versions are in the report. */
  readonly packages?: readonly string[];
  /** What is measured, and how. */
  introduce(context: BenchmarkContext): string;
  /** By name, in their order; `--parts` chooses from them. */
  parts(scale: Scale, servers: readonly NamedServer[]): Readonly<Record<string, Part>>;
}

/** Where one fails, the others are measured all the same. */
export interface Part {
  /** Declared before anything is measured: the report has them all, whatever happens. */
  readonly goals: readonly Goal[];
  run(context: BenchmarkContext): Promise<void>;
}

export interface BenchmarkContext {
  readonly scale: Scale;
  /** Servers to measure beside, by kind and address. */
  readonly servers: readonly NamedServer[];
  readonly workspace: Workspace;
  readonly figures: Figures;
  /** A paragraph of the report. */
  print(markdown: string): void;
  /** A table of figures; documents name it `BENCHMARK/NAME`. */
  table(name: string, table: TableSpec | string): void;
  /** What is being done now, for the user who waits. */
  progress(text: string): void;
  /** So many runs of it, one after the other. */
  runs(what: string, count: number, run: (index: number) => Promise<void>): Promise<void>;
  /** Keeps a chart under a file name, and names the file in the report. */
  chart(name: string, chart: ChartSpec): void;
}

/** The same plan for every scale, but for what is changed. */
export function plans<Plan>(
  full: Plan,
  quick: Partial<Plan>,
  smoke: Partial<Plan>,
): Readonly<Record<Scale, Plan>> {
  return { full, quick: { ...full, ...quick }, smoke: { ...full, ...smoke } };
}
