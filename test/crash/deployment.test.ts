import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BadLink, type LinkState } from '../support/bad-link.js';
import { Daemon, freePorts } from '../support/kills/cluster.js';
import { needsPostgres, PostgresServer } from '../support/map/postgres-server.js';
import { Random } from '../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/crash-sample.js';
import { identityOf, storedTimes } from '../support/stored-twice.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Two gateways, a tracker, two storages and PostgreSQL under load, each a process that is killed or
 * stopped for a while, and links between them that drop, stall or cut what passes. What one gateway
 * has acknowledged is never "not found" at the other one, its bytes are never others, what is deleted
 * stays so, and in the end all of it is at both and in one trunk only. STEVEDORE_TEST_CRASH_SHARE
 * says for how long, STEVEDORE_TEST_SEED which troubles.
 */

const RUN_MS = 120_000 * CRASH_SHARE;
/** A run that does next to nothing proves nothing. */
const LEAST = RUN_MS / 60_000;
const LOADERS = 4;
const REQUEST_TIMEOUT_MS = 15_000;
/** Of all troubles, those of a link between two processes. */
const LINK_SHARE = 0.4;
const SETTLE_MS = 90_000;
/** For what is stored twice for a moment: a search for orphans, and the deletion of emptied trunks. */
const UNIQUE_MS = 120_000;
const LIMITS = ['--trunk-size', '1MiB', '--small-file-limit', '128KiB', '--merge-max-age', '300ms'];

interface Kept {
  readonly key: string;
  readonly digest: string;
  readonly identity: string;
  state: 'there' | 'deleting' | 'deleted';
}

const digestOf = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

async function deployment() {
  const folder = temporaryFolder();
  const database = await PostgresServer.start();
  const ports = await freePorts(4);
  const [tracker, one, first, second] = ports.map(String) as string[];
  const urls = [first, second].map((port) => `http://127.0.0.1:${port}`);
  const trackers = `127.0.0.1:${tracker}`;
  // Each gateway has ways of its own to everything it needs.
  const links = new Map<string, BadLink>();
  const linkTo = async (name: string, port: number): Promise<number> => {
    const link = await BadLink.to(port);
    onTestFinished(() => link.close());
    links.set(name, link);
    return link.port;
  };
  const storage = (name: string, host: string, port: string) => () => [
    ...['storage', '--host', host, '--port', port, '--trackers', trackers],
    ...['--store-paths', join(folder, name)],
  ];
  const gateway = async (name: string, port: string) => {
    const peer = await linkTo(`the way to ${name}`, Number(port));
    const map = await linkTo(`the way of ${name} to PostgreSQL`, database.port);
    const trackerLink = await linkTo(`the way of ${name} to the tracker`, Number(tracker));
    return () => [
      ...['gateway', '--directory', join(folder, name), '--port', port, '--id-max-age', '0'],
      ...['--peer-url', `http://127.0.0.1:${peer}`, '--trackers', `127.0.0.1:${trackerLink}`],
      ...['--map', database.url.replace(String(database.port), String(map)), ...LIMITS],
    ];
  };
  // Storages of one group listen at one port.
  const daemons = new Map([
    ['tracker', new Daemon(folder, () => ['tracker', '--port', tracker!])],
    ['storage 1', new Daemon(folder, storage('s1', '127.0.0.1', one!))],
    ['storage 2', new Daemon(folder, storage('s2', '127.0.0.2', one!))],
    ['gateway 1', new Daemon(folder, await gateway('g1', first!))],
    ['gateway 2', new Daemon(folder, await gateway('g2', second!))],
  ]);
  onTestFinished(async () => {
    for (const daemon of daemons.values()) {
      daemon.signal('SIGCONT');
      await daemon.kill();
    }
  });
  for (const daemon of daemons.values()) {
    daemon.start();
    await daemon.ready();
  }
  const storePaths = ['s1', 's2'].map((name) => join(folder, name));
  return { database, daemons, links, urls, storePaths };
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

async function inLanes<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const lane = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: 2 * LOADERS }, lane));
}

