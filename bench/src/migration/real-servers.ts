import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import type { Child } from '../harness/child.js';
import { settled } from '../harness/load.js';
import { round, spread, table } from '../harness/markdown.js';
import type { LoadHandlers } from './load-process.js';
import type { Plan } from './plan.js';
import type { StorageHandlers } from './storage-process.js';
import type { TrackerHandlers } from './tracker-process.js';
import { child, FILE_BYTES, FILES, METADATA_LOOPS, TIERS } from './trade-off.js';

/**
 * Figure 5 on processes: one to three storages of different groups, all of the load on the
 * files of the first: four loops of metadata and sixteen clients that read 32 files again
 * and again. With the method the others take files of the first, which reads them there for
 * its clients. The processors are what there is too little of, and more servers bring no
 * more of them: clients ask for so many reads in a second and no more, and what counts is
 * what they get, and how much metadata the first server answers beside it.
 *
 * The slowed servers have a B_logic of a few MB/s, as a server with a slow disk has: their
 * schedulers let no more small-file load through than that leaves beside metadata. Clients
 * ask for twice the reads that one such server could answer without metadata.
 */

const READ_FILES = 32;
/** Of all clients together: what one more server answers, another can still be given. */
const READS_PER_SECOND = { usual: 1000, slowed: 500 } as const;
/** B_logic of a slowed server: about 240 reads a second, or 900 changes of metadata. */
const SLOWED_BYTES_PER_SECOND = 4e6;

const AFTER_METADATA_SECONDS = 2;

export type Speed = 'usual' | 'slowed';
type Way = 'baseline' | 'method';
interface Setting {
  readonly way: Way;
  readonly servers: number;
  readonly speed: Speed;
}

function settingsOf({ severalServers }: Plan, speed: Speed): readonly Setting[] {
  const settings: readonly Setting[] = [
    // Without the method a B_logic has no effect.
    ...(speed === 'usual' ? [{ way: 'baseline', servers: 1, speed } as const] : []),
    { way: 'method', servers: 1, speed },
    { way: 'method', servers: 2, speed },
    { way: 'method', servers: 3, speed },
  ];
  return settings.filter(({ servers }) => servers <= severalServers);
}

const FIGURES = {
  metadata: 'requests/s',
  'metadata-p99': 'ms',
  'small-files': 'requests/s',
  'small-files-alone': 'requests/s',
  away: 'files',
  'home-cpu': 'cores',
  'all-cpu': 'cores',
  'metadata-per-cpu': 'requests/CPU s',
} as const;
type Figure = keyof typeof FIGURES;

function realId({ way, servers, speed }: Setting, figure: Figure): string {
  return `several-servers.${speed === 'usual' ? 'processes' : speed}.${way}.s${servers}.${figure}`;
}

/** Of slowed servers: several against one, in the same run. */
export function gainId(servers: number, figure: 'metadata' | 'small-files'): string {
  return `several-servers.slowed.s${servers}-vs-s1.${figure}`;
}

/** Of slowed servers: reads beside metadata against reads without it. */
export function besideId(servers: number): string {
  return `several-servers.slowed.s${servers}.beside-vs-alone`;
}

export async function measureRealServers(
  context: BenchmarkContext,
  plan: Plan,
  speed: Speed,
): Promise<void> {
  const settings = settingsOf(plan, speed);
  for (let run = 0; run < plan.severalRuns; run += 1) {
    for (const setting of run % 2 === 0 ? settings : settings.toReversed()) {
      context.progress(`${setting.way}, ${setting.servers} storages, run ${run + 1}`);
      await measure(context, plan, setting);
    }
    if (speed === 'slowed') addGains(context, plan, run);
  }
}

function addGains({ figures }: BenchmarkContext, plan: Plan, run: number): void {
  const of = (servers: number, figure: Figure): number =>
    figures.values(realId({ way: 'method', servers, speed: 'slowed' }, figure))[run]!;
  // A run that is too short for a busy machine answers nothing: count one request then.
  const least = 1 / plan.throughputSeconds;
  for (let servers = 2; servers <= plan.severalServers; servers += 1) {
    for (const figure of ['metadata', 'small-files'] as const) {
      const gain = of(servers, figure) / Math.max(of(1, figure), least);
      figures.add(gainId(servers, figure), 'times', gain);
    }
    const alone = Math.max(of(servers, 'small-files-alone'), least);
    figures.add(besideId(servers), 'times', of(servers, 'small-files') / alone);
  }
}

