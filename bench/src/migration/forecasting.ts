import { baEsm, type Forecaster, panel, sesm } from '@stevedore/balance';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atMost, type Goal, greatestOf } from '../harness/goals.js';
import { middle, round } from '../harness/markdown.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { forecastAll, forecastError } from './forecast-error.js';
import type { Plan } from './plan.js';
import { RECORDED, type Recorded, recordQueues } from './recording.js';
import { observe } from './scheduler.js';
import {
  IOR,
  type Ior,
  ior,
  type MetadataTrace,
  metadataTrace,
  PAPER_METADATA,
} from './workloads.js';

/**
 * The forecasters over loads: Table 3, and figure 3 as a chart. The paper's two loads on a simulated
 * scheduler, the same metadata load on one that holds nothing back, others that no forecaster was made
 * with, and the queues of our own scheduler. No goal is met by a simulated queue alone.
 */

const FORECASTERS = {
  'ba-esm': 'BA-ESM 0.1',
  'sesm-0.1': 'SESM 0.1',
  'sesm-0.6': 'SESM 0.6',
  'sesm-0.9': 'SESM 0.9',
  panel: 'Panel (ours)',
} as const;
type ForecasterName = keyof typeof FORECASTERS;
const NAMES = Object.keys(FORECASTERS) as ForecasterName[];

interface Trace {
  readonly title: string;
  readonly bytesPerSecond: number;
  readonly intervalMs: number;
  readonly holdMs: number;
  /** One of them. */
  readonly metadata?: Partial<MetadataTrace>;
  readonly ior?: Partial<Ior>;
}

const HELD = { bytesPerSecond: 12e6, intervalMs: 1000, holdMs: 2000 } as const;
const UNHELD = { intervalMs: 1000, holdMs: 0 } as const;

const TRACES: Readonly<Record<string, Trace>> = {
  metadata: { title: 'Metadata, the paper’s trace', ...HELD, metadata: {} },
  smallFile: {
    ...{ title: 'Small files, 1 to 16 clients', ...UNHELD, bytesPerSecond: 100e6, ior: {} },
  },
  'metadata-unheld': {
    ...{ title: 'Metadata, nothing held back', ...HELD, holdMs: 0, metadata: {} },
  },
  'metadata-irregular': {
    ...{ title: 'Hold-out: metadata, irregular', ...HELD, bytesPerSecond: 9e6 },
    metadata: {
      phases: [
        { accesses: 3000, intervalMs: 1.5 },
        { accesses: 8000, intervalMs: 0.2 },
      ],
      ...{ irregularity: 0.4, phaseJitter: 0.15 },
    },
  },
  'metadata-three-phases': {
    title: 'Hold-out: metadata, three phases',
    ...{ bytesPerSecond: 15e6, intervalMs: 800, holdMs: 1500 },
    metadata: {
      phases: [
        { accesses: 4000, intervalMs: 2 },
        { accesses: 12_000, intervalMs: 0.25 },
        { accesses: 6000, intervalMs: 0.5 },
      ],
      ...{ irregularity: 0.2, phaseJitter: 0.1 },
    },
  },
  'small-files-32k': {
    ...{ title: 'Hold-out: small files, 32 KiB', ...UNHELD, bytesPerSecond: 70e6 },
    ior: {
      ...{ clients: [3, 6, 12], transferBytes: 32 * 1024, transfersPerFile: 8 },
      ...{ filesPerBarrier: 24, computeMs: 6000, computeJitter: 0.5 },
    },
  },
  'small-files-96k': {
    title: 'Hold-out: small files, 96 KiB',
    ...{ bytesPerSecond: 120e6, intervalMs: 700, holdMs: 0 },
    ior: {
      ...{ clients: [16, 2, 9], transferBytes: 96 * 1024, transfersPerFile: 3 },
      ...{ filesPerBarrier: 20, computeMs: 5000, computeJitter: 0.4 },
    },
  },
};
const HOLD_OUTS = Object.keys(TRACES).slice(3);

/** The paper's Table 3: mean absolute error of the forecasts, in the order of the names. */
const PAPER_ERRORS = {
  metadata: [0.53, 0.68, 0.69, 1.05],
  smallFile: [3.89, 7.27, 7.94, 9.82],
} as const;
/** BA-ESM to the best SESM, there. */
const PAPER_RATIOS = { metadata: 0.78, smallFile: 0.53 } as const;
const MAX_PANEL_RATIO = 0.85;
const RECORDED_NAMES = Object.keys(RECORDED);

const worst = (traces: readonly string[], what: string) =>
  greatestOf(traces.map((trace) => `forecast.${trace}.${what}`));

export const FORECAST_GOALS: readonly Goal[] = [
  ...(
    [
      ['metadata', 'recorded-metadata', 'recorded-metadata-beside'],
      ['smallFile', 'recorded-small-files', 'recorded-small-files-beside'],
    ] as const
  ).map((traces) => {
    const [trace] = traces;
    return atMost(
      `forecast.${trace}.ba-esm-vs-sesm`,
      `${trace}: MAE of BA-ESM at most {} x that of the best SESM, simulated and on our own queues (the worst)`,
      PAPER_RATIOS[trace],
      worst(traces, 'ba-esm-vs-sesm'),
    );
  }),
  atMost(
    'forecast.panel-vs-ba-esm',
    `the panel's MAE at most {} x that of BA-ESM, on the paper's loads and our own queues (the worst)`,
    MAX_PANEL_RATIO,
    worst(['metadata', 'smallFile', ...RECORDED_NAMES], 'panel-vs-ba-esm'),
  ),
  atMost(
    'forecast.panel-vs-best',
    'and at most {} x that of the best of the four others',
    1,
    worst(['metadata', 'smallFile', ...RECORDED_NAMES], 'panel-vs-best'),
  ),
  atMost(
    'forecast.hold-out.panel-vs-ba-esm',
    `{} x BA-ESM also on traces that it was not made with (the worst of ${HOLD_OUTS.length})`,
    MAX_PANEL_RATIO,
    worst(HOLD_OUTS, 'panel-vs-ba-esm'),
  ),
];

