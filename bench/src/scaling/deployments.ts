import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, table } from '../harness/markdown.js';
import { type Costs, type Deployment, needsOf, peakUploads } from './deployment-model.js';
import { type Outcome, type Site, simulateGateway } from './gateway-trunks.js';
import { LEAST_FILL_ID } from './goals.js';
import { type IndexCost, measureIndexes } from './index-writer.js';
import { type Limits, limitsFrom } from './limits.js';
import { lookupsPerSecond, measureIdleStatements } from './map-load.js';
import { amount, bytesText, type Row, showDeployments, timeText } from './output.js';
import {
  FILES,
  GATEWAYS,
  ID_MAX_AGE_MS,
  MAX_AGE_MS,
  MEAN_BYTES,
  type Plan,
  READ_EXPONENT,
  SEED,
  TRUNK_BYTES,
} from './plan.js';
import { measureMapRebuild, measureRestart, rowsOf } from './recovery.js';
import { emptyPostgresMap } from './sized-map.js';

/** What files and gateways need: costs that are measured once, trunks simulated for each rate. */

const DAY_SECONDS = 86_400;
/** Of an empty database, as in the benchmark `deployment`; none: the map is SQLite. */
const MAP_URL = process.env.STEVEDORE_BENCH_MAP ?? '';
/** Restart times are extrapolated to at most this many times the measured files. */
const TOLD_FROM = 10;
/** A gateway with so many files a year fills a trunk within a minute. */
const FAST_BYTES_PER_SECOND = (1.25 * TRUNK_BYTES) / (MAX_AGE_MS / 1000);

export async function simulateDeployments(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { progress } = context;
  const limits = limitsFrom(process.env.STEVEDORE_BENCH_LIMITS);
  const costs = await measureCosts(context, plan);
  const made = new Map<number, Outcome>();
  const rows: Row[] = [];
  for (const files of FILES) {
    progress(`${files.toExponential(0)} files`);
    for (const gateways of GATEWAYS) {
      const each = files / gateways;
      const trunks = made.get(each) ?? (await simulateGateway(siteOf(each, plan, limits)));
      made.set(each, trunks);
      const lookups = await lookupsOf(files, gateways, plan, limits);
      const deployment: Deployment = { files, gateways, trunks, lookupsPerSecond: lookups };
      rows.push({ files, gateways, needs: needsOf(deployment, costs, limits) });
    }
  }
  showTrunks(context, made, limits);
  for (const row of rows) addFigures(context, row);
  showDeployments(context, rows, limits);
}

function siteOf(filesInAll: number, plan: Plan, { uploadDays }: Limits): Site {
  const filesPerSecond = filesInAll / (uploadDays * DAY_SECONDS);
  const days = Math.min(plan.trunkDays, uploadDays);
  const files = Math.ceil(Math.min(plan.trunkFiles, filesPerSecond * days * DAY_SECONDS));
  return {
    ...{ origin: 1, filesPerSecond, isRandom: true, files, meanBytes: MEAN_BYTES },
    ...{ trunkBytes: TRUNK_BYTES, maxAgeMs: MAX_AGE_MS, idMaxAgeMs: ID_MAX_AGE_MS },
    ...{ flushes: false, seed: SEED },
  };
}

/** A balancer gives a read to any gateway: all but one in `gateways` are of others' files. */
function lookupsOf(files: number, gateways: number, plan: Plan, limits: Limits) {
  if (gateways === 1) return 0;
  const reads = (peakUploads(files, limits) * limits.readsPerUpload) / gateways;
  return lookupsPerSecond({
    ...{ files, exponent: READ_EXPONENT, maxRequests: plan.maxLookups, seed: SEED },
    readsPerSecond: reads * (1 - 1 / gateways),
  });
}

