import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atLeast, type Goal, leastOf, medianOf } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import type { LoadArgument } from './load-process.js';
import type { Plan } from './plan.js';

/**
 * Figures 4 and 5: metadata and small files on one metadata server while 1 to 16 clients read and
 * write small files; without the method, with it and nowhere to move to, with an I/O server, and with
 * one or two more metadata servers. Every server has a slow disk of its own: files, rows and syncs
 * wait for the same arm. All requests are for files of the first server.
 *
 * What each load gets is held against what it gets alone: metadata on the same servers, small files
 * on one server without the method, which moves nothing and holds nothing back. Several metadata
 * servers are held against the paper's single one, which has an I/O server.
 */

export const METADATA_LOOPS = 4;
/** That clients read, and as many others that metadata is set for. */
export const FILES = 64;

const FIRST = 'group1';
const MOST_CLIENTS = 16;

interface Setting {
  readonly title: string;
  readonly first: TierOptions;
  /** The groups of other servers, by name. */
  readonly others: Readonly<Record<string, TierOptions>>;
}

const METHOD: TierOptions = { enabled: true };
const SETTINGS = {
  baseline: {
    title: 'without the method',
    first: { enabled: true, migrates: false, maxRunning: 10_000, maxBesideMetadata: 10_000 },
    others: {},
  },
  throttle: { title: 'method, nowhere to move to', first: METHOD, others: {} },
  io: {
    title: 'method, an I/O server',
    first: { ...METHOD, moveTo: 'group2' },
    others: { group2: {} },
  },
  two: {
    title: 'method, 2 metadata servers',
    first: { ...METHOD, shareWith: ['group2'] },
    others: { group2: METHOD },
  },
  three: {
    title: 'method, 3 metadata servers',
    first: { ...METHOD, shareWith: ['group2', 'group3'] },
    others: { group2: METHOD, group3: METHOD },
  },
} as const satisfies Readonly<Record<string, Setting>>;
type SettingName = keyof typeof SETTINGS;
const NAMES = Object.keys(SETTINGS) as SettingName[];
const WITH_ROOM = ['io', 'two', 'three'] as const;

const idOf = (name: SettingName, clients: number) => `trade-off.${name}.c${clients}`;
/** The paper's: between 1 and 16 clients. */
const FALL_WITHOUT = 0.667;
/** And with several metadata servers. */
const GAIN_OF_SEVERAL = 1.03;

export function tradeOffGoals({ clients }: Plan): readonly Goal[] {
  const least = (name: SettingName, what: string) =>
    leastOf(clients.map((count) => `${idOf(name, count)}.${what}`));
  return [
    atLeast(
      'trade-off.baseline.fall',
      'figure 4, without the method: metadata falls by at least {%} from 1 to 16 clients',
      FALL_WITHOUT,
    ),
    ...WITH_ROOM.flatMap((name) => [
      atLeast(
        `trade-off.${name}.level`,
        `figure 4, ${SETTINGS[name].title}: metadata at 16 clients at least {} x that at 1`,
        0.95,
      ),
      atLeast(
        `trade-off.${name}.metadata-vs-alone`,
        `and at least {} x that without small files (the least)`,
        0.95,
        least(name, 'metadata-vs-alone'),
      ),
      atLeast(
        `trade-off.${name}.small-files-vs-alone`,
        `and small files at least {} x those without metadata (the least)`,
        0.8,
        least(name, 'small-files-vs-alone'),
      ),
    ]),
    atLeast(
      'trade-off.throttle.metadata-vs-alone',
      `nowhere to move to: metadata at least {} x that without small files, which keep a fifth (the least)`,
      0.8,
      least('throttle', 'metadata-vs-alone'),
    ),
    ...(['two', 'three'] as const).flatMap((name) => [
      atLeast(
        `trade-off.${name}.metadata-vs-one`,
        `figure 5, ${SETTINGS[name].title}: metadata at least {} x that of one with an I/O server, at 16 clients`,
        GAIN_OF_SEVERAL,
        medianOf(`${idOf(name, 16)}.metadata-vs-one`),
      ),
      atLeast(
        `trade-off.${name}.small-files-vs-one`,
        `and small files at least {} x those of one with an I/O server, at 16 clients`,
        1,
        medianOf(`${idOf(name, 16)}.small-files-vs-one`),
      ),
    ]),
  ];
}

export async function measureTradeOff(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures } = context;
  await context.runs('servers', plan.processRuns, async (run) => {
    for (const name of NAMES) await measure(context, plan, name, run);
    const metadata = (name: SettingName, clients: number) =>
      figures.last(`${idOf(name, clients)}.metadata`);
    const level = (name: SettingName) => metadata(name, 16) / metadata(name, 1);
    figures.add('trade-off.baseline.fall', 'share', 1 - level('baseline'));
    for (const name of NAMES) figures.add(`trade-off.${name}.level`, 'times', level(name));
  });
  show(context, plan);
}

