import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import type { Agent } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openDatabase } from '@stevedore/disk/sqlite';
import { startGateway } from '@stevedore/gateway';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { deployedGateway } from '../../support/deployment.js';
import { type Ask, ask, connections } from '../../support/gateway/workers/asking.js';
import { COMMAND } from '../../support/gateway-process.js';
import { type Daemon, daemonsIn, freePorts } from '../../support/kills/daemon.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { soon } from '../../support/soon.js';
import { plainGateway } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Staged files of a gateway that was killed, at the others: three gateways, one of two workers. */

vi.setConfig({ testTimeout: 240_000 });

const FILES = 10;
const WORKERS = 2;

interface Server {
  readonly url: string;
  readonly directory: string;
  /** One connection for each process. */
  agents: readonly Agent[];
}

interface KilledServer extends Server {
  readonly daemon: Daemon;
}

/**
 * The first has a partner that the default would not choose, and that has workers. The second
 * would be chosen by default; it is in this process, with FastDFS unless that is elsewhere.
 */
async function three({ mapUrl, trackers, ofFirst = [], workers = WORKERS }: ThreeOptions = {}) {
  const folder = temporaryFolder();
  const ports = (await freePorts(3)).map(String);
  const path = join(folder, 'map.db');
  const map = mapUrl ?? `sqlite:${path}`;
  const urls = ports.map((port) => `http://127.0.0.1:${port}`).sort() as [string, string, string];
  const inHere = await startGateway({
    ...{ directory: join(folder, 'g2'), port: Number(new URL(urls[1]).port), peerUrl: urls[1] },
    ...{ map, mergeMaxAge: '1h', logLevel: 'silent' },
    ...(trackers ? { trackers } : { trackerPort: 0, storagePort: 0 }),
  });
  onTestFinished(() => inHere.close());
  const second: Server = { url: urls[1], directory: join(folder, 'g2'), agents: [] };
  const start = daemonsIn(folder);
  const gateway = async (name: string, url: string, ...more: string[]): Promise<KilledServer> => {
    const directory = join(folder, name);
    const daemon = await start([
      ...['gateway', '--directory', directory, '--port', new URL(url).port, '--peer-url', url],
      ...['--trackers', inHere.store.trackers.join(','), '--map', map],
      ...['--merge-max-age', '1h', ...more],
    ]);
    return { url, directory, daemon, agents: [] };
  };
  const third = await gateway('g3', urls[2], '--workers', String(workers));
  const copies = ['--staged-copies', '2', '--partner', urls[2]];
  const first = await gateway('g1', urls[0], ...copies, ...ofFirst);
  second.agents = await connections(second, 1);
  const reconnect = async () => {
    third.agents = await connections(third, workers);
  };
  await reconnect();
  const query = (statement: string, ...values: unknown[]) => {
    const database = openDatabase(path, { timeout: 10_000 });
    try {
      return database.prepare(statement).all(...values) as Record<string, unknown>[];
    } finally {
      database.close();
    }
  };
  const originsOf = ({ url }: Server) =>
    query('SELECT origin FROM stevedore_gateway WHERE url = ?', url).map((row) => row.origin);
  return {
    ...{ map, query, first, second, third, originsOf, reconnect },
    /** This status, of each file at each process of the second and the third. */
    all: (status: number) => Array.from({ length: FILES * (workers + 1) }, () => status),
    get origin() {
      return originsOf(first)[0] as number;
    },
    /** As if the first had been away for long. */
    forget: () =>
      void query('UPDATE stevedore_gateway SET seen_at = 1 WHERE url = ? RETURNING 1', first.url),
    adopt: (...more: string[]) =>
      promisify(execFile)(
        process.execPath,
        [COMMAND, 'adopt', String(originsOf(first)[0]), '--map', map, ...more],
        { timeout: 60_000 },
      ),
  };
}

interface ThreeOptions {
  readonly mapUrl?: string;
  readonly trackers?: string;
  readonly ofFirst?: readonly string[];
  /** Of the third. */
  readonly workers?: number;
}

