import { dirname, join } from 'node:path';
import { runInGroup } from './in-group.js';
import { PROJECTS, QUICK } from './projects.js';
import type { Counts } from './report.js';

/**
 * Runs tests: `run.js quick` what `npm test` runs, `run.js all` all, `run.js crash` one project; with
 * the path of a file or a folder, that alone, whichever project it is of. `--all` tries every crash.
 * The rest is vitest's, such as `--sequence.shuffle.files --sequence.shuffle.tests --sequence.seed=7`
 * for another order. Ends with one line: `N passed, N failed, N skipped`.
 */

const TEST = dirname(dirname(import.meta.dirname));

const all = PROJECTS.map(({ name }) => name);
const given = process.argv.slice(2);
const which = ['quick', 'all', ...all].find((name) => name === given[0]);
const rest = given.slice(which ? 1 : 0).filter((word) => word !== '--all');
if (given.includes('--all')) process.env.STEVEDORE_TEST_CRASH_SHARE = '1';
const isPath = (word: string, at: number): boolean =>
  !word.startsWith('-') && rest[at - 1] !== '-t';
const names = which === 'all' ? all : which === 'quick' || !which ? QUICK : [which];
const chosen = rest.some(isPath) ? [] : PROJECTS.filter(({ name }) => names.includes(name));

if (chosen.length > 0) {
  const minutes = Math.ceil(chosen.reduce((sum, { seconds }) => sum + seconds, 0) / 60);
  const what = chosen.map(({ name }) => name).join(', ');
  console.log(`stevedore: tests: ${what}, about ${minutes} min`);
  if (which === 'quick') console.log('stevedore: npm run test:all runs everything');
}

let counts: Counts = { passed: 0, failed: 0, skipped: 0 };
const status = await runInGroup(
  [
    join(TEST, 'node_modules', 'vitest', 'vitest.mjs'),
    'run',
    ...['--config', join(TEST, 'vitest.config.ts')],
    ...['--reporter=minimal', `--reporter=${join(import.meta.dirname, 'report.js')}`],
    ...chosen.flatMap(({ name }) => ['--project', name]),
    ...rest,
  ],
  dirname(TEST),
  (message) => {
    counts = message as Counts;
  },
);
const isGood = status === 0 && counts.failed === 0 && counts.passed > 0;
const failed = isGood ? 0 : Math.max(counts.failed, 1);
console.log(`${counts.passed} passed, ${failed} failed, ${counts.skipped} skipped`);
process.exit(isGood ? 0 : 1);
