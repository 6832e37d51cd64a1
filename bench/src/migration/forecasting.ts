import {
  baEsm,
  defaultParameters,
  type Forecaster,
  type Observation,
  observationOf,
  sesm,
} from '@stevedore/balance';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atMost, type Goal, greatestOf } from '../harness/goals.js';
import { middle, percent, round } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { forecastAll, forecastError } from './forecast-error.js';
import type { Plan } from './plan.js';
import { observe } from './scheduler.js';
import { IOR, ior, type MetadataTrace, metadataTrace, PAPER_METADATA } from './workloads.js';

/**
 * The forecasters over loads: Table 3, and figure 3 as a chart. The paper's two loads on a simulated
 * scheduler, the same metadata load on one that holds nothing back, and the queues of our own
 * scheduler on a modelled disk. Three forecasts without any skill stand beside them.
 */

const UNSKILLED = { zero: 'Always zero', waiting: 'What waits', last: 'The last load' } as const;
const SMOOTHED = {
  'sesm-0.1': 'SESM 0.1',
  'sesm-0.6': 'SESM 0.6',
  'sesm-0.9': 'SESM 0.9',
} as const;
const FORECASTERS = { 'ba-esm': 'BA-ESM 0.1', ...SMOOTHED, ...UNSKILLED } as const;
type ForecasterName = keyof typeof FORECASTERS;
const NAMES = Object.keys(FORECASTERS) as ForecasterName[];

/** Observations, and what waited at the end of each interval. */
interface Series {
  readonly observed: readonly Observation[];
  readonly waitingBytes: readonly number[];
  /** B_logic for one interval. */
  readonly capacityBytes: number;
}

interface Trace {
  readonly title: string;
  readonly bytesPerSecond: number;
  readonly holdMs: number;
  readonly isMetadata: boolean;
}

const INTERVAL_MS = 1000;
const TRACES: Readonly<Record<string, Trace>> = {
  metadata: {
    title: 'Metadata, the paper’s trace',
    ...{ bytesPerSecond: 12e6, holdMs: 2000, isMetadata: true },
  },
  smallFile: {
    title: 'Small files, 1 to 16 clients',
    ...{ bytesPerSecond: 100e6, holdMs: 0, isMetadata: false },
  },
  'metadata-unheld': {
    title: 'Metadata, nothing held back',
    ...{ bytesPerSecond: 12e6, holdMs: 0, isMetadata: true },
  },
};
const QUEUES = {
  'queue-metadata': 'Our queue: metadata alone',
  'queue-small-files': 'Our queue: small files alone',
  'queue-metadata-beside': 'Our queue: metadata beside small files',
  'queue-small-files-beside': 'Our queue: small files beside metadata',
} as const;
type QueueName = keyof typeof QUEUES;

/** The paper's Table 3: mean absolute error of BA-ESM and the three SESMs. */
const PAPER_ERRORS = {
  metadata: [0.53, 0.68, 0.69, 1.05],
  smallFile: [3.89, 7.27, 7.94, 9.82],
} as const;
/** BA-ESM to the best SESM, there. */
const PAPER_RATIOS = { metadata: 0.78, smallFile: 0.53 } as const;

const worstQueue = (what: string) =>
  greatestOf(Object.keys(QUEUES).map((queue) => `forecast.${queue}.${what}`));

export const FORECAST_GOALS: readonly Goal[] = [
  ...(['metadata', 'smallFile'] as const).flatMap((trace) => [
    atMost(
      `forecast.${trace}.vs-sesm`,
      `Table 3, ${trace}: MAE of BA-ESM at most {} x that of the best SESM`,
      PAPER_RATIOS[trace],
    ),
    atMost(
      `forecast.${trace}.vs-unskilled`,
      `and at most {} x that of the best forecast without skill`,
      1,
    ),
  ]),
  atMost(
    'forecast.queues.vs-sesm',
    'our own queues: MAE of BA-ESM at most {} x that of the best SESM (the worst)',
    1,
    worstQueue('vs-sesm'),
  ),
  atMost(
    'forecast.queues.vs-unskilled',
    'and at most {} x that of the best forecast without skill (the worst)',
    1,
    worstQueue('vs-unskilled'),
  ),
];

const SEED = 7;
const MB = 1e6;
/** The chart begins where the forecasters have settled. */
const CHART_FROM = 30;
const CHART_INTERVALS = 36;
/** Less is about nothing. */
const NOTHING_SHARE = 0.01;

