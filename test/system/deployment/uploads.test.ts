import { connect } from '@stevedore/client/connect';
import type { Gateway, GatewayInput } from '@stevedore/gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deployedPair } from '../../support/deployment.js';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { soon } from '../../support/soon.js';

/** Two gateways with one PostgreSQL: what holds at one holds at the other. */

let database: PostgresServer;

/** With the map of a server that has just started, and is empty. */
async function pair(options: GatewayInput = {}) {
  await database.kill();
  await database.restart();
  database.run('DROP SCHEMA public CASCADE');
  database.run('CREATE SCHEMA public');
  const { first, second } = await deployedPair({ map: database.url, ...options });
  for (const { store } of [first, second]) store.on('error', () => {});
  return { first, second };
}

async function post({ url }: Gateway, body: string | FormData, headers: object = {}) {
  const response = await fetch(`${url}/files`, {
    method: 'POST',
    body,
    headers: { ...headers } as Record<string, string>,
  });
  const answer = (await response.json()) as { key: string; code?: string };
  return { status: response.status, headers: response.headers, ...answer };
}

const read = ({ url }: Gateway, path: string) => fetch(`${url}${path}`);

describe.skipIf(needsPostgres.missing)('two gateways with one PostgreSQL', () => {
  beforeAll(async () => {
    database = await PostgresServer.start(true);
  });
  afterAll(() => database.stop());

  it('make an upload once that is sent to both with one Idempotency-Key', async () => {
    const { first, second } = await pair();
    const key = { 'idempotency-key': 'one' };
    const made = await post(first, 'content', key);
    for (const each of [second, first, second]) {
      const again = await post(each, 'content', key);
      expect([again.status, again.key]).toEqual([201, made.key]);
      expect(again.headers.get('idempotency-replayed')).toBe('true');
      const other = await post(each, 'another content', key);
      expect([other.status, other.code]).toEqual([422, 'idempotency_key_reused']);
    }
    expect(second.store.stats().stagedFiles).toBe(0);
    await first.store.flush();
    expect((await post(second, 'content', key)).key).toBe(made.key);
    // It is gone: the key makes a new upload, at whichever server.
    await first.store.delete(made.key);
    const anew = await post(second, 'content', key);
    expect(anew.key).not.toBe(made.key);
    expect((await post(first, 'content', key)).key).toBe(anew.key);
    expect(first.store.stats().stagedFiles).toBe(0);
  });

  it('take an upload over that failed at the other one, and not one that is under way', async () => {
    const { first, second } = await pair();
    const key = { 'idempotency-key': 'cut' };
    const cut = new AbortController();
    let send: ((chunk: Uint8Array) => void) | undefined;
    const body = new ReadableStream({
      start: (controller) => {
        send = (chunk) => controller.enqueue(chunk);
      },
    });
    const init = { method: 'POST', body, headers: key, duplex: 'half', signal: cut.signal };
    const failing = fetch(`${first.url}/files`, init as RequestInit).catch(() => 'cut');
    send!(new Uint8Array(10));
    const claimed = 'SELECT count(*) FROM stevedore_claim';
    await soon(async () => expect(database.run(claimed).trim()).toBe('1'));
    await soon(async () => {
      const meanwhile = await post(second, 'content', key);
      expect(meanwhile.status).toBe(503);
      expect(Number(meanwhile.headers.get('retry-after'))).toBeGreaterThan(0);
    });
    cut.abort();
    expect(await failing).toBe('cut');
    const made = await soon(async () => {
      const answer = await post(second, 'content', key);
      expect(answer.status).toBe(201);
      return answer;
    });
    expect((await post(first, 'content', key)).key).toBe(made.key);
  });

  it('make an upload with an Idempotency-Key once a map that restarts is back', async () => {
    const { first } = await pair();
    database.signal('SIGSTOP');
    const made = post(first, 'content', { 'idempotency-key': 'patient' });
    await soon(async () => expect(first.store.stats().map?.isMapAvailable).toBe(false));
    database.signal('SIGCONT');
    expect((await made).status).toBe(201);
  });

  it('ask each other for an upload while the map is away, and say what they cannot promise', async () => {
    const { first, second } = await pair();
    for (const { store } of [first, second]) {
      await soon(async () => expect(store.deployment?.liveServers()).toBe(2));
    }
    const key = { 'idempotency-key': 'away' };
    const made = await post(first, 'content', key);
    await database.kill();
    expect((await post(first, 'content', key)).key).toBe(made.key);
    const again = await post(second, 'content', key);
    expect([again.status, again.key]).toEqual([201, made.key]);
    const other = await post(second, 'content', { 'idempotency-key': 'made-away' });
    expect([other.status, other.headers.get('idempotency-scope')]).toEqual([201, 'gateway']);
    expect((await post(first, 'content', { 'idempotency-key': 'made-away' })).key).toBe(other.key);
    await using store = connect({ url: second.url });
    expect((await store.put('by our own client')).state).toBe('staged');
    await database.restart();
    for (const { store } of [first, second]) {
      await soon(async () => expect(store.stats().map?.isMapAvailable).toBe(true));
    }
    const shared = await post(first, 'content', { 'idempotency-key': 'made-anew' });
    expect(shared.headers.get('idempotency-scope')).toBe(null);
    await soon(async () => expect((await post(second, 'content', key)).key).toBe(made.key));
    await first.close();
    expect((await post(second, 'content', key)).status).toBe(503);
  });

  it('agree on what is known of a file, on its expiry and its deletion, by key and slice id', async () => {
    const later = movableTime();
    const { first, second } = await pair();
    const meta = { 'x-filename': 'a.txt', 'content-type': 'text/plain' };
    const lasting = await post(first, 'lasting', meta);
    const short = await post(first, 'short', { ...meta, 'x-expires-in': '3600' });
    const staged = await post(first, 'staged', { ...meta, 'x-expires-in': '3600' });
    expect([lasting.status, short.status, staged.status]).toEqual([201, 201, 201]);
    const info = async (at: Gateway, id: string) =>
      (await (await read(at, `/files/${id}/info`)).json()) as { fileId?: string };
    for (const { key } of [lasting, short, staged]) {
      expect(await info(second, key)).toEqual(await info(first, key));
    }
    await first.store.delete(staged.key);
    await soon(async () => expect((await read(second, `/files/${staged.key}`)).status).toBe(404));
    await first.store.flush();
    const paths: string[] = [];
    for (const { key } of [lasting, short]) {
      await soon(async () => expect((await info(second, key)).fileId).toBeDefined());
      expect(await info(second, key)).toEqual(await info(first, key));
      paths.push(`/files/${key}`, `/${(await info(second, key)).fileId}`);
    }
    for (const at of [first, second]) {
      for (const path of paths.slice(0, 2)) expect((await read(at, path)).status).toBe(200);
    }
    later(HOUR_MS);
    for (const at of [first, second]) {
      for (const path of paths.slice(2)) {
        await soon(async () => expect((await read(at, path)).status, path).toBe(404));
      }
    }
    expect((await fetch(second.url + paths[1]!, { method: 'DELETE' })).status).toBe(204);
    for (const at of [first, second]) {
      for (const path of paths.slice(0, 2)) {
        await soon(async () => expect((await read(at, path)).status, path).toBe(404));
      }
      expect((await read(at, `${paths[0]}/info`)).status).toBe(404);
    }
  });
});
