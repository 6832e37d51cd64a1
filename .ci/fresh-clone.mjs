/**
 * Starts the product as a new user does: a fresh clone, `npm start`, an upload, a
 * download; then once more, which has to be ready at once because nothing is left
 * to set up. The folder is the first argument.
 */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const SECOND_START_MS = 3_000;
const clone = join(process.argv[2], 'stevedore');
const cloned = spawnSync(
  'git',
  ['clone', '--quiet', '--depth', '1', `file://${process.cwd()}`, clone],
  {
    stdio: 'inherit',
  },
);
if (cloned.status !== 0) process.exit(1);

const first = await start();
console.log(`first start: ready after ${(first.elapsedMs / 1000).toFixed(1)} s`);
const text = 'hello from a fresh clone';
const uploaded = await fetch(`${first.url}/files`, { method: 'POST', body: text });
const { key } = await uploaded.json();
await first.stop();

const second = await start();
console.log(`second start: ready after ${(second.elapsedMs / 1000).toFixed(1)} s`);
const downloaded = await (await fetch(`${second.url}/files/${key}`)).text();
await second.stop();
if (downloaded !== text) fail(`the upload came back as "${downloaded}"`);
const met = second.elapsedMs <= SECOND_START_MS ? 'met' : 'not met';
console.log(`goal: the second start within ${SECOND_START_MS / 1000} s, ${met}`);

async function start() {
  const began = performance.now();
  const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
  const child = spawn('npm', ['start', '--', ...ports], {
    cwd: clone,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // Closed when nobody has its output any more: the gateway is gone as well.
  const closed = new Promise((resolve) => child.once('close', resolve));
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.startsWith('ready ')) resolve(line.slice(6));
    });
    closed.then((code) => reject(new Error(`npm start ended with code ${code}`)));
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await closed;
  };
  return { url, elapsedMs: performance.now() - began, stop };
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
