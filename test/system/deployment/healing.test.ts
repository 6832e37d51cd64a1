import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GatewayStore } from '@stevedore/client/internal';
import { openDatabase } from '@stevedore/disk/sqlite';
import { type GatewayInput, startGateway } from '@stevedore/gateway';
import { openMap, originOf } from '@stevedore/map';
import { expect, it, onTestFinished } from 'vitest';
import { bytesOf, server } from '../../support/client/servers.js';
import { ask, connections } from '../../support/gateway/workers/asking.js';
import { daemonsIn, freePorts } from '../../support/kills/daemon.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A server that stays away is adopted without an operator, and joins again once it is back. */

const GONE = { code: 'not_found' };

/** Three servers of one FastDFS, which adopt soon. */
async function three() {
  const path = join(temporaryFolder(), 'map.db');
  // Second copies have tests of their own.
  const shared = { map: `sqlite:${path}`, adoptAfter: '1s', stagedCopies: 1 } as const;
  const first = await server({ ...shared, peerUrl: 'http://10.0.0.1' });
  const trackers = first.trackers as string[];
  const second = await server({ ...shared, trackers, peerUrl: 'http://10.0.0.2' });
  const directory = temporaryFolder();
  const options = { ...shared, trackers, directory, smallFileLimit: '64KiB' } as const;
  const third = await server(options);
  const { origin } = third.deployment!;
  const sql = (statement: string, ...values: unknown[]) => {
    const database = openDatabase(path, { timeout: 10_000 });
    try {
      return database.prepare(statement).all(...values) as Record<string, unknown>[];
    } finally {
      database.close();
    }
  };
  return {
    ...{ first, second, third, options, origin, sql },
    row: () => sql('SELECT * FROM stevedore_gateway WHERE origin = ?', origin)[0]!,
    /** As if it had been killed, and silent for long. */
    forget: () =>
      sql(
        "UPDATE stevedore_gateway SET seen_at = 1, place = 'x' WHERE origin = ? RETURNING 1",
        origin,
      ),
  };
}

const published = (store: GatewayStore) =>
  soon(async () => expect(store.stats().map?.pending).toBe(0));

it('a server that stays away is adopted once, by one of the others', async () => {
  const { first, second, third, forget, row, origin } = await three();
  const { key } = await third.put('merged');
  await third.flush();
  await published(third);
  const said: string[] = [];
  for (const store of [first, second]) store.on('error', ({ message }) => said.push(message));
  await third.close();
  forget();
  await soon(() => expect(row().adopted_at).not.toBeNull());
  expect([first, second].map((store) => store.deployment!.origin)).toContain(row().adopter);
  for (const store of [first, second]) expect(await bytesOf(store, key)).toBe('merged');
  expect(said.filter((message) => message.includes(`origin ${origin} was silent`))).toHaveLength(1);
  await second.delete(key);
  for (const store of [first, second]) {
    await soon(() => expect(store.get(key)).rejects.toMatchObject(GONE));
  }
});

it('a server that never stored anything, or left nothing on its disk, is not adopted', async () => {
  const { third, forget, row, sql, second, options } = await three();
  await third.close();
  forget();
  const other = await server({ ...options, directory: temporaryFolder(), adoptAfter: 0 });
  const { key } = await other.put('merged and published');
  await other.flush();
  await published(other);
  await other.close();
  sql(
    'UPDATE stevedore_gateway SET seen_at = 1 WHERE origin = ? RETURNING 1',
    other.deployment!.origin,
  );
  // One that both of the others adopt, after these in the order of their silence.
  const lost = await server({ ...options, directory: temporaryFolder(), adoptAfter: 0 });
  await lost.put('staged');
  await lost.close();
  sql(
    "UPDATE stevedore_gateway SET seen_at = 2, place = 'y' WHERE origin = ? RETURNING 1",
    lost.deployment!.origin,
  );
  const adopted = () => sql('SELECT origin FROM stevedore_gateway WHERE adopted_at IS NOT NULL');
  await soon(() => expect(adopted()).toEqual([{ origin: lost.deployment!.origin }]));
  expect(row().adopter).toBeNull();
  expect(await bytesOf(second, key)).toBe('merged and published');
});

