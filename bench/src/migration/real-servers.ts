import type { BenchmarkContext } from '../harness/benchmark.js';
import type { Child } from '../harness/child.js';
import { round, spread, table } from '../harness/markdown.js';
import type { LoadHandlers } from './load-process.js';
import type { Plan } from './plan.js';
import { SERVERS } from './several-servers.js';
import type { StartArgument, StorageHandlers } from './storage-process.js';
import type { TrackerHandlers } from './tracker-process.js';
import {
  child,
  FILE_BYTES,
  FILES,
  METADATA_LOOPS,
  TIERS,
  VARIANTS,
  type Variant,
} from './trade-off.js';

/**
 * Figure 5 on processes: one to three storages of different groups, all of the load on the
 * files of the first: four loops of metadata and sixteen clients that read 64 files again
 * and again. With the method the others take files of the first. On a machine with few
 * cores more servers bring no more processor, so this shows what moving costs and spares
 * the one server, not what a second machine would add.
 */

const CLIENTS = 16;
type Figure = 'metadata' | 'small-files' | 'guests' | 'home-cpu';

function realId(variant: Variant, servers: number, figure: Figure): string {
  return `several-servers.processes.${variant}.s${servers}.${figure}`;
}

export async function measureRealServers(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.severalRuns; run += 1) {
    for (const servers of SERVERS) {
      for (const variant of VARIANTS) {
        context.progress(`${variant}, ${servers} storages, run ${run + 1}`);
        await measure(context, plan, variant, servers);
      }
    }
  }
}

async function measure(
  { figures, workspace }: BenchmarkContext,
  plan: Plan,
  variant: Variant,
  servers: number,
): Promise<void> {
  const directories = Array.from({ length: servers }, () => workspace.fresh('servers'));
  {
    await using trackerProcess = child<TrackerHandlers>('tracker', './tracker-process.js');
    await using home = child<StorageHandlers>('storage 1', './storage-process.js');
    await using others = new Others();
    await using metadataLoad = child<LoadHandlers>('metadata load', './load-process.js');
    await using readLoad = child<LoadHandlers>('read load', './load-process.js');
    const tracker = await trackerProcess.call('start', undefined);
    const tiers = TIERS[variant];
    await home.call('start', { directory: directories[0]!, tiers, tracker, group: 'group1' });
    for (const [index, directory] of directories.slice(1).entries()) {
      await others.start({ directory, tiers, tracker, group: `group${index + 2}` });
    }
    const about = { tracker, count: FILES, bytes: FILE_BYTES, group: 'group1' };
    const described = await metadataLoad.call('files', about);
    const read = await metadataLoad.call('files', about);
    const seconds = plan.throughputSeconds;
    const { warmUpSeconds } = plan;
    const common = { tracker, seconds, warmUpSeconds, fileBytes: FILE_BYTES };
    const cpuBefore = await home.cpuSeconds();
    const [metadata, reads] = await Promise.all([
      metadataLoad.call('run', {
        ...common,
        kind: 'metadata',
        loops: METADATA_LOOPS,
        files: described,
      }),
      readLoad.call('run', { ...common, kind: 'reads', loops: CLIENTS, files: read }),
    ]);
    const cpu = (await home.cpuSeconds()) - cpuBefore;
    const { guestFiles } = await home.call('status', undefined);
    const add = (figure: Figure, unit: string, value: number) =>
      figures.add(realId(variant, servers, figure), unit, value);
    add('metadata', 'requests/s', metadata.requests / seconds);
    add('small-files', 'requests/s', reads.requests / seconds);
    add('guests', 'files', guestFiles.files);
    add('home-cpu', 'cores', cpu / (seconds + warmUpSeconds));
  }
  for (const directory of directories) await workspace.remove(directory);
}

/** Storages that end together. */
class Others implements AsyncDisposable {
  readonly #all: Child<StorageHandlers>[] = [];

  async start(argument: StartArgument): Promise<void> {
    const storage = child<StorageHandlers>('another storage', './storage-process.js');
    this.#all.push(storage);
    await storage.call('start', argument);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((each) => each[Symbol.asyncDispose]()));
  }
}

export function showRealServers({ figures, print }: BenchmarkContext): void {
  const rows = VARIANTS.flatMap((variant) =>
    SERVERS.map((servers) => [
      `${variant}, ${servers}`,
      ...(['metadata', 'small-files'] as const).map((figure) =>
        spread(figures.summary(realId(variant, servers, figure))),
      ),
      ...(['guests', 'home-cpu'] as const).map((figure) =>
        round(figures.summary(realId(variant, servers, figure)).median),
      ),
    ]),
  );
  const head = ['Storages', 'Metadata/s', 'Reads/s', 'Files with others', 'Cores of the first'];
  const median = (variant: Variant, servers: number) =>
    figures.summary(realId(variant, servers, 'metadata')).median;
  const change = (servers: number) =>
    `${round(100 * (median('method', servers) / median('method', 1) - 1))} %`;
  print(
    [
      `## Figure 5: several metadata servers, in processes\n\n${table(head, rows)}`,
      `Metadata with the method against one server: ${change(2)} with two, ${change(3)} with three (the paper: about + 3 %). All requests are for files of the first server, whose ids lead clients to it: it fetches what others have, so its processor is spared nothing, and all processes share this machine\u2019s cores.`,
    ].join('\n\n'),
  );
}
