import { copyFile, link, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import type { Driven } from '../harness/load.js';
import { Nodes } from '../harness/nodes.js';
import type { LoadHandlers, LoadOptions } from './load-process.js';
import type { NodeCounts, NodeHandlers } from './node-process.js';
import {
  CACHE_BYTES,
  cacheOptionsOf,
  type DiskKind,
  LAYOUTS,
  type Layout,
  layoutOf,
  type Plan,
  type Setting,
  THREADS,
} from './plan.js';

/** The measured nodes, and the load that asks them; each is a process of its own. */

const CALL_LIMIT_MS = 600_000;
const WARM_UP_SECONDS = 300;
/** Smaller files are copied: they may be written. */
const LINKED_BYTES = 2 ** 20;

export function newLoad(): Child<LoadHandlers> {
  const module = new URL('./load-process.js', import.meta.url);
  return new Child<LoadHandlers>(module, { callLimitMs: CALL_LIMIT_MS });
}

function newNode(): Child<NodeHandlers> {
  const module = new URL('./node-process.js', import.meta.url);
  return new Child<NodeHandlers>(module, { callLimitMs: CALL_LIMIT_MS, ...AS_THE_COMMAND });
}

/** The files of one node, in one layout; `data`: as the load knows them. */
interface StoredData {
  readonly directory: string;
  readonly data: string;
}

export type StoredLayouts = Readonly<Record<Layout, StoredData>>;

/** Stores the files of a node in every layout. */
export async function storeData(
  { workspace, progress }: BenchmarkContext,
  { dataBytes }: Plan,
  load: Child<LoadHandlers>,
  node: number,
): Promise<StoredLayouts> {
  const store = async (layout: Layout): Promise<StoredData> => {
    progress(`storing ${Math.round(dataBytes / 1e6)} MB, ${layout}, node ${node}`);
    const directory = workspace.fresh(layout);
    await using trackers = new Nodes();
    const tracker = await trackers.call('tracker');
    await using child = newNode();
    await child.call('start', { directory, trackers: [tracker], ...cacheOptionsOf('cache') });
    const web = workspace.fresh('web');
    const data = await load.call('fill', { tracker, directory: web, node, dataBytes, layout });
    await workspace.remove(web);
    return { directory, data };
  };
  const stored: Partial<Record<Layout, StoredData>> = {};
  for (const layout of LAYOUTS) stored[layout] = await store(layout);
  return stored as StoredLayouts;
}

/** Nodes of one setting that share a load, their caches filled as they will be. */
export class SettingNodes implements AsyncDisposable {
  readonly setting: Setting;
  readonly #context: BenchmarkContext;
  readonly #load: Child<LoadHandlers>;
  readonly #children: Child<NodeHandlers>[] = [];
  readonly #targets: { readonly port: number; readonly data: string }[] = [];
  readonly #directories: string[] = [];

  private constructor(context: BenchmarkContext, load: Child<LoadHandlers>, setting: Setting) {
    this.#context = context;
    this.#load = load;
    this.setting = setting;
  }

  static async start(
    context: BenchmarkContext,
    { warmUpRequests }: Plan,
    load: Child<LoadHandlers>,
    stored: readonly StoredLayouts[],
    setting: Setting,
    cacheBytes?: number,
  ): Promise<SettingNodes> {
    const nodes = new SettingNodes(context, load, setting);
    const cache = cacheOptionsOf(setting, cacheBytes);
    try {
      for (const layouts of stored) {
        const { directory: from, data } = layouts[layoutOf(setting)];
        const directory = context.workspace.fresh('node');
        nodes.#directories.push(directory);
        await copyNode(from, directory);
        const child = newNode();
        nodes.#children.push(child);
        nodes.#targets.push({ port: await child.call('start', { directory, ...cache }), data });
      }
      // A large cache takes more requests to be what it will be.
      const times = Math.max(1, (cache.cacheBytes + cache.pageCacheBytes) / CACHE_BYTES);
      const maxRequests = warmUpRequests * stored.length * times;
      const how = { threads: THREADS, seconds: WARM_UP_SECONDS, maxRequests, seed: 0 };
      await nodes.run({ ...how, mixed: false });
      return nodes;
    } catch (error) {
      await nodes[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Loads the first `count` of the nodes, by default all. */
  run(options: Omit<LoadOptions, 'targets'>, count = this.#targets.length): Promise<Driven> {
    return this.#load.call('run', { ...options, targets: this.#targets.slice(0, count) });
  }

  async setDisk(disk: DiskKind): Promise<void> {
    await Promise.all(this.#children.map((child) => child.call('setDisk', disk)));
  }

  /** Of all nodes together. */
  async counts(): Promise<NodeCounts> {
    const all = await Promise.all(this.#children.map((child) => child.call('counts')));
    return all.reduce((sum, counts) => {
      const names = Object.keys(counts) as (keyof NodeCounts)[];
      const entries = names.map((name) => [name, sum[name] + counts[name]]);
      return Object.fromEntries(entries) as NodeCounts;
    });
  }

  async isDirect(): Promise<boolean> {
    const all = await Promise.all(this.#children.map((child) => child.call('isDirect')));
    return all.every(Boolean);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child[Symbol.asyncDispose]()));
    for (const directory of this.#directories) await this.#context.workspace.remove(directory);
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
