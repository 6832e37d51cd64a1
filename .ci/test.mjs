/**
 * Runs every test and ends with one line: `N passed, N failed, N skipped`.
 * Arguments are handed to vitest (a file name, `-t name`).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), 'stevedore-test-'));
const report = join(folder, 'report.json');
const vitest = join(root, 'test', 'node_modules', 'vitest', 'vitest.mjs');
// In a group of its own: what tests leave behind ends with them, and holds no pipe open.
const tests = spawn(
  process.execPath,
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
  { cwd: root, stdio: 'inherit', detached: true },
);
const end = (signal) => {
  try {
    process.kill(-tests.pid, signal);
  } catch {
    // All have ended.
  }
};
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => end(signal));
const [status] = await once(tests, 'exit');
end('SIGKILL');

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