type Three = Awaited<ReturnType<typeof three>>;

async function receiptAt({ url }: Pick<Server, 'url'>): Promise<{ readonly key: string }> {
  const posted = await ask(url, '/files', { method: 'POST', body: 'content' });
  expect(posted.status).toBe(201);
  return JSON.parse(posted.body.toString());
}

const contentOf = (n: number): string => `file ${n} `.repeat(100 + n);

async function post({ url }: Server, body: string, how: Ask = {}): Promise<string> {
  const answer = await soon(async () => {
    const posted = await ask(url, '/files', { ...how, method: 'POST', body });
    expect(posted.status).toBe(201);
    return posted;
  });
  return JSON.parse(answer.body.toString()).key;
}

async function postAll(server: Server): Promise<string[]> {
  const keys: string[] = [];
  for (let n = 0; n < FILES; n++) keys.push(await post(server, contentOf(n)));
  return keys;
}

/** Every file, at every process of the second and the third. */
async function statuses({ second, third }: Three, keys: readonly string[]): Promise<number[]> {
  const all: number[] = [];
  for (const { url, agents } of [second, third]) {
    for (const agent of agents) {
      for (const [n, key] of keys.entries()) {
        const { status, body } = await ask(url, `/files/${key}`, { agent });
        if (status === 200) expect(body.toString()).toBe(contentOf(n));
        all.push(status);
      }
    }
  }
  return all;
}

/** A key of the same origin that was never given out. */
function unknownLike(key: string): string {
  const bytes = Buffer.from(key, 'base64url');
  bytes[15] = bytes[15]! ^ 1;
  return bytes.toString('base64url');
}

test('an upload is on two machines where there are two, and its receipt says so', async () => {
  const alone = await plainGateway({});
  expect(await receiptAt(alone)).not.toHaveProperty('copies');
  const map = `sqlite:${join(temporaryFolder(), 'map.db')}`;
  const first = await deployedGateway({ map });
  expect(await receiptAt(first)).toMatchObject({ copies: 1 });
  const ready = await fetch(`${first.url}/health/ready`);
  expect([ready.status, await ready.text()]).toEqual([200, expect.stringContaining('one copy')]);
  const second = await deployedGateway({ map, trackers: first.store.trackers.join(',') });
  await soon(async () => expect(await receiptAt(first)).toMatchObject({ copies: 2 }));
  const { key } = await receiptAt(first);
  await first.close();
  expect(await (await fetch(`${second.url}/files/${key}`)).text()).toBe('content');
  expect(await receiptAt(second)).toMatchObject({ copies: 1 });
  const metrics = await (await fetch(`${second.url}/metrics`)).text();
  expect(metrics).toMatch(/^stevedore_one_copy_files_total [12]$/m);
});

test('a killed gateway’s staged files are read at every process of the others, and adopted', async () => {
  const servers = await three();
  const { first, third, forget, adopt, origin, originsOf, query } = servers;
  const keys = await postAll(first);
  const deleted = await post(first, 'deleted');
  expect(await ask(first.url, `/files/${deleted}`, { method: 'DELETE' })).toMatchObject({
    status: 204,
  });
  await first.daemon.kill();
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));

  forget();
  // Another one does not have the copies.
  const other = String(originsOf(servers.second)[0]);
  await expect(adopt('--by', other)).rejects.toMatchObject({
    stderr: expect.stringContaining('holds the copies'),
  });
  // The command finds the holder by itself.
  const { stdout } = await adopt('--json');
  const [row] = query('SELECT holder FROM stevedore_gateway WHERE origin = ?', origin);
  expect(JSON.parse(stdout)).toMatchObject({ origin, by: row?.holder });
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
  // What never was, or was deleted while it was staged, is known not to exist at every process.
  for (const gone of [deleted, unknownLike(deleted)]) {
    for (const { url, agents } of [servers.second, third]) {
      for (const agent of agents) {
        await soon(async () =>
          expect(await ask(url, `/files/${gone}`, { agent })).toMatchObject({ status: 404 }),
        );
      }
    }
  }
  // Its next look at the map tells the adopter to drop the copy.
  const copy = join(third.directory, 'held', String(origin), 'container');
  await soon(async () => expect(readdirSync(copy)).toEqual([]));
  expect(existsSync(join(third.directory, 'workers', '2', 'held'))).toBe(false);
});