async function measure(
  { figures, workspace }: BenchmarkContext,
  plan: Plan,
  setting: Setting,
): Promise<void> {
  const directories = Array.from({ length: setting.servers }, () => workspace.fresh('servers'));
  {
    await using trackerProcess = child<TrackerHandlers>('tracker', './tracker-process.js');
    await using home = child<StorageHandlers>('storage 1', './storage-process.js');
    await using others = new Others(setting.servers - 1);
    await using metadataLoad = child<LoadHandlers>('metadata load', './load-process.js');
    await using readLoad = child<LoadHandlers>('read load', './load-process.js');
    const tracker = await trackerProcess.call('start');
    const groups = directories.map((_, index) => `group${index + 1}`);
    const tiersOf = (own: string): TierOptions => ({
      ...TIERS[setting.way],
      ...(setting.speed === 'slowed' ? { bytesPerSecond: SLOWED_BYTES_PER_SECOND } : {}),
      shareWith: groups.filter((group) => group !== own),
    });
    const started = [home, ...others.all].map((storage, index) =>
      storage.call('start', {
        tracker,
        tiers: tiersOf(groups[index]!),
        directory: directories[index]!,
        group: groups[index]!,
      }),
    );
    await settled(started);
    const about = { tracker, bytes: FILE_BYTES, group: 'group1' };
    const described = await metadataLoad.call('files', { ...about, count: FILES });
    const read = await metadataLoad.call('files', { ...about, count: READ_FILES });
    const common = { tracker, fileBytes: FILE_BYTES };
    const readsFor = (warmUpSeconds: number, seconds: number) =>
      readLoad.call('run', {
        ...{ ...common, warmUpSeconds, seconds },
        kind: 'reads',
        loops: plan.severalClients,
        files: read,
        requestsPerSecond: READS_PER_SECOND[setting.speed],
      });
    const load = (seconds: number) =>
      Promise.all([
        metadataLoad.call('run', {
          ...{ ...common, warmUpSeconds: 0, seconds },
          kind: 'metadata',
          loops: METADATA_LOOPS,
          files: described,
        }),
        readsFor(0, seconds),
      ]);
    // In the first of them the files move.
    await load(plan.severalWarmUpSeconds);
    const all = [trackerProcess, home, ...others.all, metadataLoad, readLoad];
    const cpuOf = async (): Promise<number[]> => Promise.all(all.map((each) => each.cpuSeconds()));
    const before = await cpuOf();
    const seconds = plan.throughputSeconds;
    const [metadata, reads] = await load(seconds);
    const used = (await cpuOf()).map((after, index) => after - before[index]!);
    const homeCpu = used[1]!;
    const { remote } = await home.call('status');
    // Nothing is held back from two intervals after metadata on.
    const alone = await readsFor(AFTER_METADATA_SECONDS, seconds);
    const values: Record<Figure, number> = {
      metadata: metadata.requests / seconds,
      'metadata-p99': metadata.p99Ms,
      'small-files': reads.requests / seconds,
      'small-files-alone': alone.requests / seconds,
      away: remote.files,
      'home-cpu': homeCpu / seconds,
      'all-cpu': used.reduce((sum, each) => sum + each, 0) / seconds,
      'metadata-per-cpu': metadata.requests / homeCpu,
    };
    for (const figure of Object.keys(FIGURES) as Figure[]) {
      figures.add(realId(setting, figure), FIGURES[figure], values[figure]);
    }
  }
  for (const directory of directories) await workspace.remove(directory);
}

/** Storages that end together. */
class Others implements AsyncDisposable {
  readonly all: readonly Child<StorageHandlers>[];

  constructor(count: number) {
    this.all = Array.from({ length: count }, () =>
      child<StorageHandlers>('another storage', './storage-process.js'),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((each) => each[Symbol.asyncDispose]()));
  }
}

export function showRealServers(
  { figures, print }: BenchmarkContext,
  plan: Plan,
  speed: Speed,
): void {
  const median = (setting: Setting, figure: Figure) =>
    figures.summary(realId(setting, figure)).median;
  const settings = settingsOf(plan, speed);
  const rows = settings.map((setting) => [
    String(setting.servers),
    setting.way,
    ...(['metadata', 'small-files', 'small-files-alone', 'metadata-per-cpu'] as const).map(
      (figure) => spread(figures.summary(realId(setting, figure))),
    ),
    ...(['metadata-p99', 'away', 'home-cpu', 'all-cpu'] as const).map((figure) =>
      round(median(setting, figure)),
    ),
  ]);
  const head = [
    'Storages',
    'Way',
    'Metadata/s',
    'Reads/s',
    'Reads/s without metadata',
    'Metadata per CPU s of the first',
    'Metadata p99, ms',
    'Files in other groups',
    'Cores of the first',
    'Cores of all',
  ];
  const change = (servers: number, figure: Figure) => {
    const one = median({ way: 'method', servers: 1, speed }, figure);
    return `${round(100 * (median({ way: 'method', servers, speed }, figure) / one - 1))} %`;
  };
  const several = [2, 3].filter((servers) => servers <= plan.severalServers);
  const changes = (
    [
      ['metadata', 'Metadata'],
      ['small-files', 'reads'],
      ['metadata-per-cpu', 'metadata per CPU second'],
    ] as const
  ).map(
    ([figure, name]) =>
      `${name} ${several.map((servers) => change(servers, figure)).join(' and ')}`,
  );
  const title = speed === 'usual' ? 'in processes' : 'in processes, slowed';
  const slowed = speed === 'slowed' ? `, and B_logic is ${SLOWED_BYTES_PER_SECOND / 1e6} MB/s` : '';
  const load = `of reads there are ${READS_PER_SECOND[speed]} in a second at most${slowed}`;
  print(
    [
      `## Figure 5: several metadata servers, ${title}\n\n${table(head, rows)}`,
      `With the method, ${several.join(' and ')} servers against one: ${changes.join('; ')} (the paper: metadata about + 3 % with several, small files better). All requests are for files of the first server; ${load}. Storages, tracker and both generators share the cores of this machine, whose number is at the top: where all of them together take as many, no more servers can give more requests. Metadata per CPU second is what the first server answers for each second of processor time that it takes, for metadata and reads, also for those that it fetches from the others.`,
    ].join('\n\n'),
  );
}