async function measureCosts(context: BenchmarkContext, plan: Plan): Promise<Costs> {
  const { workspace, progress, figures, print } = context;
  progress('rows of a FileMap and a map');
  const site: Site = {
    ...siteOf(1e10, plan, limitsFrom(undefined)),
    ...{ files: plan.indexFiles, flushes: true },
  };
  const sqlite = await measureIndexes(workspace.fresh('indexes'), site);
  const postgres =
    MAP_URL === ''
      ? undefined
      : await measureIndexes(workspace.fresh('indexes'), site, await emptyPostgresMap(MAP_URL));
  progress('a map that is rebuilt');
  const rebuilt = await measureMapRebuild(`${workspace.fresh('rebuilt')}.db`, site);
  progress('restarts');
  const [few, many] = plan.restartFiles.map(rowsOf) as [number, number];
  const least = await measureRestart(workspace.fresh('restart'), few, plan.restarts);
  const most = await measureRestart(workspace.fresh('restart'), many, plan.restarts);
  const perFile = Math.max(0, (most - least) / (many - few));
  progress('what an idle gateway asks the map');
  const idle = await measureIdleStatements(workspace.fresh('idle'), plan.idleSeconds);
  const maps = { sqlite, ...(postgres ? { postgres } : {}) };
  figures.add('costs.filemap', 'bytes', sqlite.fileMapBytesPerFile);
  for (const [name, { mapBytesPerFile, mapRowsPerSecond }] of Object.entries(maps)) {
    figures.add(`costs.map.${name}`, 'bytes', mapBytesPerFile);
    figures.add(`costs.map-rows.${name}`, 'rows/s', mapRowsPerSecond);
  }
  figures.add('costs.rebuild', 'files/s', rebuilt);
  figures.add('costs.restart.few', 's', least);
  figures.add('costs.restart.many', 's', most);
  figures.add('costs.idle', 'statements/s', idle);
  print(
    `## Costs\n\nOf ${amount(plan.indexFiles)} files; a restart of ${amount(few)} and of ${amount(many)}. The map is written and rebuilt by one connection. Below, it is ${postgres ? 'the PostgreSQL of STEVEDORE_BENCH_MAP' : 'SQLite; STEVEDORE_BENCH_MAP names a PostgreSQL'}.\n\n${table(
      ['', 'Measured'],
      [
        ['FileMap, bytes a file', sqlite.fileMapBytesPerFile],
        ...mapRows('SQLite', sqlite),
        ...(postgres ? mapRows('PostgreSQL', postgres) : []),
        ['statements that place a trunk', sqlite.statementsPerTrunk],
        ['statements of an idle gateway, a second', idle],
        ['files entered by `map rebuild`, a second', amount(rebuilt)],
        ['restart', `${timeText(least)}, ${timeText(most)}`],
      ],
    )}`,
  );
  return {
    ...(postgres ?? sqlite),
    ...{ meanBytes: MEAN_BYTES, idleStatements: idle, rebuildFilesPerSecond: rebuilt },
    restartSeconds: (files) =>
      files > TOLD_FROM * many ? undefined : least + perFile * Math.max(0, files - few),
  };
}

function mapRows(name: string, cost: IndexCost): readonly Cell[][] {
  return [
    [`map in ${name}, bytes a file`, cost.mapBytesPerFile],
    [`rows placed in ${name}, a second`, amount(cost.mapRowsPerSecond)],
  ];
}

function showTrunks(
  { print, figures }: BenchmarkContext,
  made: ReadonlyMap<number, Outcome>,
  limits: Limits,
): void {
  const rows = [...made].sort(([a], [b]) => a - b);
  const fast = rows.filter(([files, { fills }]) => {
    const rate = (files * MEAN_BYTES) / (limits.uploadDays * DAY_SECONDS);
    return rate >= FAST_BYTES_PER_SECOND && fills.length > 0;
  });
  const means = fast.map(([, { fills }]) => mean(fills));
  if (means.length > 0) figures.add(LEAST_FILL_ID, 'share', Math.min(...means));
  const head = ['Files a year', 'Simulated', 'files', 'Trunks stored', 'stay', 'fill', 'thin now'];
  print(
    `## Trunks of one gateway\n\n${table(
      [...head, 'Bytes of one that stays', 'Written'],
      rows.map(([files, outcome]) => [
        amount((files * 365) / limits.uploadDays),
        timeText(outcome.seconds),
        amount(outcome.files),
        ...[outcome.stored, outcome.staying].map(amount),
        `${(100 * mean(outcome.fills)).toFixed(2)} %`,
        String(outcome.thin),
        bytesText(outcome.stayingBytes / Math.max(1, outcome.staying)),
        `${(outcome.storedBytes / Math.max(1, outcome.bytes - outcome.waitingBytes)).toFixed(2)} x`,
      ]),
    )}`,
  );
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function addFigures({ figures }: BenchmarkContext, { files, gateways, needs }: Row): void {
  const add = (what: string, unit: string, value: number) =>
    figures.add(`deployments.f${files}.g${gateways}.${what}`, unit, value);
  add('map-size', 'bytes', needs.mapBytes);
  add('map-rows', 'rows/s', needs.mapRowsPerSecond);
  add('map-statements', 'statements/s', needs.mapStatementsPerSecond);
  add('trunks', 'trunks', needs.trunks);
  add('trunks-a-day', 'trunks', needs.trunksPerDay);
}