test('a killed gateway’s files are deleted at the others, and it finds that when it is back', async () => {
  const servers = await three({ workers: 1 });
  const { first, second, third } = servers;
  const [before, after, kept] = [
    await post(first, 'a'),
    await post(first, 'b'),
    await post(first, 'c'),
  ];
  const remove = (url: string, key: string) => ask(url, `/files/${key}`, { method: 'DELETE' });
  expect(await remove(first.url, before)).toMatchObject({ status: 204 });
  await first.daemon.kill();
  for (const { url } of [second, third]) {
    const read = () => ask(url, `/files/${before}`);
    await soon(async () => expect(await read()).toMatchObject({ status: 404 }));
  }
  await soon(async () => expect(await remove(second.url, after)).toMatchObject({ status: 204 }));
  expect(await remove(second.url, before)).toMatchObject({ status: 404 });
  const everywhere = async (servers: readonly Server[]) => {
    for (const { url } of servers) {
      for (const key of [before, after]) {
        await soon(async () =>
          expect(await ask(url, `/files/${key}`)).toMatchObject({ status: 404 }),
        );
      }
      expect(await ask(url, `/files/${kept}`)).toMatchObject({ status: 200 });
    }
  };
  await everywhere([second, third]);
  first.daemon.start();
  await first.daemon.ready();
  await everywhere([first, second, third]);
  // Its partner is away: the map has the deletion, for who adopts its files.
  await third.daemon.kill();
  const last = await post(first, 'd');
  expect(await remove(first.url, last)).toMatchObject({ status: 204 });
});

test('what a gateway deleted before it was killed is gone at every other one', async () => {
  const servers = await three({ ofFirst: ['--merge-max-age', '100ms'] });
  const { first, second, third } = servers;
  const keys = await postAll(first);
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
  const later = await Promise.all([post(first, 'a'), post(first, 'b')]);
  const unread = [...later, await post(first, 'c')];
  const mapped = () => servers.query('SELECT count(*) AS files FROM stevedore_file')[0]?.files;
  await soon(async () => expect(mapped()).toBe(FILES + unread.length));
  const remove = async (key: string) =>
    expect(await ask(first.url, `/files/${key}`, { method: 'DELETE' })).toMatchObject({
      status: 204,
    });
  await Promise.all([...keys, ...unread].map(remove));
  await first.daemon.kill();
  for (const { url, agents } of [second, third]) {
    for (const agent of agents) {
      for (const key of unread) {
        expect(await ask(url, `/files/${key}`, { agent })).toMatchObject({ status: 404 });
      }
    }
  }
  // Others find within a second that a file is gone which they have in memory.
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(404)));
});

test('files that were acknowledged without the partner survive the loss of their server', async () => {
  const servers = await three({ workers: 1 });
  const { first, third, forget, adopt } = servers;
  await post(first, 'with a copy at the partner');
  await third.daemon.kill();
  const keys = await postAll(first);
  await first.daemon.kill();
  rmSync(first.directory, { recursive: true });
  forget();
  third.daemon.start();
  await third.daemon.ready();
  await servers.reconnect();
  await adopt();
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
});

