import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { needsPostgres, PostgresServer } from '../map/postgres-server.js';
import { Daemon, freePorts } from '../support/kill-cluster.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Two gateways, a tracker, two storages and PostgreSQL, each a process that is killed or
 * stopped for a while under load. What one gateway has acknowledged is never "not found" at
 * the other one, its bytes are never others, and in the end all of it is at both.
 */

const RUN_MS = 60_000;
const LOADERS = 4;
const REQUEST_TIMEOUT_MS = 15_000;
const SETTLE_MS = 90_000;
const LIMITS = ['--trunk-size', '1MiB', '--small-file-limit', '128KiB', '--merge-max-age', '300ms'];

interface Kept {
  readonly key: string;
  readonly digest: string;
  state: 'there' | 'deleting' | 'deleted';
}

const digestOf = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

async function deployment() {
  const folder = temporaryFolder();
  const database = await PostgresServer.start();
  const ports = await freePorts(5);
  const [tracker, one, other, first, second] = ports.map(String) as string[];
  const urls = [first, second].map((port) => `http://127.0.0.1:${port}`);
  const trackers = `127.0.0.1:${tracker}`;
  const storage = (name: string, host: string, port: string) => () => [
    ...['storage', '--host', host, '--port', port, '--trackers', trackers],
    ...['--store-paths', join(folder, name)],
  ];
  const gateway = (name: string, port: string, url: string) => () => [
    ...['gateway', '--directory', join(folder, name), '--port', port, '--peer-url', url],
    ...['--trackers', trackers, '--map', database.url, ...LIMITS],
  ];
  // Storages of one group listen at one port.
  const daemons = new Map([
    ['tracker', new Daemon(folder, () => ['tracker', '--port', tracker!])],
    ['storage 1', new Daemon(folder, storage('s1', '127.0.0.1', one!))],
    ['storage 2', new Daemon(folder, storage('s2', '127.0.0.2', one!))],
    ['gateway 1', new Daemon(folder, gateway('g1', first!, urls[0]!))],
    ['gateway 2', new Daemon(folder, gateway('g2', second!, urls[1]!))],
  ]);
  expect(other).toBeTruthy();
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
  return { database, daemons, urls };
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

describe.skipIf(needsPostgres.missing)('a deployment under kills', () => {
  test('loses, alters and denies no acknowledged file, and brings no deleted one back', {
    timeout: RUN_MS + SETTLE_MS + 120_000,
  }, async () => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    const random = new Random(seed);
    const { database, daemons, urls } = await deployment();
    const files: Kept[] = [];
    const findings: string[] = [];
    const counts = { uploads: 0, foreignReads: 0, deletions: 0, troubles: 0, refused: 0 };
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
    const load = async (): Promise<void> => {
      while (performance.now() < end) {
        const at = random.below(2);
        const content = randomBytes(1 + random.below(60_000));
        const made = await ask(`${urls[at]}/files`, { method: 'POST', body: content });
        if (made?.status === 201) {
          const { key } = JSON.parse(made.body.toString()) as { key: string };
          files.push({ key, digest: digestOf(content), state: 'there' });
          counts.uploads += 1;
        }
        for (let turn = 0; turn < 4 && files.length > 0; turn += 1) {
          const file = random.pick(files);
          const where = urls[random.below(2)]!;
          if (file.state === 'there' && (await read(where, file))) counts.foreignReads += 1;
        }
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
        const name = random.pick(['postgres', ...daemons.keys()]);
        const target = name === 'postgres' ? database : daemons.get(name)!;
        counts.troubles += 1;
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
    for (const file of files) {
      for (const url of urls) {
        for (;;) {
          const answer = await ask(`${url}/files/${file.key}`);
          const isRight =
            file.state === 'deleted'
              ? answer?.status === 404
              : file.state === 'deleting'
                ? answer?.status === 404 || answer?.status === 200
                : answer?.status === 200 && digestOf(answer.body) === file.digest;
          if (isRight) break;
          if (performance.now() > settled) {
            findings.push(`${file.key}, ${file.state}: ${answer?.status} at ${url} in the end`);
            break;
          }
          await sleep(100);
        }
      }
      if (findings.length > 20) break;
    }
    console.log(JSON.stringify(counts), `seed ${seed}`);
    const last = [...daemons].map(([name, daemon]) => `${name}: ${daemon.lastLines()}`).join('\n');
    expect(findings, `seed ${seed}\n${last}`).toEqual([]);
    expect(counts.uploads).toBeGreaterThan(100);
    expect(counts.foreignReads).toBeGreaterThan(100);
    expect(counts.deletions).toBeGreaterThan(10);
    expect(counts.troubles).toBeGreaterThan(8);
  });
});
