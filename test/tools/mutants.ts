import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { runInGroup } from './in-group.js';

/**
 * `npm run mutants [-- PACKAGE[/FOLDER][/MODULE]…]`: changes what is built, one small change at a time,
 * and runs the unit and server tests of that folder, or of that package, against each. Reports the
 * changes that no test notices. Works on a copy, because an end at the wrong moment would leave a
 * changed build behind. A package takes up to an hour.
 */

const ROOT = join(import.meta.dirname, '../../..');
const given = process.argv.slice(2);
const names = given.length > 0 ? given : ['balance', 'cache'];
/** Later ones need Node 22. */
const STRYKER = '9.6.1';
/** Half a minute each: with hundreds of mutants they would take all the time. */
const LONG = 'scan of 20 times the cache';
const folder = await mkdtemp(join(tmpdir(), 'stevedore-mutants-'));
const left = new Set(['.git', '.pnpm', '.stevedore', 'out']);
await cp(ROOT, folder, {
  recursive: true,
  verbatimSymlinks: true,
  filter: (path) => !left.has(basename(path)),
});
// What is not of this workspace is not changed.
const others = join('node_modules', '.pnpm');
await symlink(join(ROOT, others), join(folder, others));
await writeFile(
  join(folder, 'test', 'vitest.mutants.config.ts'),
  `import { common } from './vitest.config.ts';
export default { test: {
  ...common,
  include: ${JSON.stringify([...new Set(names.flatMap(testsOf))])},
  testNamePattern: /^(?!.*${LONG})/,
} };
`,
);
const modules = await installStryker();
const config = {
  mutate: names.map(modulesOf),
  testRunner: 'vitest',
  plugins: [join(modules, '@stryker-mutator', 'vitest-runner', 'dist', 'src', 'index.js')],
  vitest: { configFile: 'test/vitest.mutants.config.ts', related: false },
  inPlace: true,
  coverageAnalysis: 'perTest',
  // They run once, before a test does: what they are about is tested where they are used.
  ignoreStatic: true,
  concurrency: 2,
  allowEmpty: false,
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: { allowColor: false, logTests: false, allowEmojis: false },
};
const configFile = join(folder, 'stryker.config.json');
await writeFile(configFile, JSON.stringify(config));
const stryker = join(modules, '@stryker-mutator', 'core', 'bin', 'stryker.js');
const code = await runInGroup([stryker, 'run', configFile], folder);
await rm(folder, { recursive: true, force: true });
process.exitCode = code;

/** The tests of a folder or a module, of a package where it has none of its own. */
function testsOf(name: string): string[] {
  const [owner = '', ...path] = name.split('/');
  return ['unit', 'server'].flatMap((project) => {
    const at = (...below: string[]) => join(ROOT, 'test', project, owner, ...below);
    // A folder of modules is tested by more than the tests of the module of its name.
    const isFolder = existsSync(join(ROOT, 'packages', owner, 'dist', ...path));
    if (path.length > 0 && !isFolder && existsSync(`${at(...path)}.test.ts`)) {
      return `${project}/${owner}/${path.join('/')}.test.ts`;
    }
    if (path.length > 0 && existsSync(at(path[0]!)))
      return `${project}/${owner}/${path[0]}/**/*.test.ts`;
    return existsSync(at()) ? `${project}/${owner}/**/*.test.ts` : [];
  });
}

function modulesOf(name: string): string {
  const [owner = '', ...path] = name.split('/');
  const built = join('packages', owner, 'dist', ...path);
  if (existsSync(join(ROOT, built))) return `${built}/**/*.js`;
  return `${join('packages', owner, 'dist', ...path.slice(0, -1))}/**/${path.at(-1)}.js`;
}

/** Apart from the workspace's own dependencies: nobody else needs its 190 packages. */
async function installStryker(): Promise<string> {
  const home = join(ROOT, 'node_modules', '.stevedore', 'stryker');
  const kept = join(home, 'node_modules');
  if (existsSync(join(kept, 'vitest'))) return kept;
  await mkdir(home, { recursive: true });
  await writeFile(join(home, 'package.json'), '{ "private": true }');
  const packages = ['core', 'vitest-runner'].map((name) => `@stryker-mutator/${name}@${STRYKER}`);
  const npm = spawn('npm', ['install', '--silent', '--legacy-peer-deps', ...packages], {
    cwd: home,
    stdio: 'inherit',
  });
  await once(npm, 'exit');
  // The tests and their runner share one vitest.
  const vitest = join(ROOT, 'test', 'node_modules', 'vitest');
  await symlink(vitest, join(dirname(join(kept, 'vitest')), 'vitest'));
  return kept;
}
