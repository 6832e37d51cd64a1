import type { Figures } from './figures.js';
import type { Workspace } from './workspace.js';

/** What every benchmark is, and what it is given. */
export interface Benchmark {
  /** What an upload has survived when it is acknowledged; part of the report. */
  readonly durability: string;
  /** What `--parts` can name; undefined: it is run as a whole. */
  readonly parts?: readonly string[];
  run(context: BenchmarkContext): Promise<void>;
}

export interface BenchmarkContext {
  /** Three short runs instead of at least five long ones. */
  readonly quick: boolean;
  /** Trackers of a cluster to measure beside; none: undefined. */
  readonly trackers: readonly string[] | undefined;
  /** True unless parts are named, and this is none of them. */
  runs(part: string): boolean;
  readonly workspace: Workspace;
  readonly figures: Figures;
  /** A paragraph or table of the report. */
  print(markdown: string): void;
  /** What is being done now, for whoever waits. */
  progress(text: string): void;
  /** Keeps a chart under a file name, and names the file in the report. */
  chart(name: string, svg: string): Promise<void>;
}
