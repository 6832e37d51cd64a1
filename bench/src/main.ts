import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BenchmarkName, benchmarks } from './benchmarks.js';
import { reproducing } from './claims/reproducing.js';
import { parseArguments, usage } from './harness/arguments.js';
import { filled, readRecords, record } from './harness/records.js';
import { chooseParts, type Report, runBenchmark } from './harness/report.js';
import { UsageError } from './harness/usage-error.js';

/** `npm run bench`: runs the benchmarks that are named, or all of them. */

const BENCH = dirname(dirname(fileURLToPath(import.meta.url)));
const RESULTS = join(BENCH, 'results');

async function main(args: readonly string[]): Promise<void> {
  const parsed = parseArguments(args, Object.keys(benchmarks));
  const { names, json, help, updateDocs, out = join(BENCH, 'out') } = parsed;
  if (help) {
    const measures = Object.entries(benchmarks).map(([name, entry]) => [name, entry.measures]);
    process.stdout.write(`${usage(Object.fromEntries(measures))}\n`);
    return;
  }
  if (updateDocs) return updateDocuments();
  const chosen = await Promise.all(
    names.map(async (name) => [name, await benchmarks[name as BenchmarkName].load()] as const),
  );
  // A mistake is found before anything is measured.
  for (const [name, benchmark] of chosen) chooseParts(name, benchmark, parsed);
  const reports: Report[] = [];
  for (const [name, benchmark] of chosen) {
    const report = await runBenchmark(name, benchmark, { ...parsed, out });
    reports.push(report);
    const today = new Date().toISOString().slice(0, 10);
    if (parsed.record) await record(RESULTS, report, today, parsed.note);
  }
  if (json !== undefined) {
    const content = reports.length === 1 ? reports[0] : reports;
    await writeFile(json, `${JSON.stringify(content, null, 2)}\n`);
  }
  for (const { name, failures } of reports) {
    for (const failure of failures) process.stderr.write(`bench: ${name}: ${failure}\n`);
    if (failures.length > 0) process.exitCode = 1;
  }
}

async function updateDocuments(): Promise<void> {
  const records = await readRecords(RESULTS);
  const { text, charts } = reproducing(records);
  const docs = join(dirname(BENCH), 'docs');
  await mkdir(join(docs, 'charts'), { recursive: true });
  for (const [path, svg] of Object.entries(charts)) await writeFile(join(docs, path), svg);
  await writeFile(join(docs, 'REPRODUCING.md'), text);
  for (const folder of ['docs', 'packages']) {
    const root = join(dirname(BENCH), folder);
    for (const name of await readdir(root, { recursive: true })) {
      if (!name.endsWith('.md') || /node_modules|dist\//.test(name)) continue;
      const before = await readFile(join(root, name), 'utf8');
      const after = filled(before, records);
      if (after === before) continue;
      await writeFile(join(root, name), after);
      process.stdout.write(`${join(folder, name)}\n`);
    }
  }
}

// An exit that is one of ours ends the children and removes the data.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => process.exit(128 + (signal === 'SIGINT' ? 2 : 15)));
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const isUsage = error instanceof UsageError;
  const text = error instanceof Error && !isUsage ? (error.stack ?? error.message) : error;
  process.stderr.write(`bench: ${isUsage ? error.message : String(text)}\n`);
  process.exitCode = isUsage ? 2 : 1;
});
