import type { BenchmarkContext } from '../harness/benchmark.js';
import { mean } from '../harness/figures.js';
import { type Cell, round, table } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import type { SteadyOutcome, SteadySite } from '../merging/site-process.js';
import { amount, bytesText, share, timeText } from './amounts.js';
import {
  type Costs,
  type Load,
  loadsOf,
  type Needs,
  needsOf,
  peakUploads,
} from './deployment-model.js';
import { emptyPostgresMap, type IndexCost, measureIndexes, measureMapRebuild } from './indexes.js';
import { type Limits, limitsFrom } from './limits.js';
import { lookupsPerSecond, measureIdleStatements } from './map-load.js';
import { DEFAULTS, FILES, GATEWAYS, MEAN_BYTES, type Plan, READ_EXPONENT, SEED } from './plan.js';

/** What files and gateways need: costs that are measured once, trunks simulated for each rate. */

const DAY_SECONDS = 86_400;
/** Of an empty database; none: the map is SQLite. */
const MAP_URL = process.env.STEVEDORE_BENCH_MAP ?? '';
/** A gateway with so many files a year fills a trunk within a minute. */
const FAST_BYTES_PER_SECOND = (1.25 * DEFAULTS.trunkSize) / (DEFAULTS.mergeMaxAge / 1000);
const CALL_LIMIT_MS = 3_600_000;
/** What looks at the disk every second has nothing to see; a year would take hours otherwise. */
const INTERVAL_MS = 600_000;

interface Row {
  readonly files: number;
  readonly gateways: number;
  readonly needs: Needs;
}

export async function simulateDeployments(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { progress, figures } = context;
  const limits = limitsFrom(process.env.STEVEDORE_BENCH_LIMITS);
  const costs = await measureCosts(context, plan);
  const made = new Map<number, SteadyOutcome>();
  const rows: Row[] = [];
  for (const files of FILES) {
    progress(`${files.toExponential(0)} files`);
    for (const gateways of GATEWAYS) {
      const each = files / gateways;
      const trunks = made.get(each) ?? (await simulate(context, siteOf(each, plan, limits)))[0];
      made.set(each, trunks);
      const lookups = await lookupsOf(files, gateways, plan, limits);
      const deployment = { files, gateways, trunks, lookupsPerSecond: lookups };
      const needs = needsOf(deployment, costs, limits);
      rows.push({ files, gateways, needs });
      figures.addAll(`deployments.f${files}.g${gateways}`, {
        'map-size': [needs.mapBytes, 'bytes'],
        'map-rows': [needs.mapRowsPerSecond, 'rows/s'],
        'map-statements': [needs.mapStatementsPerSecond, 'statements/s'],
        trunks: [needs.trunks, 'trunks'],
        'trunks-a-day': [needs.trunksPerDay, 'trunks'],
      });
    }
  }
  showTrunks(context, made, limits);
  showDeployments(context, rows, limits);
}

function siteOf(filesInAll: number, plan: Plan, { uploadDays }: Limits): SteadySite {
  const filesPerSecond = filesInAll / (uploadDays * DAY_SECONDS);
  const days = Math.min(plan.trunkDays, uploadDays);
  const files = Math.ceil(Math.min(plan.trunkFiles, filesPerSecond * days * DAY_SECONDS));
  return { filesPerSecond, files, meanBytes: MEAN_BYTES, ...DEFAULTS, flushes: false };
}

/** The gateway of `merging`: its Staging is real, its time virtual. */
async function simulate({ workspace }: BenchmarkContext, site: SteadySite) {
  const directory = workspace.fresh('gateway');
  await using child = start('merging/site', {
    callLimitMs: CALL_LIMIT_MS,
    env: { STEVEDORE_BENCH_INTERVAL_MS: String(INTERVAL_MS) },
  });
  const outcome = await child.call('simulateSteady', directory, site);
  for (const error of outcome.errors) throw new Error(error);
  return [outcome, directory] as const;
}

/** A balancer gives a read to any gateway: all but one in `gateways` are of others' files. */
function lookupsOf(files: number, gateways: number, plan: Plan, limits: Limits) {
  if (gateways === 1) return 0;
  const reads = (peakUploads(files, limits) * limits.readsPerUpload) / gateways;
  const zipf = new Zipf(files, READ_EXPONENT, new SeededRandom(SEED).next);
  return lookupsPerSecond(reads * (1 - 1 / gateways), zipf, plan.maxLookups);
}