describe.skipIf(needsPostgres.missing)('a deployment under kills', () => {
  test('loses, alters and denies no acknowledged file, and brings no deleted one back', {
    timeout: RUN_MS + SETTLE_MS + UNIQUE_MS + 120_000,
  }, async () => {
    const random = new Random(SEED);
    const { database, daemons, links, urls, storePaths } = await deployment();
    const files: Kept[] = [];
    const findings: string[] = [];
    const counts = { uploads: 0, reads: 0, deletions: 0, readAfterDeletion: 0, refused: 0 };
    const troubles: string[] = [];
    const end = performance.now() + RUN_MS;

    const read = async (url: string, file: Kept): Promise<boolean> => {
      const before = file.state;
      const answer = await ask(`${url}/files/${file.key}`);
      if (answer?.status === 200) {
        if (digestOf(answer.body) !== file.digest) findings.push(`${file.key}: other bytes`);
        return true;
      }
      if (answer?.status === 404 && before === 'there' && file.state === 'there') {
        findings.push(`${file.key}: 404 at ${url}`);
      }
      counts.refused += 1;
      return false;
    };
    /** What is deleted is gone within a second of the answer, wherever the map can be asked. */
    const readDeleted = async (): Promise<void> => {
      const gone = random.pick(files.length > 0 ? files : [undefined]);
      if (gone?.state !== 'deleted') return;
      const answer = await ask(`${urls[random.below(2)]}/files/${gone.key}`);
      if (answer?.status === 200 && digestOf(answer.body) !== gone.digest) {
        findings.push(`${gone.key}: deleted, and other bytes`);
      }
      if (answer?.status === 200) counts.readAfterDeletion += 1;
    };
    const load = async (): Promise<void> => {
      while (performance.now() < end) {
        const at = random.below(2);
        const content = randomBytes(1 + random.below(60_000));
        const made = await ask(`${urls[at]}/files`, { method: 'POST', body: content });
        if (made?.status === 201) {
          const { key } = JSON.parse(made.body.toString()) as { key: string };
          const identity = identityOf(crc32(content), content.length);
          files.push({ key, digest: digestOf(content), identity, state: 'there' });
          counts.uploads += 1;
        }
        for (let turn = 0; turn < 4 && files.length > 0; turn += 1) {
          const file = random.pick(files);
          const where = urls[random.below(2)]!;
          if (file.state === 'there' && (await read(where, file))) counts.reads += 1;
        }
        await readDeleted();
        const doomed =
          random.next() < 0.3 ? random.pick(files.length > 0 ? files : [undefined]) : undefined;
        if (doomed?.state === 'there') {
          doomed.state = 'deleting';
          const answer = await ask(`${urls[random.below(2)]}/files/${doomed.key}`, {
            method: 'DELETE',
          });
          if (answer?.status === 204) {
            doomed.state = 'deleted';
            counts.deletions += 1;
          }
        }
        await sleep(5);
      }
    };
    const trouble = async (): Promise<void> => {
      while (performance.now() < end) {
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
        const target = name === 'postgres' ? database : daemons.get(name)!;
        if (random.next() < 0.5) {
          target.signal('SIGSTOP');
          await sleep(500 + random.below(2500));
          target.signal('SIGCONT');
        } else if (target === database) {
          await database.kill();
          await sleep(random.below(2000));
          await database.restart();
        } else {
          const daemon = target as Daemon;
          await daemon.kill();
          await sleep(random.below(2000));
          daemon.start();
          await daemon.ready();
        }
      }
    };
    await Promise.all([trouble(), ...Array.from({ length: LOADERS }, load)]);

    // With everything back, each file is at both gateways, and what was deleted is at none.
    const settled = performance.now() + SETTLE_MS;
    await inLanes(files, async (file) => {
      for (const url of urls) {
        for (;;) {
          const answer = await ask(`${url}/files/${file.key}`);
          const isGone = answer?.status === 404;
          const isThere = answer?.status === 200 && digestOf(answer.body) === file.digest;
          const isRight = file.state === 'there' ? isThere : isGone;
          if (isRight || (file.state === 'deleting' && isThere)) break;
          if (performance.now() > settled) {
            findings.push(`${file.key}, ${file.state}: ${answer?.status} at ${url} in the end`);
            break;
          }
          await sleep(100);
        }
      }
    });
    // A trunk whose confirmation was lost is found and deleted, and an emptied one too.
    const twice = (): string[] =>
      storePaths.flatMap((path) => {
        const times = storedTimes(path);
        const living = files.filter(({ state }) => state === 'there');
        return living
          .filter(({ identity }) => (times.get(identity) ?? 0) > 1)
          .map(({ key }) => `${key}: in several trunks of ${path}`);
      });
    const unique = performance.now() + UNIQUE_MS;
    while (twice().length > 0 && performance.now() < unique) await sleep(2000);
    findings.push(...twice().slice(0, 10));
    const merged = storedTimes(storePaths[0]!).size;
    console.log(JSON.stringify({ ...counts, troubles: troubles.length, merged }), `seed ${SEED}`);
    const last = [...daemons].map(([name, daemon]) => `${name}: ${daemon.lastLines()}`).join('\n');
    expect(findings, `seed ${SEED}\n${troubles.slice(-40).join(', ')}\n${last}`).toEqual([]);
    expect(counts.uploads).toBeGreaterThan(100 * LEAST);
    expect(counts.reads).toBeGreaterThan(100 * LEAST);
    expect(counts.deletions).toBeGreaterThan(10 * LEAST);
    expect(troubles.length).toBeGreaterThan(8 * LEAST);
    expect(merged).toBeGreaterThan(20 * LEAST);
  });
});