/** Two gateways of one FastDFS, and a third one in a directory of its own, which starts when asked. */
async function gateways(more: GatewayInput = {}) {
  const folder = temporaryFolder();
  const path = join(folder, 'map.db');
  const ports = await freePorts(3);
  let trackers: string[] = [];
  const start = async (n: number, how: GatewayInput = {}) => {
    const gateway = await startGateway(
      {
        ...{ directory: join(folder, `g${n}`), port: ports[n]!, map: `sqlite:${path}` },
        ...{ peerUrl: `http://127.0.0.1:${ports[n]}`, logLevel: 'silent', mergeMaxAge: '1h' },
        ...{ adoptAfter: '1s', idMaxAge: 0, stagedCopies: 1 },
        ...{ ...(trackers.length > 0 ? { trackers } : {}), ...more },
        ...how,
      },
      { onError: (error) => said.push((error as Error).message) },
    );
    onTestFinished(() => gateway.close());
    return gateway;
  };
  const said: string[] = [];
  const first = await start(0, { trackerPort: 0, storagePort: 0 });
  trackers = [...first.store.trackers];
  const second = await start(1);
  const database = openDatabase(path, { timeout: 10_000 });
  onTestFinished(() => void database.close());
  const sql = (statement: string, ...values: unknown[]) =>
    database.prepare(statement).all(...values) as Record<string, unknown>[];
  return {
    ...{ first, second, said, sql, folder, directory: join(folder, 'g2') },
    third: (how?: GatewayInput) => start(2, { smallFileLimit: '64KiB', ...how }),
    /** As if it had been killed; resolves once another one has its files. */
    adopted: async (origin: number) => {
      const away = "UPDATE stevedore_gateway SET seen_at = 1, place = 'x' WHERE origin = ?";
      sql(`${away} RETURNING 1`, origin);
      const done = 'SELECT adopter FROM stevedore_gateway WHERE origin = ? AND adopted_at > 0';
      await soon(() => expect(sql(done, origin)).toHaveLength(1));
      return sql(done, origin)[0]!.adopter as number;
    },
  };
}

const large = Buffer.alloc(200_000, 'large');

/** Files of all kinds that only its disk has, and one that is merged. */
async function filled(store: GatewayStore) {
  const merged = await store.put('merged', { name: 'merged.txt' });
  const late = await store.put('deleted later');
  await store.flush();
  await published(store);
  const expiresAt = new Date(Date.now() + 86_400_000);
  const staged = await store.put('staged', { name: 'ä b.txt', group: 'page 7', expiresAt });
  const whole = await store.put(large, { name: 'large.bin' });
  const gone = await store.put('gone');
  await store.delete(gone.key);
  return { merged, late, staged, whole, gone };
}

it('a directory that comes back joins as a new one, and what only it has is there again', async () => {
  const { first, second, third, adopted, said, directory, sql } = await gateways();
  const before = await third();
  const { origin } = before.store.deployment!;
  const { merged, late, staged, whole, gone } = await filled(before.store);
  await before.close();
  const by = await adopted(origin);
  await expect(first.store.get(staged.key)).rejects.toMatchObject(GONE);
  await first.store.delete(late.key);
  const back = await third();
  const now = back.store.deployment!.origin;
  expect(now).not.toBe(origin);
  await soon(() => expect(existsSync(join(directory, 'returned', String(origin)))).toBe(false));
  const all = [first, second, back].map(({ store }) => store);
  for (const store of all) {
    expect(await bytesOf(store, staged.key)).toBe('staged');
    expect(await bytesOf(store, merged.key)).toBe('merged');
    expect((await (await store.get(whole.key)).bytes()).equals(large)).toBe(true);
    await soon(() => expect(store.get(late.key)).rejects.toMatchObject(GONE));
    await expect(store.get(gone.key)).rejects.toMatchObject(GONE);
  }
  const { name, group, expiresAt, stagedAt } = await back.store.stat(staged.key);
  expect({ name, group, expiresAt, stagedAt }).toEqual({
    ...{ name: 'ä b.txt', group: 'page 7' },
    ...{ expiresAt: staged.expiresAt, stagedAt: staged.stagedAt },
  });
  await second.store.flush();
  for (const store of all) {
    expect((await store.stat(staged.key)).state).toBe('merged');
    expect(await bytesOf(store, staged.key)).toBe('staged');
  }
  expect(said.filter((message) => message.startsWith(`origin ${origin} `))).toEqual([
    expect.stringContaining('was silent for'),
    expect.stringContaining(`it has origin ${now} now`),
    expect.stringContaining(`of 2 staged files, its adopter, origin ${by}, lacked 2`),
  ]);
  // It stays the same one from now on.
  const { key } = await back.store.put('of the new origin');
  await back.close();
  const again = await third();
  expect(again.store.deployment!.origin).toBe(now);
  expect(await bytesOf(again.store, key)).toBe('of the new origin');
  expect(sql('SELECT origin FROM stevedore_gateway')).toHaveLength(4);
}, 120_000);

