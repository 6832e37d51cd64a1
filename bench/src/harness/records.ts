import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LineChart } from './line-chart.js';
import type { Report } from './report.js';

/**
 * What was measured, for documents. A run with `--record` keeps the tables, charts and figures of each
 * part in `bench/results`, with version, date and machine; `--update-docs` writes tables where a
 * document has a marker of their name: `<!-- bench:BENCHMARK/TABLE -->…<!-- /bench -->`.
 */

export interface About {
  readonly stevedore: string;
  readonly date: string;
  readonly scale: string;
  readonly machine: string;
  /** What else is to be known of the run; empty: nothing. */
  readonly note: string;
}

/** What a part printed and drew, by name, and the medians of its figures, by id. */
export interface PartRecord extends About {
  readonly tables: Readonly<Record<string, string>>;
  readonly charts: Readonly<Record<string, LineChart>>;
  readonly figures: Readonly<Record<string, number>>;
}

/** By the names of benchmarks, and of their parts. */
export type Records = ReadonlyMap<string, Readonly<Record<string, PartRecord>>>;

const MARKER = /<!-- bench:([\w-]+)\/([\w-]+) -->[\s\S]*?<!-- \/bench -->/g;
const DIGITS = 6;

/** Parts that were not run, or failed, keep what they had. */
export async function record(folder: string, report: Report, date: string, note: string) {
  const { name, scale, machine, versions, parts } = report;
  const { cores, cpu, memoryBytes, platform, loadAverage } = machine;
  const about: About = {
    ...{ stevedore: versions.stevedore ?? '', date, scale },
    machine: `${cores} × ${cpu}, ${(memoryBytes / 2 ** 30).toFixed(0)} GiB, ${platform}, Node ${versions.node}, load ${loadAverage.toFixed(1)} at the start`,
    note,
  };
  const all: Record<string, PartRecord> = { ...(await readRecords(folder)).get(name) };
  for (const [part, { figures, ...drawn }] of Object.entries(parts)) {
    const medians = figures.map(({ id, median }) => [id, Number(median.toPrecision(DIGITS))]);
    all[part] = { ...about, ...drawn, figures: Object.fromEntries(medians) };
  }
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify(all, null, 2)}\n`);
}

export async function readRecords(folder: string): Promise<Records> {
  const files = await readdir(folder).catch(() => []);
  const records = files
    .filter((file) => file.endsWith('.json'))
    .map(async (file) => {
      const content = JSON.parse(await readFile(join(folder, file), 'utf8'));
      return [file.slice(0, -'.json'.length), content] as const;
    });
  return new Map(await Promise.all(records));
}

/** The document with every marker filled; throws where a marker names what was never recorded. */
export function filled(document: string, records: Records): string {
  return document.replace(MARKER, (_, name: string, table: string) => {
    const found = Object.entries(records.get(name) ?? {}).find(([, each]) => each.tables[table]);
    if (!found) throw new Error(`bench:${name}/${table} was never recorded`);
    const [part, recorded] = found;
    const text = `${recorded.tables[table]}\n\n${origin(name, part, recorded)}`;
    return `<!-- bench:${name}/${table} -->\n${text}\n<!-- /bench -->`;
  });
}

export function commandOf(name: string, part: string, { scale }: About): string {
  return `npm run bench -- ${name} --parts ${part}${scale === 'full' ? '' : ` --${scale}`}`;
}

function origin(name: string, part: string, about: About): string {
  const { stevedore, date, machine, note } = about;
  const command = commandOf(name, part, about);
  return `Stevedore ${stevedore}, ${date}, \`${command}\`; ${machine}.${note && ` ${note}`}`;
}
