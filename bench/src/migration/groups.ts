import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { settled } from '../harness/load.js';
import { Nodes } from '../harness/nodes.js';
import type { LoadHandlers } from './load-process.js';

/** A tracker, storages with metadata tiers and load generators, each in a process of its own. */

export class Groups implements AsyncDisposable {
  readonly #tracker = new Nodes();
  readonly #storages = new Map<string, Nodes>();
  readonly metadata = newLoad();
  readonly smallFiles = newLoad();
  tracker = '';

  /** By the names of their groups. */
  static async start(
    { workspace }: BenchmarkContext,
    tiers: Readonly<Record<string, TierOptions>>,
  ): Promise<Groups> {
    const groups = new Groups();
    try {
      groups.tracker = await groups.#tracker.call('tracker');
      const started = Object.entries(tiers).map(async ([group, own]) => {
        const storage = new Nodes();
        groups.#storages.set(group, storage);
        await storage.call('storage', {
          ...{ storePaths: [workspace.fresh(group)], trackers: [groups.tracker] },
          ...{ group, cacheBytes: 0, tiers: own },
        });
      });
      await settled(started);
      return groups;
    } catch (error) {
      await groups[Symbol.asyncDispose]();
      throw error;
    }
  }

  storage(group: string): Nodes {
    const storage = this.#storages.get(group);
    if (!storage) throw new Error(`there is no storage of ${group}`);
    return storage;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [this.smallFiles, this.metadata, ...this.#storages.values(), this.#tracker];
    for (const each of all) await each[Symbol.asyncDispose]();
  }
}

function newLoad(): Child<LoadHandlers> {
  return new Child<LoadHandlers>(new URL('./load-process.js', import.meta.url));
}
