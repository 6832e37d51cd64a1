import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openDatabase } from '@stevedore/disk/sqlite';
import { expect, test } from 'vitest';
import { COMMAND } from '../support/gateway-process.js';
import { freePorts, lastLinesOf, startDaemons } from '../support/kills/daemon.js';
import { ask, DeployedLoad, digestOf, trouble } from '../support/kills/load.js';
import { Random } from '../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Staged copies under load: gateway and partner are killed, stopped and started again, and in the
 * end the gateway is killed for good and its disk removed. The partner adopts its files. What was
 * acknowledged is there, byte for byte; what was deleted is not; no file stays in two trunks.
 */

const RUN_MS = 140_000 * CRASH_SHARE;
/** A run that does next to nothing proves nothing. */
const LEAST = RUN_MS / 35_000;
const SETTLE_MS = 60_000;
const UNIQUE_MS = 120_000;
const LIMITS = ['--trunk-size', '1MiB', '--small-file-limit', '128KiB', '--merge-max-age', '700ms'];

async function cluster() {
  const folder = temporaryFolder();
  const ports = (await freePorts(4)).map(String);
  const [tracker, storage, first, second] = ports as [string, string, string, string];
  const trackers = `127.0.0.1:${tracker}`;
  const map = `sqlite:${join(folder, 'map.db')}`;
  const urlOf = (port: string): string => `http://127.0.0.1:${port}`;
  const gateway = (name: string, port: string) => [
    ...['gateway', '--directory', join(folder, name), '--port', port, '--peer-url', urlOf(port)],
    ...['--trackers', trackers, '--map', map, ...LIMITS, '--id-max-age', '0'],
  ];
  const daemons = await startDaemons(folder, {
    tracker: ['tracker', '--port', tracker],
    storage: [
      ...['storage', '--port', storage, '--trackers', trackers],
      ...['--store-paths', join(folder, 's1')],
    ],
    partner: [...gateway('g2', second), '--workers', '2'],
    first: [...gateway('g1', first), '--staged-copies', '2', '--partner', urlOf(second)],
  });
  return { folder, map, daemons, url: urlOf(first), partnerUrl: urlOf(second) };
}

/** The gateway's origin, which counts as not seen for long. */
function forgetGateway(map: string, url: string): number {
  const database = openDatabase(map.slice('sqlite:'.length));
  const row = database.prepare('SELECT origin FROM stevedore_gateway WHERE url = ?').get(url);
  const { origin } = row as { origin: number };
  database.prepare('UPDATE stevedore_gateway SET seen_at = 1 WHERE origin = ?').run(origin);
  database.close();
  return origin;
}

test('the files of a gateway whose disk is gone are at its partner, each once', {
  timeout: RUN_MS + SETTLE_MS + UNIQUE_MS + 90_000,
}, async () => {
  const random = new Random(SEED);
  const { folder, map, daemons, url, partnerUrl } = await cluster();
  const load = new DeployedLoad([url], random, {
    ...{ lanes: 6, weights: { upload: 20, read: 80, delete: 3 } },
    ...{ maxBytes: 40_000, largeShare: 0.02, largeBytes: 200_000 },
  });
  load.begin();
  const { files, counts } = load;
  const end = performance.now() + RUN_MS;
  let troubles = 0;
  while (performance.now() < end) {
    await sleep(1_000 + random.below(2_000));
    troubles += 1;
    const daemon = daemons.get(random.pick(['partner', 'first']))!;
    await trouble(daemon, random, { stops: 0.3, maxMs: 1_500 });
  }
  // Some more uploads, and then the end comes in the middle of them.
  const enough = files.length + 150;
  const latest = performance.now() + 20_000;
  while (files.length < enough && performance.now() < latest) await sleep(10);
  await daemons.get('first')!.kill();
  rmSync(join(folder, 'g1'), { recursive: true });
  await load.stop();

  // Until it is adopted, the partner serves what it holds.
  let heldReads = 0;
  for (const file of files.filter(({ state }) => state === 'there').slice(-40)) {
    const answer = await ask(`${partnerUrl}/files/${file.key}`);
    if (answer?.status !== 200) expect(answer?.status, 'before the adoption').not.toBe(404);
    else if (digestOf(answer.body) === file.digest) heldReads += 1;
  }
  const adopt = ['adopt', String(forgetGateway(map, url)), '--map', map, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, ...adopt]).catch(
    // It names files that it could not take over.
    (error: Error & { readonly stdout: string; readonly stderr: string }) => {
      if (error.stdout === '') throw error;
      return error;
    },
  );
  console.log(stdout.trim(), JSON.stringify({ ...counts, troubles, heldReads }), `seed ${SEED}`);
  const { lostFiles } = JSON.parse(stdout) as { readonly lostFiles: readonly { key: string }[] };
  const states = new Map(files.map(({ key, state }) => [key, state]));
  const lost = lostFiles.map(({ key }) => [key, states.get(key) ?? 'not acknowledged'] as const);
  if (lost.length > 0) console.log(JSON.stringify(lost));
  expect(lost.filter(([, state]) => state === 'there')).toEqual([]);

  const settled = performance.now() + SETTLE_MS;
  await load.compare([partnerUrl], SETTLE_MS);
  expect(load.findings, `seed ${SEED}\n${lastLinesOf(daemons)}`).toEqual([]);

  // All of it is merged, and no file is in two trunks.
  const staged = async () => {
    const { body } = (await ask(`${partnerUrl}/metrics`))!;
    return Number(/^stevedore_staged_files (\d+)/m.exec(body.toString())?.[1]);
  };
  while ((await staged()) > 0 && performance.now() < settled) await sleep(100);
  expect(await staged()).toBe(0);
  expect(await load.storedTwice([join(folder, 's1')], UNIQUE_MS), `seed ${SEED}`).toEqual([]);
  expect(counts.uploads).toBeGreaterThan(100 * LEAST);
  expect(counts.deletions).toBeGreaterThan(5 * LEAST);
  expect(troubles).toBeGreaterThan(2 * LEAST);
  expect(heldReads).toBeGreaterThan(0);
});
