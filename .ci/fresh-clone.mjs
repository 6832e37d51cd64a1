/**
 * Starts the product as a new user does: a fresh clone, `npm start`, an upload, a
 * download; then once more, which has to be ready at once because nothing is left
 * to set up; then with each later Node, which has SQLite to compile and nothing else; and
 * with some of them what `npm install` makes of the packed packages in a folder of its own.
 * The folder is the first argument.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';

const SECOND_START_MS = 3_000;
/** What npm says, a line for each step, and the gateway's own. */
const MAX_LINES = 20;
const LATER_NODES = [22, 24, 26];
/** Of them, those with which the packed packages are installed, too. */
const INSTALLED_NODES = [24, 26];
const [, , folder] = process.argv;
const clone = join(folder, 'stevedore');
const source = `file://${process.cwd()}`;
must('git', ['clone', '--quiet', '--depth', '1', source, clone]);

const text = 'hello from a fresh clone';
const first = await start(clone);
console.log(`first start: ready after ${seconds(first)} s, ${first.lines.length} lines`);
if (first.lines.length > MAX_LINES) fail(first.lines.join('\n'));
const uploaded = await fetch(`${first.url}/files`, { method: 'POST', body: text });
const { key } = await uploaded.json();
await first.stop();

const second = await start(clone);
console.log(`second start: ready after ${seconds(second)} s`);
await readAndStop(second);
const met = second.elapsedMs <= SECOND_START_MS ? 'met' : 'not met';
console.log(`goal: the second start within ${SECOND_START_MS / 1000} s, ${met}`);

must('npm', ['run', '--silent', 'packages'], { cwd: clone });
const packed = join(clone, 'dist', 'packages');
const archives = readdirSync(packed).map((name) => join(packed, name));

// At once, each in a copy of the folder: compiling SQLite takes one core for a minute or more.
const ended = await Promise.allSettled(LATER_NODES.map(startLater));
for (const { reason } of ended) if (reason) fail(String(reason));

async function startLater(major) {
  const home = unpackNode(major);
  if (home === undefined) {
    console.log(`skipped: Node ${major}, its package is not to be had here`);
    if (process.env.CI) process.exitCode = 1;
    return;
  }
  const copy = `${clone}-${major}`;
  must('cp', ['-a', clone, copy]);
  const environment = {
    PATH: join(home, 'bin') + delimiter + process.env.PATH,
    // Its headers; npm's own way to ask for them is another download.
    npm_config_nodedir: home,
    // Most of this step is the compiler's work, which nobody needs here.
    CFLAGS: '-O0',
    CXXFLAGS: '-O0',
  };
  const later = await start(copy, environment);
  console.log(`Node ${major}: ready after ${seconds(later)} s`);
  await readAndStop(later);
  if (INSTALLED_NODES.includes(major)) await installed(major, copy, environment);
}

/** The packages from `npm install`, with the SQLite that the copy has just compiled. */
async function installed(major, copy, environment) {
  const app = join(folder, `app-${major}`);
  mkdirSync(app);
  const env = { ...process.env, ...environment };
  must('npm', ['init', '-y', '--silent'], { cwd: app, env, stdio: 'ignore' });
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent'];
  must('npm', ['install', ...quiet, ...archives], { cwd: app, env });
  const built = 'node_modules/better-sqlite3/build';
  cpSync(join(copy, 'packages/disk', built), join(app, built), { recursive: true });
  const gateway = await start(app, environment, 'node_modules/.bin/stevedore', ['gateway']);
  const uploaded = await fetch(`${gateway.url}/files`, { method: 'POST', body: text });
  const answer = await uploaded.json();
  await readAndStop({ ...gateway, key: answer.key });
  console.log(`Node ${major}: what npm install gives stores and reads`);
}

/** The folder of a Node of that major version, from the package registry. */
function unpackNode(major) {
  const name = `node-${process.platform}-${process.arch}`;
  const packed = spawnSync(
    'npm',
    ['pack', '--silent', '--pack-destination', folder, `${name}@${major}`],
    { cwd: folder, stdio: 'ignore' },
  );
  const archive = readdirSync(folder).find((file) => file.startsWith(`${name}-${major}.`));
  if (packed.status !== 0 || archive === undefined) return undefined;
  const home = join(folder, `node-${major}`);
  must('mkdir', [home]);
  must('tar', ['-xzf', join(folder, archive), '-C', home, '--strip-components=1']);
  return home;
}

async function readAndStop({ url, stop, key: stored = key }) {
  const downloaded = await (await fetch(`${url}/files/${stored}`)).text();
  await stop();
  if (downloaded !== text) fail(`the upload came back as "${downloaded}"`);
}

async function start(cwd, environment = {}, command = 'npm', words = ['start', '--']) {
  const began = performance.now();
  const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
  const child = spawn(command, [...words, ...ports], {
    cwd,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines = [];
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  // Closed when nobody has its output any more: the gateway is gone as well.
  const closed = new Promise((resolve) => child.once('close', resolve));
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
    });
    closed.then((code) => {
      reject(new Error(`${command} ended with code ${code}:\n${lines.join('\n')}`));
    });
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await closed;
  };
  return { url, lines, elapsedMs: performance.now() - began, stop };
}

function seconds({ elapsedMs }) {
  return (elapsedMs / 1000).toFixed(1);
}

function must(command, args, options = {}) {
  if (spawnSync(command, args, { stdio: 'inherit', ...options }).status !== 0) process.exit(1);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