async function measure(
  context: BenchmarkContext,
  { warmUpSeconds, turnSeconds: seconds, clients: counts }: Plan,
  name: SettingName,
  run: number,
): Promise<void> {
  const { figures, progress } = context;
  const { first, others } = SETTINGS[name];
  await using model = start('migration/model');
  await model.call('start', context.workspace.fresh(name), { [FIRST]: first, ...others });
  const described = await model.call('files', FILES);
  const read = await model.call('files', FILES);
  const settle = { warmUpSeconds: seconds / 2, seconds };
  const metadata: LoadArgument = {
    ...{ ...settle, kind: 'metadata', files: described, loops: METADATA_LOOPS },
  };
  const small = (loops: number): LoadArgument => ({
    ...{ ...settle, kind: 'small-files', files: read, loops },
  });
  const NOTHING = { requests: 0, p99Ms: 0 };
  const send = async (loads: readonly LoadArgument[]) => {
    const [result = NOTHING, beside = NOTHING] = await model.call('run', loads);
    return [result, beside] as const;
  };
  const rate = (requests: number) => [Math.max(1, requests) / seconds, 'requests/s'] as const;
  progress(`${SETTINGS[name].title}, files move`);
  for (let warm = 0; warm < warmUpSeconds; warm += 1.5 * seconds) {
    await send([metadata, small(MOST_CLIENTS)]);
  }
  for (const clients of inTurn(run, counts)) {
    progress(`${SETTINGS[name].title}, ${clients} clients`);
    const [meta, beside] = await send([metadata, small(clients)]);
    const status = await model.call('migration', FIRST);
    const [alone] = await send([metadata]);
    const id = idOf(name, clients);
    figures.addAll(id, {
      metadata: rate(meta.requests),
      'metadata-p99': [meta.p99Ms, 'ms'],
      'small-files': rate(beside.requests),
      'small-files-p99': [beside.p99Ms, 'ms'],
      'alone.metadata': rate(alone.requests),
      away: [status?.remote.files ?? 0, 'files'],
    });
    const baseline = idOf('baseline', clients);
    if (name === 'baseline') {
      const [{ requests }] = await send([small(clients)]);
      figures.addAll(baseline, { 'alone.small-files': rate(requests) });
    }
    figures.addRatio(`${id}.metadata-vs-alone`, `${id}.metadata`, `${id}.alone.metadata`);
    const smallAlone = `${baseline}.alone.small-files`;
    figures.addRatio(`${id}.small-files-vs-alone`, `${id}.small-files`, smallAlone);
    for (const what of name === 'two' || name === 'three' ? ['metadata', 'small-files'] : []) {
      const one = `${idOf('io', clients)}.${what}`;
      figures.addRatio(`${id}.${what}-vs-one`, `${id}.${what}`, one);
    }
  }
}

function show({ print, table, chart }: BenchmarkContext, { clients: counts }: Plan): void {
  print('## Figures 4 and 5: metadata beside small files, on slow disks');
  table('trade-off', {
    head: 'Servers, small-file clients',
    rows: NAMES.flatMap((name) =>
      counts.map(
        (clients) => [`${SETTINGS[name].title}, ${clients}`, idOf(name, clients)] as const,
      ),
    ),
    columns: [
      ['Metadata/s', 'metadata'],
      ['alone', 'alone.metadata', middle],
      ['to alone', 'metadata-vs-alone', middle],
      ['p99, ms', 'metadata-p99', middle],
      ['Small files/s', 'small-files'],
      ['alone', 'alone.small-files', middle],
      ['to alone', 'small-files-vs-alone', middle],
      ['p99, ms', 'small-files-p99', middle],
      ['Files elsewhere', 'away', middle],
    ],
  });
  print(
    'In the paper IOR writes small files from other machines; here files are read again, because what is written once and never read again cannot be relieved by a move. *Nowhere to move to*: small files wait, and what they lose goes to nobody else.',
  );
  for (const kind of ['metadata', 'small-files']) {
    chart(`trade-off-${kind}`, {
      title: `Figures 4 and 5: throughput of ${kind}, modelled disk`,
      ...{ xTitle: 'Clients that read and write small files', yTitle: 'Requests per second' },
      labels: counts.map(String),
      series: NAMES.map((name) => ({
        name: SETTINGS[name].title,
        values: counts.map((clients) => `${idOf(name, clients)}.${kind}`),
      })),
    });
  }
}