/** What the simulated scheduler observes; the load is what it served, as in the paper. */
function simulated(trace: Trace, seed: number, { repetitions, barriers }: Plan): Series {
  const random = new SeededRandom(seed);
  const workload = trace.isMetadata
    ? metadataTrace({ ...PAPER_METADATA, repetitions }, random)
    : ior({ ...IOR, barriersPerPhase: barriers }, random);
  const { bytesPerSecond, holdMs } = trace;
  const counted = observe(workload, { bytesPerSecond, holdMs, intervalMs: INTERVAL_MS, seed });
  return {
    observed: counted.map(({ servedBytes, waitingBytes }) => ({
      ...{ loadBytes: servedBytes, servedBytes, queuedBytes: waitingBytes },
    })),
    waitingBytes: counted.map(({ waitingBytes }) => waitingBytes),
    capacityBytes: (bytesPerSecond * INTERVAL_MS) / 1000,
  };
}

const FILE_BYTES = 16 * 1024;
const QUEUE_FILES = 64;
/** So many loops ask for all that there is: more would only share their syncs. */
const FULL_LOOPS = 4;
const FULL_SECONDS = 20;
/** Of the time that queues are recorded: a smoke test is short. */
const FULL_SHARE = 0.1;
/** As in the simulation, bursts of metadata take ten twelfths of what the server can answer. */
const BURST_SHARE = 10 / 12;
const QUEUE_TIER = {
  enabled: true,
  // A threshold that adapts falls below the files, and they take no turns any more.
  parameters: { minimumThresholdBytes: FILE_BYTES, maximumThresholdBytes: FILE_BYTES },
  thresholdBytes: FILE_BYTES,
};

/** The paper's two loads, each alone and both together, on a storage with a modelled disk. */
async function recordQueues(
  { workspace, progress }: BenchmarkContext,
  { queueSeconds, queueBarriers }: Plan,
  seed: number,
): Promise<Record<QueueName, Series>> {
  await using model = start('migration/model', { callLimitMs: 600_000 });
  await model.call('start', workspace.fresh('queues'), { group1: QUEUE_TIER });
  const files = await model.call('files', QUEUE_FILES);
  const seconds = Math.min(FULL_SECONDS, FULL_SHARE * queueSeconds);
  const full = { files, seconds, warmUpSeconds: 0, loops: FULL_LOOPS };
  const [answered] = await model.call('run', [{ ...full, kind: 'metadata' }]);
  const burst = ((answered?.requests ?? 1) / seconds) * BURST_SHARE;
  const metadata: MetadataTrace = {
    ...PAPER_METADATA,
    phases: [
      { accesses: Math.ceil(burst / 2), intervalMs: 10_000 / burst },
      { accesses: Math.ceil(burst), intervalMs: 1000 / burst },
    ],
    repetitions: Math.ceil(queueSeconds / 6),
  };
  const small = { ...IOR, filesPerBarrier: 1, barriersPerPhase: queueBarriers };
  const record = async (what: string, loads: readonly (MetadataTrace | typeof small)[]) => {
    progress(`queues of ${what}`);
    const { intervals, capacityBytes } = await model.call('record', files, loads, seed);
    return (kind: 'metadata' | 'smallFile'): Series => {
      const counted = intervals.map((each) => each[kind]);
      const waitingBytes = counted.map((each) => each.waitingBytes);
      const observed = counted.map((each, at) =>
        observationOf(each, waitingBytes[at - 1] ?? 0, capacityBytes),
      );
      return { observed, waitingBytes, capacityBytes };
    };
  };
  const alone = (await record('metadata', [metadata]))('metadata');
  const smallAlone = (await record('small files', [small]))('smallFile');
  const both = await record('both', [metadata, small]);
  return {
    'queue-metadata': alone,
    'queue-small-files': smallAlone,
    'queue-metadata-beside': both('metadata'),
    'queue-small-files-beside': both('smallFile'),
  };
}