test('an adoption is repeated until the one that holds the copies has finished it', async () => {
  const servers = await three({ workers: 1 });
  const { first, third, forget, adopt, origin, query } = servers;
  const keys = await postAll(first);
  await first.daemon.kill();
  forget();
  await third.daemon.kill();
  const adopting = adopt();
  const adopter = () => query('SELECT adopter FROM stevedore_gateway WHERE origin = ?', origin)[0];
  await soon(async () => expect(adopter()?.adopter).toBeTypeOf('number'));
  // While nobody can say, nobody answers that a file is not there.
  const { url, agents } = servers.second;
  for (const key of keys) {
    expect((await ask(url, `/files/${key}`, { agent: agents[0]! })).status).toBe(503);
  }
  third.daemon.start();
  await third.daemon.ready();
  await third.daemon.kill();
  third.daemon.start();
  await third.daemon.ready();
  await adopting;
  await adopt();
  await servers.reconnect();
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
});

/** The command, and what it has said so far. */
function adopting({ map, origin }: Three) {
  const child = spawn(process.execPath, [COMMAND, 'adopt', String(origin), '--map', map], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { said: async (text: string) => soon(async () => expect(said).toContain(text)), ended };
}

test('an adoption that has not seen every place says which, and does not end', async () => {
  const folder = temporaryFolder();
  const [tracker, port] = (await freePorts(2)).map(String) as [string, string];
  const trackers = `127.0.0.1:${tracker}`;
  const start = daemonsIn(folder);
  await start(['tracker', '--port', tracker]);
  const paths = ['--store-paths', join(folder, 's1')];
  const storage = await start(['storage', '--port', port, '--trackers', trackers, ...paths]);
  const servers = await three({ trackers, workers: 1 });
  const { first, third, origin } = servers;
  const keys = await postAll(first);
  await Promise.all([first, third].map(({ daemon }) => daemon.kill()));
  await storage.kill();
  servers.forget();
  const held = join(third.directory, 'held', String(origin));
  renameSync(held, `${held}.away`);
  const command = adopting(servers);
  third.daemon.start();
  await third.daemon.ready();
  await command.said(`${held} is not there`);

  await third.daemon.kill();
  renameSync(`${held}.away`, held);
  third.daemon.start();
  await third.daemon.ready();
  await command.said('storage 127.0.0.1:');
  await servers.reconnect();
  // What is known is served meanwhile, and nothing is said not to exist.
  await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
  const path = `/files/${unknownLike(keys[0]!)}`;
  const asked = () => ask(third.url, path, { agent: third.agents[0]! });
  expect((await asked()).status).toBe(503);

  storage.start();
  await storage.ready();
  expect(await command.ended).toBe(0);
  await soon(async () => expect((await asked()).status).toBe(404));
});

describe.skipIf(needsPostgres.missing)('a gateway that starts while the map is down', () => {
  test('has its partner and the other gateways, and stores and serves', async () => {
    const database = await PostgresServer.start();
    const servers = await three({ mapUrl: database.url });
    const { first, second, third } = servers;
    const foreign = await post(second, 'staged at another one');
    const keys = await postAll(first);
    // Every server has heard from the map who holds the copies.
    const folders = [first.directory, second.directory, third.directory];
    for (const folder of [...folders, join(third.directory, 'workers', '2')]) {
      await soon(async () => {
        const known = JSON.parse(readFileSync(join(folder, 'deployment.json'), 'utf8'));
        const row = known.gateways.find(({ url }: { url: string }) => url === first.url);
        expect(row.holder).toBeTypeOf('number');
      });
    }
    await database.kill();
    await first.daemon.kill();
    await soon(async () => expect(await statuses(servers, keys)).toEqual(servers.all(200)));
    for (const { daemon } of [third, first]) {
      await daemon.kill();
      daemon.start();
      await daemon.ready();
    }
    await servers.reconnect();
    const later = await post(first, contentOf(0));
    expect(await ask(first.url, `/files/${foreign}`)).toMatchObject({ status: 200 });
    expect(await statuses(servers, keys)).toEqual(servers.all(200));
    await first.daemon.kill();
    await soon(async () => expect(await statuses(servers, [...keys])).toEqual(servers.all(200)));
    for (const agent of third.agents) {
      expect(await ask(third.url, `/files/${later}`, { agent })).toMatchObject({ status: 200 });
    }
  });
});
