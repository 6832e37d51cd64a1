import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, round, table } from '../harness/markdown.js';
import { type Load, loadsOf, type Needs } from './deployment-model.js';
import type { Limits } from './limits.js';
import { COMPARED, type Compared, realId } from './real.js';

/** Tables of the scaling benchmark. */

const STEPS = ['', 'k', 'M', 'G', 'T', 'P'] as const;

/** 1.2 M: with the thousands that it takes. */
export function amount(value: number): string {
  const step = Math.min(STEPS.length - 1, Math.max(0, Math.floor(Math.log10(value) / 3)));
  if (!(value > 0)) return '0';
  return `${round(value / 1000 ** step)} ${STEPS[step]}`.trim();
}

export function bytesText(bytes: number): string {
  const text = amount(bytes);
  return /[a-z]$/i.test(text) ? `${text}B` : `${text} B`;
}

export function timeText(seconds: number): string {
  if (seconds < 120) return `${round(seconds)} s`;
  if (seconds < 7_200) return `${round(seconds / 60)} min`;
  if (seconds < 172_800) return `${round(seconds / 3_600)} h`;
  return `${round(seconds / 86_400)} d`;
}

/** 10⁶ as `10^6`. */
function powerText(value: number): string {
  return `10^${Math.round(Math.log10(value))}`;
}

export interface Row {
  readonly files: number;
  readonly gateways: number;
  readonly needs: Needs;
}

export function showDeployments(
  { print }: BenchmarkContext,
  rows: readonly Row[],
  limits: Limits,
): void {
  const head = ['Files, gateways', 'Uploads/s', 'Map', 'rows/s', 'statements/s', 'rebuilt in'];
  const more = ['FileMap of a gateway', 'restart', 'Trunks', 'a day', 'fill', 'Written', 'Groups'];
  print(
    `## Deployments\n\nRates are those of the busiest hour. A gateway by itself needs no map. *A day*: trunks stored, thin ones included. *Written*: bytes to FastDFS over bytes uploaded.\n\n${table(
      [...head, ...more, 'Tracker requests/s'],
      rows.map(needsRow),
    )}`,
  );
  const worst = new Map<string, Load>();
  const first = rows.map(({ files, gateways, needs }): Cell[] => {
    const loads = loadsOf(needs, gateways, limits);
    const beyond = loads.filter(({ share }) => share >= 1);
    for (const load of beyond) worst.set(load.what, load);
    const [nearest] = loads as [Load];
    return [
      nameOf(files, gateways),
      beyond.length === 0 ? `none; next: ${loadText(nearest)}` : beyond.map(loadText).join(', '),
    ];
  });
  print(
    `## What breaks first\n\nLoads over their limits; 2 x is twice the limit.\n\n${table(['Files, gateways', 'Beyond the limit'], first)}`,
  );
  const remedies = [...worst.values()].map(({ what, remedy }) => `- **${what}**: ${remedy}.`);
  if (remedies.length > 0) print(`What to do:\n\n${remedies.join('\n')}`);
}

function nameOf(files: number, gateways: number): string {
  return `${powerText(files)}, ${gateways}`;
}

function loadText({ what, share }: Load): string {
  return `${what} ${round(share)} x`;
}

function needsRow({ files, gateways, needs }: Row): Cell[] {
  const ofMap = (text: string) => (needs.hasMap ? text : '–');
  return [
    nameOf(files, gateways),
    amount(needs.uploadsPerSecond),
    ofMap(bytesText(needs.mapBytes)),
    ofMap(amount(needs.mapRowsPerSecond)),
    ofMap(amount(needs.mapStatementsPerSecond)),
    ofMap(timeText(needs.mapRebuildSeconds)),
    bytesText(needs.fileMapBytes),
    needs.restartSeconds === undefined ? '–' : timeText(needs.restartSeconds),
    amount(needs.trunks),
    amount(needs.trunksPerDay),
    needs.meanFill === 0 ? '–' : `${(100 * needs.meanFill).toFixed(1)} %`,
    `${round(needs.written)} x`,
    amount(needs.groups),
    amount(needs.trackerRequestsPerSecond),
  ];
}

const NAMES: Readonly<Record<Compared, string>> = {
  trunks: 'trunks in FastDFS',
  fill: 'how full they are, %',
  'filemap-bytes': 'FileMap, bytes a file',
  'map-rows': 'rows of the map',
  'map-bytes': 'map, bytes a file',
  'hit-ratio': 'hit ratio of reads, %',
};

export function showReal({ print, figures }: BenchmarkContext, files: number): void {
  const rows = COMPARED.map((what) => {
    const of = (side: Parameters<typeof realId>[1]) => figures.summary(realId(what, side)).median;
    const factor = what === 'fill' || what === 'hit-ratio' ? 100 : 1;
    const values = [of('predicted'), of('measured')].map((value) => round(value * factor));
    return [NAMES[what], ...values, `${(100 * of('difference')).toFixed(1)} %`];
  });
  const rate = (id: string) => amount(figures.summary(`real.${id}`).median);
  print(
    `## Compared with a real store with ${files.toLocaleString('en-US')} files\n\n${table(
      ['', 'Predicted', 'Measured', 'Apart'],
      rows,
    )}\n\nUploads: ${rate('uploads')} a second, merged and in the map ${rate('merged')} a second; reads: ${rate('reads')} a second. Restart: ${rate('restart')} s. \`map rebuild\`: ${rate('rebuild')} files a second.`,
  );
}
