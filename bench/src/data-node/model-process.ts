import { decoratedDisk, decoratedFile, localDisk, slowDisk } from '@stevedore/disk';
import { SEEK_MS } from '../harness/hard-disk.js';
import { VirtualTime } from '../harness/virtual-time.js';
import type { NodeOptions } from './plan.js';
import type { Member, ReadOptions, Target } from './reading.js';

/**
 * Nodes and their load in one process and in virtual time: storages, sockets and files are real, but
 * each node has the modelled hard disk and a modelled processor and network. So the figures are nearly
 * the same on any machine.
 */

const time = new VirtualTime(Date.now());
time.install(1);
time.installClocks();
// What was loaded before would live in another time.
const { countsOf, startNode } = await import('./node-process.js');
const { read } = await import('./reading.js');

type Started = Awaited<ReturnType<typeof startNode>>;
const nodes: Started[] = [];
const targets: Target[] = [];
/** Reads of the modelled disks. */
const disk = { reads: 0, bytes: 0 };

async function startAll(
  all: readonly { readonly directory: string; readonly groups: readonly (readonly Member[])[] }[],
  options: NodeOptions,
): Promise<void> {
  for (const { directory, groups } of all) {
    const counting = decoratedDisk(slowDisk(localDisk, SEEK_MS), {}, (file) =>
      decoratedFile(file, {
        readAt: (target, position) => {
          disk.reads += 1;
          disk.bytes += target.length;
          return file.readAt(target, position);
        },
      }),
    );
    const node = await startNode(directory, options, counting);
    nodes.push(node);
    targets.push({ port: node.storage.port, groups });
  }
}

export const start = (...given: Parameters<typeof startAll>) => time.passDuring(startAll(...given));

/** Loads the first `count` of the nodes. */
export const load = (options: ReadOptions, count: number) =>
  time.passDuring(read(targets.slice(0, count), options));

/** Of all nodes together, since the start. */
export function counts() {
  const sums = { hits: 0, misses: 0, aheadUsedBytes: 0, aheadUnusedBytes: 0 };
  for (const node of nodes) {
    const own = countsOf(node);
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += own[name];
  }
  return { ...sums, diskReads: disk.reads, diskBytes: disk.bytes };
}

export const close = () =>
  time.passDuring(Promise.all(nodes.map(({ storage }) => storage.close())));
