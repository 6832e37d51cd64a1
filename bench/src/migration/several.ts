import type { BenchmarkContext } from '../harness/benchmark.js';
import { atLeast, type Goal } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle } from '../harness/markdown.js';
import { DESCRIBED_FILES, Groups, METADATA_LOOPS, TIERS, type Variant } from './groups.js';
import type { Plan } from './plan.js';

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

export type Speed = 'usual' | 'slowed';

interface Setting {
  readonly variant: Variant;
  readonly servers: number;
}

const READ_FILES = 32;
const GROUPS = ['group1', 'group2', 'group3'] as const;
/** Of all clients together: what one more server answers, another can still be given. */
const READS_PER_SECOND = { usual: 1000, slowed: 500 } as const;
/** B_logic of a slowed server: about 240 reads a second, or 900 changes of metadata. */
const SLOWED_BYTES_PER_SECOND = 4e6;
const AFTER_METADATA_SECONDS = 2;
const SEVERAL = [
  { servers: 2, gain: 1.5 },
  { servers: 3, gain: 2 },
] as const;
const MIN_BESIDE = 0.8;

/** Without the method a B_logic has no effect. */
function settingsOf(speed: Speed): readonly Setting[] {
  const method = [1, 2, 3].map((servers): Setting => ({ variant: 'method', servers }));
  return speed === 'usual' ? [{ variant: 'baseline', servers: 1 }, ...method] : method;
}

function idOf(speed: Speed, { variant, servers }: Setting): string {
  return `several.${speed}.${variant}.s${servers}`;
}

export const SLOWED_GOALS: readonly Goal[] = SEVERAL.flatMap(({ servers, gain }) => {
  const id = `several.slowed.method.s${servers}`;
  return [
    atLeast(
      `${id}.metadata-vs-one`,
      `${servers} slowed servers: metadata at least 1 x that with one`,
      1,
    ),
    atLeast(
      `${id}.reads-vs-one`,
      `${servers} slowed servers: reads at least ${gain} x those with one`,
      gain,
    ),
    // Figure 4 where there is room to move to.
    atLeast(
      `${id}.beside-vs-alone`,
      `${servers} slowed servers: reads beside metadata at least ${MIN_BESIDE} x those without it`,
      MIN_BESIDE,
    ),
  ];
});

export async function measureSeveral(
  context: BenchmarkContext,
  plan: Plan,
  speed: Speed,
): Promise<void> {
  const { figures, progress } = context;
  const settings = settingsOf(speed);
  for (let run = 0; run < plan.processRuns; run += 1) {
    for (const setting of inTurn(run, settings)) {
      progress(`${setting.variant}, ${setting.servers} storages, run ${run + 1}`);
      await measure(context, plan, speed, setting);
    }
    const one = idOf(speed, { variant: 'method', servers: 1 });
    for (const { servers } of SEVERAL) {
      const id = idOf(speed, { variant: 'method', servers });
      for (const what of ['metadata', 'reads', 'metadata-per-cpu']) {
        figures.addRatio(`${id}.${what}-vs-one`, `${id}.${what}`, `${one}.${what}`);
      }
      figures.addRatio(`${id}.beside-vs-alone`, `${id}.reads`, `${id}.reads-alone`);
    }
  }
  show(context, speed, settings);
}

async function measure(
  context: BenchmarkContext,
  plan: Plan,
  speed: Speed,
  setting: Setting,
): Promise<void> {
  const names = GROUPS.slice(0, setting.servers);
  const tiers = names.map((own) => [
    own,
    {
      ...TIERS[setting.variant],
      ...(speed === 'slowed' ? { bytesPerSecond: SLOWED_BYTES_PER_SECOND } : {}),
      shareWith: names.filter((group) => group !== own),
    },
  ]);
  await using groups = await Groups.start(context, Object.fromEntries(tiers));
  const { tracker, metadata: metadataLoad, smallFiles: readLoad } = groups;
  const about = { tracker, group: GROUPS[0] };
  const described = await metadataLoad.call('files', { ...about, count: DESCRIBED_FILES });
  const read = await metadataLoad.call('files', { ...about, count: READ_FILES });
  const readsFor = (warmUpSeconds: number, seconds: number) =>
    readLoad.call('run', {
      ...{ tracker, warmUpSeconds, seconds, kind: 'reads', loops: plan.severalClients },
      ...{ files: read, requestsPerSecond: READS_PER_SECOND[speed] },
    });
  const load = (seconds: number) =>
    Promise.all([
      metadataLoad.call('run', {
        ...{ tracker, warmUpSeconds: 0, seconds, kind: 'metadata', loops: METADATA_LOOPS },
        files: described,
      }),
      readsFor(0, seconds),
    ]);
  // In the first of them the files move.
  await load(plan.severalWarmUpSeconds);
  const home = groups.storage(GROUPS[0]);
  const seconds = plan.severalSeconds;
  const before = await groups.cpuSeconds();
  const [[metadata, reads], homeCpu] = await home.during(() => load(seconds));
  const after = await groups.cpuSeconds();
  const { remote } = await home.call('migration');
  // Nothing is held back from two intervals after metadata on.
  const alone = await readsFor(AFTER_METADATA_SECONDS, seconds);
  // A run that is too short for a busy machine answers nothing: count one request then.
  const rate = (requests: number) => Math.max(1, requests) / seconds;
  context.figures.addAll(idOf(speed, setting), {
    metadata: [rate(metadata.requests), 'requests/s'],
    'metadata-p99': [metadata.p99Ms, 'ms'],
    reads: [rate(reads.requests), 'requests/s'],
    'reads-alone': [rate(alone.requests), 'requests/s'],
    away: [remote.files, 'files'],
    'home-cpu': [homeCpu / seconds, 'cores'],
    'all-cpu': [(after.all - before.all) / seconds, 'cores'],
    'metadata-per-cpu': [Math.max(1, metadata.requests) / homeCpu, 'requests/CPU s'],
  });
}

function show(
  { print, table }: BenchmarkContext,
  speed: Speed,
  settings: readonly Setting[],
): void {
  const slowed = speed === 'slowed' ? `, and B_logic is ${SLOWED_BYTES_PER_SECOND / 1e6} MB/s` : '';
  print(`## Figure 5: several metadata servers, ${speed === 'usual' ? 'at full speed' : speed}`);
  table(`several-${speed}`, {
    head: 'Storages',
    rows: settings.map((each) => [`${each.servers}, ${each.variant}`, idOf(speed, each)]),
    columns: [
      ['Metadata/s', 'metadata'],
      ['to one', 'metadata-vs-one', middle],
      ['Reads/s', 'reads'],
      ['to one', 'reads-vs-one', middle],
      ['Reads/s without metadata', 'reads-alone'],
      ['Metadata per CPU s of the first', 'metadata-per-cpu'],
      ['to one', 'metadata-per-cpu-vs-one', middle],
      ['Metadata p99, ms', 'metadata-p99', middle],
      ['Files in other groups', 'away', middle],
      ['Cores of the first', 'home-cpu', middle],
      ['Cores of all', 'all-cpu', middle],
    ],
  });
  print(
    `In the paper: metadata about + 3 % with several, small files better. All requests are for files of the first server; of reads there are ${READS_PER_SECOND[speed]} in a second at most${slowed}. Storages, tracker and both generators share the cores of this machine: where all of them together take as many, no more servers can give more requests. Metadata per CPU second is what the first server answers for each second of processor time that it takes, for metadata and reads, also for those that it fetches from the others.`,
  );
}
