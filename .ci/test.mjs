/**
 * Runs every test and ends with one line: `N passed, N failed, N skipped`.
 * Arguments are handed to vitest (a file name, `-t name`).
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInGroup } from './in-group.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), 'stevedore-test-'));
const report = join(folder, 'report.json');
const vitest = join(root, 'test', 'node_modules', 'vitest', 'vitest.mjs');
const status = await runInGroup(
  [
    vitest,
    'run',
    '--config',
    join(root, 'test', 'vitest.config.ts'),
    '--reporter=default',
    '--reporter=json',
    `--reporter=${join(root, '.ci', 'unended.mjs')}`,
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ],
  root,
);

let result;
try {
  result = JSON.parse(readFileSync(report, 'utf8'));
} catch {
  console.error('stevedore: vitest left no report');
}
rmSync(folder, { recursive: true, force: true });
const failed = result ? result.numFailedTests : 1;
const failedSuites = result
  ? result.testResults.filter((file) => file.status === 'failed').length
  : 0;
const skipped = result ? result.numPendingTests + result.numTodoTests : 0;
const ok = status === 0 && failed === 0 && failedSuites === 0 && result.numPassedTests > 0;
// A file that fails to load has no failed test of its own.
const shown = ok ? 0 : Math.max(failed, failedSuites, 1);
console.log(`${result?.numPassedTests ?? 0} passed, ${shown} failed, ${skipped} skipped`);
process.exit(ok ? 0 : 1);