it('what the map had not heard of comes back, and what was deleted meanwhile stays deleted', async () => {
  const { first, second, third, adopted, sql, directory } = await gateways();
  const before = await third();
  const { origin } = before.store.deployment!;
  const { staged, whole, late, gone } = await filled(before.store);
  await before.store.flush();
  await published(before.store);
  const known = await before.store.put('the adopter has deleted it');
  await before.close();
  // As if it had been killed before it published these: a large file, and a deletion.
  const bytesOfKey = (key: string) => Buffer.from(key, 'base64url');
  sql(
    `DELETE FROM stevedore_trunk WHERE trunk =
      (SELECT trunk FROM stevedore_file WHERE file_key = ?) RETURNING 1`,
    bytesOfKey(whole.key),
  );
  sql('DELETE FROM stevedore_file WHERE file_key = ? RETURNING 1', bytesOfKey(whole.key));
  const fileMap = openDatabase(join(directory, 'filemap.sqlite'));
  const enter = 'INSERT INTO outbox (trunk) SELECT trunk FROM files WHERE key = ?';
  fileMap.prepare(enter).run(bytesOfKey(whole.key));
  fileMap.prepare('INSERT INTO outbox (key) VALUES (?)').run(bytesOfKey(late.key));
  fileMap.close();
  await adopted(origin);
  await expect(second.store.get(whole.key)).rejects.toMatchObject(GONE);
  expect(await bytesOf(second.store, late.key)).toBe('deleted later');
  const map = await openMap(first.options.map);
  onTestFinished(() => map.close());
  await map.remove([{ key: bytesOfKey(known.key) }], true);
  await third();
  await soon(() => expect(existsSync(join(directory, 'returned', String(origin)))).toBe(false));
  for (const { store } of [first, second]) {
    await soon(async () => {
      expect((await (await store.get(whole.key)).bytes()).equals(large)).toBe(true);
    });
    await soon(() => expect(store.get(late.key)).rejects.toMatchObject(GONE));
    for (const { key } of [gone, known]) {
      await expect(store.get(key)).rejects.toMatchObject(GONE);
    }
    expect(await bytesOf(store, staged.key)).toBe('staged');
  }
  // Its adopter deletes it, like any other of its files.
  await second.store.delete(whole.key);
  await soon(() => expect(first.store.get(whole.key)).rejects.toMatchObject(GONE));
}, 120_000);

it('a return that was cut off at any step goes on at the next start', async () => {
  const { first, third, adopted, directory, folder } = await gateways();
  const before = await third();
  const { origin } = before.store.deployment!;
  const { staged, whole, merged } = await filled(before.store);
  await before.close();
  await adopted(origin);
  const parts = readdirSync(directory).filter((name) => !/^(lock|held|deployment.json)/.test(name));
  const inOrder = [...parts.filter((name) => name !== 'origin'), 'origin'];
  expect(inOrder).toEqual(expect.arrayContaining(['container', 'spool', 'filemap.sqlite']));
  for (let moved = -1; moved <= inOrder.length + 1; moved++) {
    const copy = join(folder, `copy ${moved}`);
    const returned = join(copy, 'returned', String(origin));
    cpSync(directory, copy, { recursive: true });
    if (moved >= 0) mkdirSync(returned, { recursive: true });
    for (const part of inOrder.slice(0, Math.max(0, moved))) {
      renameSync(join(copy, part), join(returned, part));
    }
    // All had been published, and the adopter was not told.
    if (moved > inOrder.length) writeFileSync(join(returned, 'unheard'), '');
    const back = await third({ directory: copy });
    expect(back.store.deployment!.origin).not.toBe(origin);
    await soon(() => expect(readdirSync(join(copy, 'returned'))).toEqual([]));
    for (const { store } of [first, back]) {
      expect(await bytesOf(store, staged.key)).toBe('staged');
      expect(await bytesOf(store, merged.key)).toBe('merged');
      expect((await (await store.get(whole.key)).bytes()).equals(large)).toBe(true);
    }
    await back.close();
  }
  // It was cut off while the folder was removed.
  const last = join(folder, 'last');
  mkdirSync(join(last, 'returned', `${origin}.done`, 'container'), { recursive: true });
  const back = await third({ directory: last });
  expect(readdirSync(join(last, 'returned'))).toEqual([]);
  await back.close();
}, 240_000);

it('a gateway with workers that was killed is adopted and comes back as a whole', async () => {
  const { first, second, folder, directory, adopted, sql } = await gateways();
  const port = String((await freePorts(1))[0]);
  const url = `http://127.0.0.1:${port}`;
  const shared = ['--map', first.options.map, '--trackers', first.store.trackers.join(',')];
  const daemon = await daemonsIn(folder)([
    ...['gateway', '--directory', directory, '--workers', '2', '--staged-copies', '1'],
    ...['--port', port, '--peer-url', url, '--merge-max-age', '1h', ...shared],
  ]);
  const files = new Map<string, string>();
  for (const agent of await connections({ url }, 2)) {
    for (const n of [1, 2, 3]) {
      const body = `content ${files.size} ${n}`;
      const posted = await ask(url, '/files', { method: 'POST', body, agent });
      files.set(JSON.parse(posted.body.toString()).key, body);
    }
  }
  const origins = new Set([...files.keys()].map((key) => originOf(Buffer.from(key, 'base64url'))));
  expect(origins.size).toBe(2);
  // A server that is known to have no file is adopted by nobody.
  const full = 'SELECT origin FROM stevedore_gateway WHERE url = ? AND staged_files = 3';
  await soon(() => expect(sql(full, url)).toHaveLength(2));
  await daemon.kill();
  for (const origin of origins) await adopted(origin);
  await daemon.restart();
  const agents = await connections({ url }, 2);
  for (const [key, body] of files) {
    for (const agent of agents) {
      await soon(async () =>
        expect((await ask(url, `/files/${key}`, { agent })).body.toString()).toBe(body),
      );
    }
    for (const { store } of [first, second]) expect(await bytesOf(store, key)).toBe(body);
  }
  for (const origin of origins) {
    expect(existsSync(join(directory, 'returned', String(origin)))).toBe(false);
  }
});