/** `unskilled` needs no more than the number itself. */
function forecastsOf(name: ForecasterName, { observed, waitingBytes, capacityBytes }: Series) {
  const same = (next: (at: number) => number): Forecaster<number> => ({
    ...{ name, initial: 0 },
    step: (at) => ({ state: at + 1, bytes: Math.min(next(at), capacityBytes) }),
  });
  switch (name) {
    case 'ba-esm':
      return baEsm(defaultParameters, capacityBytes);
    case 'zero':
      return same(() => 0);
    case 'waiting':
      return same((at) => waitingBytes[at] ?? 0);
    case 'last':
      return same((at) => observed[at]?.loadBytes ?? 0);
    default:
      return sesm(Number(name.slice('sesm-'.length)), capacityBytes);
  }
}

function addErrors({ figures }: BenchmarkContext, id: string, series: Series): void {
  const errorOf = (name: ForecasterName) =>
    forecastError(forecastsOf(name, series) as Forecaster<unknown>, series.observed);
  for (const name of NAMES) figures.add(`${id}.${name}`, 'MB per interval', errorOf(name) / MB);
  const best = (of: object) =>
    Math.max(1, Math.min(...Object.keys(of).map((name) => errorOf(name as ForecasterName))));
  figures.add(`${id}.vs-sesm`, 'times', errorOf('ba-esm') / best(SMOOTHED));
  figures.add(`${id}.vs-unskilled`, 'times', errorOf('ba-esm') / best(UNSKILLED));
  const made = forecastAll(baEsm(defaultParameters, series.capacityBytes), series.observed);
  const nothing = made.filter((each) => (each ?? 0) < NOTHING_SHARE * series.capacityBytes);
  figures.add(`${id}.nothing`, 'share', nothing.length / made.length);
}

export async function measureForecasts(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { progress, print, table } = context;
  for (const [name, trace] of Object.entries(TRACES)) {
    progress(`forecasting ${name}`);
    for (let run = 0; run < plan.runs; run += 1) {
      const series = simulated(trace, SEED + run, plan);
      addErrors(context, `forecast.${name}`, series);
      if (run === 0 && name in PAPER_ERRORS) draw(context, name, series);
    }
  }
  for (let run = 0; run < plan.queueRuns; run += 1) {
    for (const [name, series] of Object.entries(await recordQueues(context, plan, SEED + run))) {
      addErrors(context, `forecast.${name}`, series);
    }
  }
  print(
    '## Table 3: accuracy of the forecasts\n\nThe load is what was served, for our queues what was asked for (L′). *Nothing*: intervals for which BA-ESM forecasts less than a hundredth of B_logic.',
  );
  const known = Object.entries(PAPER_ERRORS).map(([name, errors]) => [
    ...[`in the paper: ${name}`, ...errors],
    ...Object.keys(UNSKILLED).map(() => ''),
    round(errors[0] / Math.min(...errors.slice(1))),
    ...['', ''],
  ]);
  table('forecasts', {
    head: 'MAE, MB per interval',
    rows: [
      ...Object.entries(TRACES).map(([name, { title }]) => [title, `forecast.${name}`] as const),
      ...Object.entries(QUEUES).map(([name, title]) => [title, `forecast.${name}`] as const),
    ],
    columns: [
      ...NAMES.map((each) => [FORECASTERS[each], each, middle] as const),
      ['BA-ESM / best SESM', 'vs-sesm', middle],
      ['BA-ESM / best without skill', 'vs-unskilled', middle],
      ['Nothing', 'nothing', percent],
    ],
    known,
  });
}

function draw({ chart }: BenchmarkContext, trace: string, series: Series): void {
  const shown = <T>(values: readonly T[]) => values.slice(CHART_FROM, CHART_FROM + CHART_INTERVALS);
  const forecasts = (name: ForecasterName) =>
    shown(forecastAll(forecastsOf(name, series) as Forecaster<unknown>, series.observed)).map(
      (bytes) => (bytes === undefined ? null : bytes / MB),
    );
  chart(`forecast-${trace}`, {
    title: `Figure 3: load and its forecasts (${trace})`,
    ...{ xTitle: 'Interval', yTitle: 'MB per interval' },
    labels: shown(series.observed).map((_, index) =>
      index % 5 === 0 ? String(CHART_FROM + index) : '',
    ),
    series: [
      { name: 'Load', values: shown(series.observed).map(({ loadBytes }) => loadBytes / MB) },
      { name: 'SESM, α 0.1', values: forecasts('sesm-0.1') },
      { name: 'BA-ESM, α 0.1', values: forecasts('ba-esm') },
    ],
  });
}