async function measureCosts(context: BenchmarkContext, plan: Plan): Promise<Costs> {
  const { workspace, progress, figures, print } = context;
  progress('rows of a FileMap and a map');
  const fast = siteOf(1e10, plan, limitsFrom(undefined));
  const site = { ...fast, files: plan.indexFiles, idMaxAge: 0, flushes: true };
  const [outcome, directory] = await simulate(context, site);
  const sqlite = await measureIndexes(directory, outcome);
  const postgres =
    MAP_URL === ''
      ? undefined
      : await measureIndexes(directory, outcome, await emptyPostgresMap(MAP_URL));
  progress('a map that is rebuilt');
  const rebuilt = await measureMapRebuild(workspace.fresh('rebuilt'), plan.indexFiles);
  progress('what an idle gateway asks the map');
  const idle = await measureIdleStatements(workspace.fresh('idle'), plan.idleSeconds);
  const maps: readonly (readonly [string, IndexCost])[] = [
    ['SQLite', sqlite],
    ...(postgres ? [['PostgreSQL', postgres] as const] : []),
  ];
  figures.addAll('costs', {
    filemap: [sqlite.fileMapBytesPerFile, 'bytes'],
    rebuild: [rebuilt, 'files/s'],
    idle: [idle, 'statements/s'],
  });
  for (const [name, { mapBytesPerFile, mapRowsPerSecond }] of maps) {
    figures.add(`costs.map.${name}`, 'bytes', mapBytesPerFile);
    figures.add(`costs.map-rows.${name}`, 'rows/s', mapRowsPerSecond);
  }
  print(
    `## Costs\n\nOf ${amount(plan.indexFiles)} files. The map is written and rebuilt by one connection. Below, it is ${postgres ? 'the PostgreSQL of STEVEDORE_BENCH_MAP' : 'SQLite; STEVEDORE_BENCH_MAP names a PostgreSQL'}.`,
  );
  const rows: Cell[][] = [
    ['FileMap, bytes a file', sqlite.fileMapBytesPerFile],
    ...maps.flatMap(([name, { mapBytesPerFile, mapRowsPerSecond }]) => [
      [`map in ${name}, bytes a file`, mapBytesPerFile],
      [`rows placed in ${name}, a second`, amount(mapRowsPerSecond)],
    ]),
    ['statements that place a trunk', sqlite.statementsPerTrunk],
    ['statements of an idle gateway, a second', idle],
    ['files entered by `map rebuild`, a second', amount(rebuilt)],
  ];
  context.table('costs', table(['', 'Measured'], rows));
  return {
    ...(postgres ?? sqlite),
    ...{ meanBytes: MEAN_BYTES, idleStatements: idle, rebuildFilesPerSecond: rebuilt },
  };
}

function showTrunks(
  context: BenchmarkContext,
  made: ReadonlyMap<number, SteadyOutcome>,
  { uploadDays }: Limits,
): void {
  const rows = [...made].sort(([a], [b]) => a - b);
  const fast = rows.filter(([files, { fills }]) => {
    const rate = (files * MEAN_BYTES) / (uploadDays * DAY_SECONDS);
    return rate >= FAST_BYTES_PER_SECOND && fills.length > 0;
  });
  const least = Math.min(...fast.map(([, { fills }]) => mean(fills)));
  if (fast.length > 0) context.figures.add('deployments.least-fill', 'share', least);
  context.print('## Trunks of one gateway');
  const head = ['Files a year', 'Simulated', 'files', 'Trunks stored', 'stay', 'fill', 'thin now'];
  const cells = rows.map(([files, outcome]) => [
    amount((files * 365) / uploadDays),
    timeText(outcome.seconds),
    ...[outcome.files, outcome.stored, outcome.staying].map(amount),
    `${(100 * mean(outcome.fills)).toFixed(2)} %`,
    String(outcome.thin),
    bytesText(outcome.stayingBytes / Math.max(1, outcome.staying)),
    `${(outcome.storedBytes / Math.max(1, outcome.bytes - outcome.waitingBytes)).toFixed(2)} x`,
  ]);
  context.table('trunks', table([...head, 'Bytes of one that stays', 'Written'], cells));
}

function showDeployments(context: BenchmarkContext, rows: readonly Row[], limits: Limits): void {
  const head = ['Files, gateways', 'Uploads/s', 'Map', 'rows/s', 'statements/s', 'rebuilt in'];
  const more = ['FileMap of a gateway', 'Trunks', 'a day', 'fill', 'Written', 'Groups'];
  context.print(
    '## Deployments\n\nRates are those of the busiest hour. A gateway by itself needs no map. *A day*: trunks stored, thin ones included. *Written*: bytes to FastDFS over bytes uploaded.',
  );
  const all = [...head, ...more, 'Tracker requests/s'];
  context.table('deployments', table(all, rows.map(needsRow)));
  const worst = new Map<string, Load>();
  const first = rows.map((row): Cell[] => {
    const loads = loadsOf(row.needs, row.gateways, limits);
    const beyond = loads.filter((load) => load.share >= 1);
    for (const load of beyond) worst.set(load.what, load);
    const text = (load: Load) => `${load.what} ${round(load.share)} x`;
    const next = loads.slice(0, 1).map((load) => `none; next: ${text(load)}`);
    return [nameOf(row), (beyond.length === 0 ? next : beyond.map(text)).join(', ')];
  });
  context.print('## What breaks first\n\nLoads over their limits; 2 x is twice the limit.');
  context.table('first', table(['Files, gateways', 'Beyond the limit'], first));
  const remedies = [...worst.values()].map(({ what, remedy }) => `- **${what}**: ${remedy}.`);
  if (remedies.length > 0) context.print(`What to do:\n\n${remedies.join('\n')}`);
}

function nameOf({ files, gateways }: Row): string {
  return `10^${Math.round(Math.log10(files))}, ${gateways}`;
}

function needsRow(row: Row): Cell[] {
  const { needs } = row;
  const ofMap = (text: string) => (needs.hasMap ? text : '–');
  return [
    nameOf(row),
    amount(needs.uploadsPerSecond),
    ofMap(bytesText(needs.mapBytes)),
    ofMap(amount(needs.mapRowsPerSecond)),
    ofMap(amount(needs.mapStatementsPerSecond)),
    ofMap(timeText(needs.mapRebuildSeconds)),
    bytesText(needs.fileMapBytes),
    amount(needs.trunks),
    amount(needs.trunksPerDay),
    needs.meanFill === 0 ? '–' : share(needs.meanFill),
    `${round(needs.written)} x`,
    amount(needs.groups),
    amount(needs.trackerRequestsPerSecond),
  ];
}
