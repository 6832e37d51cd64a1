import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { openDatabase } from '@stevedore/disk/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { COMMAND } from '../support/gateway-process.js';
import { Daemon, freePorts } from '../support/kills/cluster.js';
import { Random } from '../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/crash-sample.js';
import { identityOf, storedTimes } from '../support/stored-twice.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Staged copies under load: gateway and partner are killed, stopped and started again, and in the
 * end the gateway is killed for good and its disk removed. The partner adopts its files. What was
 * acknowledged is there, byte for byte; what was deleted is not; no file stays in two trunks.
 */

const RUN_MS = 140_000 * CRASH_SHARE;
/** A run that does next to nothing proves nothing. */
const LEAST = RUN_MS / 35_000;
const LOADERS = 6;
const REQUEST_TIMEOUT_MS = 15_000;
const SETTLE_MS = 60_000;
/** A trunk whose confirmation was lost is found and deleted, and one that was emptied. */
const UNIQUE_MS = 120_000;
const LIMITS = ['--trunk-size', '1MiB', '--small-file-limit', '128KiB', '--merge-max-age', '700ms'];

interface Kept {
  readonly key: string;
  readonly digest: string;
  readonly identity: string;
  state: 'there' | 'deleting' | 'deleted';
}

const digestOf = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

async function cluster() {
  const folder = temporaryFolder();
  const ports = (await freePorts(4)).map(String);
  const [tracker, storage, ...gateways] = ports as [string, string, string, string];
  const trackers = `127.0.0.1:${tracker}`;
  const map = `sqlite:${join(folder, 'map.db')}`;
  const [url, partnerUrl] = gateways.map((port) => `http://127.0.0.1:${port}`) as [string, string];
  const gateway = (name: string, port: string, peer: string, ...more: string[]) =>
    new Daemon(folder, () => [
      ...['gateway', '--directory', join(folder, name), '--port', port, '--peer-url', peer],
      ...['--trackers', trackers, '--map', map, ...LIMITS, '--id-max-age', '0', ...more],
    ]);
  const daemons = {
    tracker: new Daemon(folder, () => ['tracker', '--port', tracker]),
    storage: new Daemon(folder, () => [
      ...['storage', '--port', storage, '--trackers', trackers],
      ...['--store-paths', join(folder, 's1')],
    ]),
    partner: gateway('g2', gateways[1]!, partnerUrl, '--workers', '2'),
    first: gateway('g1', gateways[0]!, url, '--staged-copies', '2', '--partner', partnerUrl),
  };
  onTestFinished(async () => {
    for (const daemon of Object.values(daemons)) {
      daemon.signal('SIGCONT');
      await daemon.kill();
    }
  });
  for (const daemon of Object.values(daemons)) {
    daemon.start();
    await daemon.ready();
  }
  return { folder, map, daemons, url, partnerUrl };
}

async function ask(url: string, init: RequestInit = {}) {
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const response = await fetch(url, { ...init, signal });
    return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
  } catch {
    return undefined;
  }
}

async function originOfGateway(map: string, url: string): Promise<number> {
  const database = openDatabase(map.slice('sqlite:'.length));
  try {
    const row = database.prepare('SELECT origin FROM stevedore_gateway WHERE url = ?').get(url);
    return (row as { origin: number }).origin;
  } finally {
    database.close();
  }
}

/** As if it had been away for long. */
function forgetThatItWasSeen(map: string, origin: number): void {
  const database = openDatabase(map.slice('sqlite:'.length));
  database.prepare('UPDATE stevedore_gateway SET seen_at = 1 WHERE origin = ?').run(origin);
  database.close();
}

