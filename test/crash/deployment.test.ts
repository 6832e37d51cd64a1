import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BadLink, type LinkState } from '../support/bad-link.js';
import { freePorts, lastLinesOf, startDaemons } from '../support/kills/daemon.js';
import { DeployedLoad, trouble } from '../support/kills/load.js';
import { needsPostgres, PostgresServer } from '../support/map/postgres-server.js';
import { Random } from '../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';
import { storedTimes } from '../support/stored-twice.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Two gateways, a tracker, two storages and PostgreSQL under load, each a process that is killed or
 * stopped for a while, and links between them that drop, stall or cut what passes. What one gateway
 * has acknowledged is never "not found" at the other one, its bytes are never others, what is deleted
 * stays so, and in the end all of it is at both and in one trunk only.
 */

const RUN_MS = 120_000 * CRASH_SHARE;
/** A run that does next to nothing proves nothing. */
const LEAST = RUN_MS / 60_000;
/** Of all troubles, those of a link between two processes. */
const LINK_SHARE = 0.4;
const SETTLE_MS = 180_000;
const UNIQUE_MS = 240_000;
const LIMITS = ['--trunk-size', '1MiB', '--small-file-limit', '128KiB', '--merge-max-age', '300ms'];

async function deployment() {
  const folder = temporaryFolder();
  const database = await PostgresServer.start();
  const ports = (await freePorts(4)).map(String);
  const [tracker, storagePort, first, second] = ports as [string, string, string, string];
  const trackers = `127.0.0.1:${tracker}`;
  // Each gateway has ways of its own to everything it needs.
  const links = new Map<string, BadLink>();
  const linkTo = async (name: string, port: number): Promise<number> => {
    const link = await BadLink.to(port);
    onTestFinished(() => link.close());
    links.set(name, link);
    return link.port;
  };
  // Storages of one group listen at one port.
  const storage = (name: string, host: string) => [
    ...['storage', '--host', host, '--port', storagePort, '--trackers', trackers],
    ...['--store-paths', join(folder, name)],
  ];
  const gateway = async (name: string, port: string) => {
    const peer = await linkTo(`the way to ${name}`, Number(port));
    const map = await linkTo(`the way of ${name} to PostgreSQL`, database.port);
    const trackerLink = await linkTo(`the way of ${name} to the tracker`, Number(tracker));
    return [
      ...['gateway', '--directory', join(folder, name), '--port', port, '--id-max-age', '0'],
      ...['--peer-url', `http://127.0.0.1:${peer}`, '--trackers', `127.0.0.1:${trackerLink}`],
      ...['--map', database.url.replace(String(database.port), String(map)), ...LIMITS],
    ];
  };
  const daemons = await startDaemons(folder, {
    tracker: ['tracker', '--port', tracker],
    'storage 1': storage('s1', '127.0.0.1'),
    'storage 2': storage('s2', '127.0.0.2'),
    'gateway 1': await gateway('g1', first),
    'gateway 2': await gateway('g2', second),
  });
  const urls = [first, second].map((port) => `http://127.0.0.1:${port}`);
  return { database, daemons, links, urls, storePaths: ['s1', 's2'].map((s) => join(folder, s)) };
}

describe.skipIf(needsPostgres.missing)('a deployment under kills', () => {
  test('loses, alters and denies no acknowledged file, and brings no deleted one back', {
    timeout: RUN_MS + SETTLE_MS + UNIQUE_MS + 300_000,
  }, async () => {
    const random = new Random(SEED);
    const { database, daemons, links, urls, storePaths } = await deployment();
    const load = new DeployedLoad(urls, random, {
      ...{ lanes: 8, weights: { upload: 10, read: 40, delete: 3 } },
      ...{ maxBytes: 60_000, largeShare: 0, largeBytes: 2 ** 20 },
    });
    load.begin();
    const troubles: string[] = [];
    const { counts, findings } = load;
    const isEnough = (): boolean =>
      counts.uploads > 100 * LEAST &&
      counts.reads > 100 * LEAST &&
      counts.deletions > 10 * LEAST &&
      troubles.length > 8 * LEAST &&
      storedTimes(storePaths[0]!).size > 20 * LEAST;
    const end = performance.now() + RUN_MS;
    // On a busy machine the same takes longer.
    while (performance.now() < end || !isEnough()) {
      await sleep(1000 + random.below(1500));
      if (random.next() < LINK_SHARE) {
        const [name, link] = random.pick([...links]);
        const state = random.pick<LinkState>(['dropped', 'stalled', 'halved']);
        troubles.push(`${name} ${state}`);
        link.set(state);
        await sleep(500 + random.below(2500));
        link.set('open');
        continue;
      }
      const name = random.pick(['postgres', ...daemons.keys()]);
      troubles.push(name);
      await trouble(daemons.get(name) ?? database, random, { stops: 0.5, maxMs: 2500 });
    }
    await load.stop();

    // With everything back, each file is at both gateways, and what was deleted is at none.
    await load.compare(urls, SETTLE_MS);
    for (const key of await load.storedTwice(storePaths, UNIQUE_MS)) {
      findings.push(`${key}: in several trunks of a store path`);
    }
    const merged = storedTimes(storePaths[0]!).size;
    console.log(JSON.stringify({ ...counts, troubles: troubles.length, merged }), `seed ${SEED}`);
    expect(
      findings,
      `seed ${SEED}\n${troubles.slice(-40).join(', ')}\n${lastLinesOf(daemons)}`,
    ).toEqual([]);
  });
});
