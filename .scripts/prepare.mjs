/**
 * Installs and builds the workspace when something has changed since the last
 * time; needs nothing but Node. `npm start`, `npm test` and `npm run bench` call
 * it first, so its check of what is up to date takes milliseconds.
 */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LAST_TRIED_NODE = 26;
/** Of a step that failed. */
const LAST_LINES = 20;
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
const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const installed = step('installed', newest(manifests), () => {
  say('installing the dependencies (the first time takes about a minute)');
  run('npx', ['-y', packageManager, 'install', '--frozen-lockfile']);
});
step('compiled', `${process.versions.modules} ${installed}`, () => {
  if (loadsSqlite()) return;
  say(`compiling SQLite for Node ${process.version}`);
  run('npx', ['-y', packageManager, '--recursive', 'rebuild', 'better-sqlite3']);
});
step('built', `${installed} ${newest(['tsconfig.json', ...packages])}`, () => {
  say('building');
  run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-b']);
});

/** False after a change of Node: an installation does not compile anew what is there. */
function loadsSqlite() {
  const script = "new (require('better-sqlite3'))(':memory:')";
  const cwd = join(root, 'packages', 'disk');
  return spawnSync(process.execPath, ['-e', script], { cwd, stdio: 'ignore' }).status === 0;
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > LAST_TRIED_NODE)
    say(`this is Node ${process.version}; 20.19 to ${LAST_TRIED_NODE} are tried`);
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

/** What it prints goes into a file, which is there after a failure only. */
function run(command, args) {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  const log = join(folder, 'log');
  const output = openSync(log, 'w');
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', output, output],
    shell: process.platform === 'win32',
  });
  closeSync(output);
  if (error || status !== 0) {
    const lines = readFileSync(log, 'utf8').trimEnd().split('\n');
    // The folder of a machine of CI is gone before anybody looks.
    console.error((process.env.CI ? lines : lines.slice(-LAST_LINES)).join('\n'));
    say(`\`${command} ${args.join(' ')}\` failed${error ? `: ${error.message}` : ''}; see ${log}`);
    process.exit(1);
  }
  rmSync(folder, { recursive: true });
}

function say(text) {
  console.error(`stevedore: ${text}`);
}