test('the files of a gateway whose disk is gone are at its partner, each once', {
  timeout: RUN_MS + SETTLE_MS + UNIQUE_MS + 90_000,
}, async () => {
  const random = new Random(SEED);
  const { folder, map, daemons, url, partnerUrl } = await cluster();
  const files: Kept[] = [];
  const counts = { uploads: 0, large: 0, deletions: 0, refused: 0, troubles: 0, heldReads: 0 };
  let isOver = false;

  const load = async (): Promise<void> => {
    while (!isOver) {
      const isLarge = random.next() < 0.02;
      const size = isLarge ? 200_000 + random.below(400_000) : 1 + random.below(40_000);
      const content = randomBytes(size);
      const made = await ask(`${url}/files`, { method: 'POST', body: content });
      if (made?.status === 201) {
        const { key } = JSON.parse(made.body.toString()) as { key: string };
        const identity = identityOf(crc32(content), content.length);
        files.push({ key, digest: digestOf(content), identity, state: 'there' });
        counts.uploads += 1;
        if (isLarge) counts.large += 1;
      } else {
        counts.refused += 1;
        await sleep(50);
      }
      const doomed = files.length > 0 && random.next() < 0.15 ? random.pick(files) : undefined;
      if (doomed?.state !== 'there') continue;
      doomed.state = 'deleting';
      const answer = await ask(`${url}/files/${doomed.key}`, { method: 'DELETE' });
      if (answer?.status !== 204) continue;
      doomed.state = 'deleted';
      counts.deletions += 1;
    }
  };
  const trouble = async (): Promise<void> => {
    const end = performance.now() + RUN_MS;
    while (performance.now() < end) {
      await sleep(1_000 + random.below(2_000));
      counts.troubles += 1;
      const daemon = random.next() < 0.5 ? daemons.partner : daemons.first;
      if (random.next() < 0.3) {
        daemon.signal('SIGSTOP');
        await sleep(200 + random.below(1_500));
        daemon.signal('SIGCONT');
      } else {
        await daemon.kill();
        await sleep(random.below(500));
        daemon.start();
        await daemon.ready();
      }
    }
    // Some more uploads, and then the end comes in the middle of them.
    const enough = files.length + 150;
    const latest = performance.now() + 20_000;
    while (files.length < enough && performance.now() < latest) await sleep(10);
    await daemons.first.kill();
    rmSync(join(folder, 'g1'), { recursive: true });
    isOver = true;
  };
  await Promise.all([trouble(), ...Array.from({ length: LOADERS }, load)]);

  // Until it is adopted, the partner serves what it holds.
  for (const file of files.filter(({ state }) => state === 'there').slice(-40)) {
    const answer = await ask(`${partnerUrl}/files/${file.key}`);
    if (answer?.status !== 200) expect(answer?.status, 'before the adoption').not.toBe(404);
    else if (digestOf(answer.body) === file.digest) counts.heldReads += 1;
  }
  const origin = await originOfGateway(map, url);
  forgetThatItWasSeen(map, origin);
  const adopt = ['adopt', String(origin), '--map', map];
  const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, ...adopt]);
  console.log(stdout.trim(), JSON.stringify(counts), `seed ${SEED}`);

  const findings: string[] = [];
  const settled = performance.now() + SETTLE_MS;
  for (const { key, digest, state } of files) {
    let answer = await ask(`${partnerUrl}/files/${key}`);
    // The other worker hears a little later that the files are adopted.
    while (answer?.status === 503 && performance.now() < settled) {
      await sleep(100);
      answer = await ask(`${partnerUrl}/files/${key}`);
    }
    const isThere = answer?.status === 200 && digestOf(answer.body) === digest;
    const isGone = answer?.status === 404;
    const isRight = state === 'there' ? isThere : state === 'deleted' ? isGone : isThere || isGone;
    if (!isRight) findings.push(`${key}, ${state}: ${answer?.status}`);
    if (performance.now() > settled) findings.push('not all could be asked for in time');
    if (findings.length > 20 || performance.now() > settled) break;
  }
  const last = Object.entries(daemons).map(([name, daemon]) => `${name}: ${daemon.lastLines()}`);
  expect(findings, `seed ${SEED}\n${last.join('\n')}`).toEqual([]);

  // All of it is merged, and no file is in two trunks.
  const staged = async () => {
    const { body } = (await ask(`${partnerUrl}/metrics`))!;
    return Number(/^stevedore_staged_files (\d+)/m.exec(body.toString())?.[1]);
  };
  while ((await staged()) > 0 && performance.now() < settled) await sleep(100);
  expect(await staged()).toBe(0);
  const twice = (): string[] => {
    const times = storedTimes(join(folder, 's1'));
    return files.filter(({ identity }) => (times.get(identity) ?? 0) > 1).map(({ key }) => key);
  };
  const unique = performance.now() + UNIQUE_MS;
  while (twice().length > 0 && performance.now() < unique) await sleep(1000);
  expect(twice(), `seed ${SEED}`).toEqual([]);
  expect(counts.uploads).toBeGreaterThan(100 * LEAST);
  expect(counts.deletions).toBeGreaterThan(5 * LEAST);
  expect(counts.troubles).toBeGreaterThan(2 * LEAST);
  expect(counts.heldReads).toBeGreaterThan(0);
});