const SEED = 7;
const MB = 1e6;
/** The chart begins where the forecasters have settled. */
const CHART_FROM = 30;
const CHART_INTERVALS = 36;

/** What a scheduler would have observed. */
function loadOf(trace: Trace, seed: number, { repetitions, barriers }: Plan): Recorded {
  const random = new SeededRandom(seed);
  const workload = trace.ior
    ? ior({ ...IOR, barriersPerPhase: barriers, ...trace.ior }, random)
    : metadataTrace({ ...PAPER_METADATA, repetitions, ...trace.metadata }, random);
  const capacityBytes = (trace.bytesPerSecond * trace.intervalMs) / 1000;
  return { intervals: observe(workload, { ...trace, seed }), capacityBytes };
}

function forecaster(name: ForecasterName, capacityBytes: number): Forecaster<unknown> {
  switch (name) {
    case 'ba-esm':
      return baEsm({ alpha: 0.1, low: 0.9, high: 1.1, capacityBytes });
    case 'panel':
      return panel({ capacityBytes });
    default:
      return sesm(Number(name.slice('sesm-'.length)), capacityBytes);
  }
}

function addErrors(
  { figures }: BenchmarkContext,
  id: string,
  { intervals, capacityBytes }: Recorded,
) {
  const errors = NAMES.map((each) => forecastError(forecaster(each, capacityBytes), intervals));
  for (const [at, each] of NAMES.entries()) {
    figures.add(`${id}.${each}`, 'MB per interval', errors[at]! / MB);
  }
  const [baEsmError = 0, ...others] = errors;
  const panelError = others.pop() ?? 0;
  const add = (what: string, error: number, to: number) =>
    // A queue that is too short may be forecast without an error.
    figures.add(`${id}.${what}`, 'times', error / Math.max(1, to));
  add('ba-esm-vs-sesm', baEsmError, Math.min(...others));
  add('panel-vs-ba-esm', panelError, baEsmError);
  add('panel-vs-best', panelError, Math.min(baEsmError, ...others));
}

export async function measureForecasts(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { progress, print, table } = context;
  for (const [name, trace] of Object.entries(TRACES)) {
    progress(`forecasting ${name}`);
    for (let run = 0; run < plan.runs; run += 1) {
      const load = loadOf(trace, SEED + run, plan);
      addErrors(context, `forecast.${name}`, load);
      if (run === 0 && name in PAPER_ERRORS) draw(context, name, load);
    }
  }
  for (let run = 0; run < plan.recordings; run += 1) {
    const queues = await recordQueues(context, plan, SEED + run);
    for (const [name, queue] of Object.entries(queues)) {
      addErrors(context, `forecast.${name}`, queue);
    }
  }
  print('## Table 3: accuracy of the forecasts');
  table('forecasts', {
    head: 'MAE, MB per interval',
    rows: [
      ...Object.entries(TRACES).map(([name, { title }]) => [title, `forecast.${name}`] as const),
      ...Object.entries(RECORDED).map(([name, title]) => [title, `forecast.${name}`] as const),
    ],
    columns: [
      ...NAMES.map((each) => [FORECASTERS[each], each] as const),
      ['BA-ESM / best SESM', 'ba-esm-vs-sesm', middle],
      ['Panel / BA-ESM', 'panel-vs-ba-esm', middle],
      ['Panel / best other', 'panel-vs-best', middle],
    ],
    known: Object.entries(PAPER_ERRORS).map(([name, errors]) => [
      ...[`in the paper: ${name}`, ...errors, ''],
      round(errors[0] / Math.min(...errors.slice(1))),
    ]),
  });
}

function draw(
  { chart }: BenchmarkContext,
  trace: string,
  { intervals, capacityBytes }: Recorded,
): void {
  const shown = <T>(values: readonly T[]) => values.slice(CHART_FROM, CHART_FROM + CHART_INTERVALS);
  const forecasts = (name: ForecasterName) =>
    shown(forecastAll(forecaster(name, capacityBytes), intervals)).map((bytes) =>
      bytes === undefined ? undefined : bytes / MB,
    );
  chart(`forecast-${trace}`, {
    title: `Figure 3: load and its forecasts (${trace})`,
    ...{ xTitle: 'Interval', yTitle: 'MB per interval' },
    labels: shown(intervals).map((_, index) => (index % 5 === 0 ? String(CHART_FROM + index) : '')),
    series: [
      { name: 'Load', values: shown(intervals).map(({ servedBytes }) => servedBytes / MB) },
      { name: 'SESM, α 0.1', values: forecasts('sesm-0.1') },
      { name: 'BA-ESM, α 0.1', values: forecasts('ba-esm') },
      { name: 'Panel (ours)', values: forecasts('panel') },
    ],
  });
}
