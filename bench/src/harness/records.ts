import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Report } from './report.js';

/**
 * Figures of documents. A run with `--record` keeps its tables in `bench/results`, with version, date
 * and machine; `--update-docs` writes them where a document has a marker of their name:
 * `<!-- bench:BENCHMARK/TABLE -->…<!-- /bench -->`.
 */

export interface Recorded {
  readonly table: string;
  readonly stevedore: string;
  readonly date: string;
  readonly scale: string;
  readonly machine: string;
  /** What else is to be known of the run; empty: nothing. */
  readonly note: string;
}

/** By the names of tables. */
export type TableRecords = Readonly<Record<string, Recorded>>;

const MARKER = /<!-- bench:([\w-]+)\/([\w-]+) -->[\s\S]*?<!-- \/bench -->/g;

/** Tables of parts that were not run keep what they had. */
export async function record(folder: string, report: Report, date: string, note: string) {
  const { name, scale, machine, versions, tables } = report;
  const { cores, cpu, memoryBytes, platform, loadAverage } = machine;
  const about = {
    ...{ stevedore: versions.stevedore ?? '', date, scale },
    machine: `${cores} × ${cpu}, ${(memoryBytes / 2 ** 30).toFixed(0)} GiB, ${platform}, Node ${versions.node}, load ${loadAverage.toFixed(1)} at the start`,
    note,
  };
  const before = (await readRecords(folder)).get(name) ?? {};
  const fresh = Object.entries(tables).map(([id, table]) => [id, { ...about, table }]);
  const all = { ...before, ...Object.fromEntries(fresh) };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify(all, null, 2)}\n`);
}

/** By the names of benchmarks. */
export async function readRecords(folder: string): Promise<ReadonlyMap<string, TableRecords>> {
  const files = await readdir(folder).catch(() => []);
  const records = files
    .filter((file) => file.endsWith('.json'))
    .map(async (file) => {
      const content = JSON.parse(await readFile(join(folder, file), 'utf8')) as TableRecords;
      return [file.slice(0, -'.json'.length), content] as const;
    });
  return new Map(await Promise.all(records));
}

/** The document with every marker filled; throws where a marker names what was never recorded. */
export function filled(document: string, records: ReadonlyMap<string, TableRecords>): string {
  return document.replace(MARKER, (_, name: string, table: string) => {
    const recorded = records.get(name)?.[table];
    if (!recorded) throw new Error(`bench:${name}/${table} was never recorded`);
    return `<!-- bench:${name}/${table} -->\n${textOf(name, recorded)}\n<!-- /bench -->`;
  });
}

function textOf(name: string, recorded: Recorded): string {
  const { table, stevedore, date, scale, machine, note } = recorded;
  const how = scale === 'full' ? '' : ` --${scale}`;
  const more = note === '' ? '' : ` ${note}`;
  return `${table}\n\nStevedore ${stevedore}, ${date}, \`npm run bench -- ${name}${how}\`; ${machine}.${more}`;
}
