import {
  baEsm,
  type Forecaster,
  forecastAll,
  forecastError,
  panel,
  sesm,
} from '@stevedore/balance';
import type { BenchmarkContext } from '../harness/benchmark.js';
import type { Plan } from './plan.js';
import { type LoadSeries, loadSeries, TRACES, type TraceName } from './traces.js';

/** The forecasters over the traces: Table 3, and figure 3 as a chart. */

export const FORECASTERS = ['ba-esm', 'sesm-0.1', 'sesm-0.6', 'sesm-0.9', 'panel'] as const;
export type ForecasterName = (typeof FORECASTERS)[number];

const SEED = 7;
const MB = 1e6;
/** The chart begins where the forecasters have settled. */
const CHART_FROM = 30;
const CHART_INTERVALS = 36;

export function errorId(trace: TraceName, forecaster: ForecasterName): string {
  return `forecast.${trace}.${forecaster}.mae`;
}

export function ratioId(trace: TraceName, what: 'ba-esm-vs-sesm' | 'panel-vs-ba-esm'): string {
  return `forecast.${trace}.${what}`;
}

export async function measureForecasts(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (const trace of Object.keys(TRACES) as TraceName[]) {
    context.progress(`forecasting ${trace}`);
    for (let run = 0; run < plan.runs; run += 1) {
      const series = loadSeries(trace, SEED + run, plan);
      addErrors(context, trace, series);
      if (run === 0 && (trace === 'metadata' || trace === 'smallFile')) {
        await drawForecasts(context, trace, series);
      }
    }
  }
}

function addErrors({ figures }: BenchmarkContext, trace: TraceName, series: LoadSeries): void {
  const errors = new Map<ForecasterName, number>();
  for (const name of FORECASTERS) {
    const error = forecastError(forecaster(name, series.capacityBytes), series.intervals) / MB;
    errors.set(name, error);
    figures.add(errorId(trace, name), 'MB per interval', error);
  }
  const bestSesm = Math.min(
    errors.get('sesm-0.1')!,
    errors.get('sesm-0.6')!,
    errors.get('sesm-0.9')!,
  );
  const burstAware = errors.get('ba-esm')!;
  figures.add(ratioId(trace, 'ba-esm-vs-sesm'), 'ratio', burstAware / bestSesm);
  figures.add(ratioId(trace, 'panel-vs-ba-esm'), 'ratio', errors.get('panel')! / burstAware);
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

async function drawForecasts(
  context: BenchmarkContext,
  trace: 'metadata' | 'smallFile',
  { intervals, capacityBytes }: LoadSeries,
): Promise<void> {
  const shown = <T>(values: readonly T[]) => values.slice(CHART_FROM, CHART_FROM + CHART_INTERVALS);
  const forecasts = (name: ForecasterName) =>
    shown(forecastAll(forecaster(name, capacityBytes), intervals)).map((bytes) =>
      bytes === undefined ? undefined : bytes / MB,
    );
  const kind = trace === 'metadata' ? 'metadata' : 'small-file';
  await context.chart(`migration-forecast-${kind}.svg`, {
    title: `Figure 3: ${kind} load and its forecasts`,
    xTitle: 'Interval',
    yTitle: 'MB per interval',
    labels: shown(intervals).map((_, index) => (index % 5 === 0 ? String(CHART_FROM + index) : '')),
    series: [
      { name: 'Load', values: shown(intervals).map(({ servedBytes }) => servedBytes / MB) },
      { name: 'SESM, α 0.1', values: forecasts('sesm-0.1') },
      { name: 'BA-ESM, α 0.1', values: forecasts('ba-esm') },
      { name: 'Panel (ours)', values: forecasts('panel') },
    ],
  });
}
