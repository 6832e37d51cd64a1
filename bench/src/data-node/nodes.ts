import { copyFile, link, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import type { LoadHandlers, LoadOptions, LoadResult } from './load-process.js';
import type { NodeCounts, NodeHandlers } from './node-process.js';
import { type Plan, THREADS } from './plan.js';
import {
  type CacheOptions,
  cacheOptionsOf,
  type DiskKind,
  type Layout,
  layoutOf,
  SETTINGS,
  type Setting,
} from './settings.js';

/** The measured nodes, and the load that asks them; each is a process of its own. */

const CALL_LIMIT_MS = 600_000;
/** Smaller files are copied: they may be written. */
const LINKED_BYTES = 2 ** 20;

export function newLoad(): Child<LoadHandlers> {
  return new Child<LoadHandlers>(new URL('./load-process.js', import.meta.url), {
    callLimitMs: CALL_LIMIT_MS,
  });
}

function newNode(): Child<NodeHandlers> {
  return new Child<NodeHandlers>(new URL('./node-process.js', import.meta.url), {
    callLimitMs: CALL_LIMIT_MS,
    ...AS_THE_COMMAND,
  });
}

/** The files of one node, in one layout. */
interface StoredData {
  readonly directory: string;
  /** As the load knows them. */
  readonly data: string;
}

export type StoredLayouts = Readonly<Record<Layout, StoredData>>;

/** Stores the files of a node in both layouts. */
export async function storeData(
  { workspace, progress }: BenchmarkContext,
  plan: Plan,
  load: Child<LoadHandlers>,
  node: number,
): Promise<StoredLayouts> {
  const store = async (layout: Layout): Promise<StoredData> => {
    progress(`storing ${Math.round(plan.dataBytes / 1e6)} MB, ${layout}, node ${node}`);
    const directory = workspace.fresh(layout);
    await using child = newNode();
    const port = await child.call('start', { directory, ...cacheOptionsOf('neither') });
    const { dataBytes } = plan;
    return { directory, data: await load.call('fill', { port, node, dataBytes, layout }) };
  };
  return { scattered: await store('scattered'), 'co-located': await store('co-located') };
}

/** Nodes of one setting that share a load. */
export class Nodes implements AsyncDisposable {
  readonly #context: BenchmarkContext;
  readonly #load: Child<LoadHandlers>;
  readonly #children: Child<NodeHandlers>[] = [];
  readonly #targets: { readonly port: number; readonly data: string }[] = [];
  readonly #directories: string[] = [];

  private constructor(context: BenchmarkContext, load: Child<LoadHandlers>) {
    this.#context = context;
    this.#load = load;
  }

  static async start(
    context: BenchmarkContext,
    load: Child<LoadHandlers>,
    stored: readonly StoredLayouts[],
    setting: Setting,
    cache: CacheOptions,
  ): Promise<Nodes> {
    const nodes = new Nodes(context, load);
    try {
      for (const layouts of stored) {
        const { directory: from, data } = layouts[layoutOf(setting)];
        const directory = context.workspace.fresh('node');
        nodes.#directories.push(directory);
        await copyNode(from, directory);
        const child = newNode();
        nodes.#children.push(child);
        const port = await child.call('start', { directory, ...cache });
        nodes.#targets.push({ port, data });
      }
      return nodes;
    } catch (error) {
      await nodes[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Fills the caches as they will be. */
  async warmUp(plan: Plan, times = 1): Promise<void> {
    const maxRequests = plan.warmUpRequests * this.#children.length * times;
    await this.run({ threads: THREADS, seconds: 300, maxRequests, seed: 0, mixed: false });
  }

  /** Loads the first `count` of the nodes, by default all. */
  run(options: Omit<LoadOptions, 'targets'>, count = this.#targets.length): Promise<LoadResult> {
    return this.#load.call('run', { ...options, targets: this.#targets.slice(0, count) });
  }

  async setDisk(disk: DiskKind): Promise<void> {
    await Promise.all(this.#children.map((child) => child.call('setDisk', disk)));
  }

  /** Of all nodes together. */
  async counts(): Promise<NodeCounts> {
    const all = await Promise.all(this.#children.map((child) => child.call('counts')));
    return all.reduce((sum, counts) => {
      const entries = Object.entries(counts) as [keyof NodeCounts, number][];
      return Object.fromEntries(
        entries.map(([name, value]) => [name, sum[name] + value]),
      ) as unknown as NodeCounts;
    });
  }

  async isDirect(): Promise<boolean> {
    return this.#children[0]!.call('isDirect');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child[Symbol.asyncDispose]()));
    for (const directory of this.#directories) await this.#context.workspace.remove(directory);
  }
}

/** The nodes of every setting, at the same time. */
export type NodesOfSettings = Readonly<Record<Setting, Nodes>>;

/** Starts them with full caches; `stop` ends them all. */
export async function startSettings(
  context: BenchmarkContext,
  plan: Plan,
  load: Child<LoadHandlers>,
  stored: readonly StoredLayouts[],
): Promise<{ readonly nodes: NodesOfSettings; stop(): Promise<void> }> {
  const started: [Setting, Nodes][] = [];
  const stop = async (): Promise<void> => {
    for (const [, nodes] of started) await nodes[Symbol.asyncDispose]();
  };
  try {
    for (const setting of SETTINGS) {
      context.progress(`nodes of setting ${setting} are warmed up`);
      const cache = cacheOptionsOf(setting);
      const nodes = await Nodes.start(context, load, stored, setting, cache);
      started.push([setting, nodes]);
      await nodes.warmUp(plan);
    }
    return { nodes: Object.fromEntries(started) as Record<Setting, Nodes>, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Trunks never change: a second name is as good as a copy. */
async function copyNode(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const copy = join(to, path.slice(from.length));
    await mkdir(dirname(copy), { recursive: true });
    if ((await stat(path)).size >= LINKED_BYTES) await link(path, copy);
    else await copyFile(path, copy);
  }
}
