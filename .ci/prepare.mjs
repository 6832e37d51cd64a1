/**
 * Installs and builds the workspace when something has changed since the last
 * time; needs nothing but Node. `npm start`, `npm test` and `npm run bench` call
 * it first, so its check of what is up to date takes milliseconds.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stamps = join(root, 'node_modules', '.stevedore');
const packages = ['gateway', 'examples', 'bench', 'test', ...list('packages')];
const manifests = [
  'package.json',
  'pnpm-lock.yaml',
  'pnpm-workspace.yaml',
  ...packages.map((name) => join(name, 'package.json')),
];

checkNode();
const installed = step('installed', `${process.version} ${newest(manifests)}`, () => {
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  say('installing the dependencies (the first time takes about a minute)');
  run('npx', ['-y', packageManager, 'install', '--frozen-lockfile']);
});
step('built', `${installed} ${newest(['tsconfig.json', ...packages])}`, () => {
  say('building');
  run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-b']);
});

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`stevedore needs Node 20.19 or later; this is ${process.version}`);
  process.exit(1);
}

/** Runs `action` unless its stamp says that it ran for this very state. */
function step(name, state, action) {
  const stamp = join(stamps, name);
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== state) {
    action();
    mkdirSync(stamps, { recursive: true });
    writeFileSync(stamp, state);
  }
  return state;
}

/** Count and latest change of the files, folders walked without their output. */
function newest(paths) {
  let latest = 0;
  let count = 0;
  const walk = (path) => {
    const stat = statSync(join(root, path), { throwIfNoEntry: false });
    if (!stat) return;
    if (!stat.isDirectory()) {
      latest = Math.max(latest, stat.mtimeMs);
      count += 1;
      return;
    }
    for (const name of readdirSync(join(root, path))) {
      if (name !== 'node_modules' && name !== 'dist') walk(join(path, name));
    }
  };
  for (const path of paths) walk(path);
  return `${count}:${latest}`;
}

function list(folder) {
  return readdirSync(join(root, folder)).map((name) => join(folder, name));
}

function run(command, args) {
  // What it prints goes to stderr, so that the output of what follows stays clean.
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (error || status !== 0) {
    console.error(
      `stevedore: \`${command} ${args.join(' ')}\` failed${error ? `: ${error.message}` : ''}`,
    );
    process.exit(1);
  }
}

function say(text) {
  console.error(`stevedore: ${text}`);
}
