import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BenchmarkName, benchmarkNames, benchmarks } from './benchmarks.js';
import { parseArguments, usage } from './harness/arguments.js';
import { chooseParts, type Report, runBenchmark } from './harness/report.js';
import { UsageError } from './harness/usage-error.js';

/** `npm run bench`: runs the benchmarks that are named, or all of them. */

const DEFAULT_OUT = join(dirname(dirname(fileURLToPath(import.meta.url))), 'out');

async function main(args: readonly string[]): Promise<void> {
  const { names, json, help, ...options } = parseArguments(args, benchmarkNames);
  if (help) {
    process.stdout.write(`${usage(benchmarkNames)}\n`);
    return;
  }
  const chosen = await Promise.all(
    names.map(async (name) => [name, await benchmarks[name as BenchmarkName]()] as const),
  );
  // A mistake is found before anything is measured.
  for (const [name, benchmark] of chosen) chooseParts(name, benchmark, options);
  const reports: Report[] = [];
  for (const [name, benchmark] of chosen) {
    const out = options.out ?? DEFAULT_OUT;
    reports.push(await runBenchmark(name, benchmark, { ...options, out }));
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
