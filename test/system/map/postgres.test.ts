import { randomBytes } from 'node:crypto';
import { openMap } from '@stevedore/map';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { file, newcomer, TRUNK } from '../../support/map/placed-files.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';

/** A map in PostgreSQL, beside what every map does: its schema, and servers that go away. */

describe.skipIf(needsPostgres.missing)('a map in PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start(true);
  });
  afterAll(() => server.stop());

  /** A database of the test's own. */
  function database() {
    const url = server.newDatabase();
    const name = url.slice(url.lastIndexOf('/') + 1);
    return { url, run: (statement: string) => server.run(statement, name) };
  }

  it('refuses a schema of a later version', async () => {
    const own = database();
    const map = await openMap(own.url);
    onTestFinished(() => map.close());
    const mine = newcomer();
    await map.join(mine);
    own.run('UPDATE stevedore_map SET version = 99');
    await expect(map.join(mine)).rejects.toMatchObject({ code: 'map_schema', retryable: false });
  });

  it('is created whatever statement of it another gateway runs at the same moment', async () => {
    const own = database();
    // The first attempt of each statement meets the same one of another gateway.
    own.run('CREATE SEQUENCE attempts');
    own.run(`CREATE FUNCTION collide() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('attempts') % 2 = 1 THEN
        RAISE unique_violation USING MESSAGE = 'duplicate key value in pg_type_typname_nsp_index';
      END IF; END $$`);
    own.run('CREATE EVENT TRIGGER colliding ON ddl_command_end EXECUTE FUNCTION collide()');
    const map = await openMap(own.url);
    onTestFinished(() => map.close());
    await map.prepare();
    expect(await map.gateways()).toEqual([]);
  });

  it('spreads keys that are stored with their random half first', async () => {
    const own = database();
    const map = await openMap(`${own.url}?spread=true`);
    onTestFinished(() => map.close());
    const { origin } = await map.join(newcomer());
    const placed = file(origin);
    await map.place({ id: randomBytes(16), fileId: TRUNK }, [placed]);
    const stored = own.run("SELECT encode(file_key, 'hex') FROM stevedore_file").trim();
    const hex = Buffer.from(placed.key).toString('hex');
    expect(stored).toBe(hex.slice(16) + hex.slice(0, 16));
    // Another gateway is not told, and finds it so.
    const other = await openMap(own.url);
    onTestFinished(() => other.close());
    await other.join(newcomer());
    expect(await other.find([placed.key])).toMatchObject([{ trunkFileId: TRUNK }]);
    await other.remove([placed], false);
    expect((await map.removalsFor([origin], 10)).map(Buffer.from)).toEqual([placed.key]);
  });

  it('is unavailable while it is away, and goes on afterwards', async () => {
    const map = await openMap(server.newDatabase(), { timeoutMs: 1000 });
    onTestFinished(() => map.close());
    const { origin } = await map.join(newcomer());
    const placed = file(origin);
    await map.place({ id: randomBytes(16), fileId: TRUNK }, [placed]);
    await server.kill();
    const away = { code: 'map_unavailable', retryable: true };
    await expect(map.find([placed.key])).rejects.toMatchObject(away);
    await server.restart();
    expect(await map.find([placed.key])).toMatchObject([{ trunkFileId: TRUNK }]);
    server.signal('SIGSTOP');
    const answers = Array.from({ length: 12 }, () => map.find([placed.key]));
    for (const answer of await Promise.allSettled(answers)) {
      expect(answer).toMatchObject({ status: 'rejected', reason: away });
    }
    server.signal('SIGCONT');
    expect(await map.find([placed.key])).toMatchObject([{ trunkFileId: TRUNK }]);
  });

  it('is found on the host that accepts writes, also after that changed', async () => {
    const first = await PostgresServer.start();
    const both = `127.0.0.1:${first.port},127.0.0.1:${server.port}`;
    const map = await openMap(`postgres://test@${both}/postgres`, { timeoutMs: 3000 });
    onTestFinished(() => map.close());
    const mine = newcomer();
    const away = { code: 'map_unavailable', retryable: true };
    await map.join(mine);
    await first.kill();
    await expect(map.gateways()).rejects.toMatchObject(away);
    await map.join(mine);
    // A standby takes every connection, and its settings do not say that it is one.
    await first.restart(true);
    server.readOnly(true);
    onTestFinished(() => server.readOnly(false));
    await expect(map.join(newcomer())).rejects.toMatchObject(away);
    await expect(map.gateways()).rejects.toMatchObject(away);
    server.readOnly(false);
    await map.join(newcomer());
    expect(await map.gateways()).toHaveLength(2);
  });

  it('refuses a URL that leads nowhere', async () => {
    const map = await openMap('postgres://test@127.0.0.1:1/postgres', { timeoutMs: 2000 });
    onTestFinished(() => map.close());
    const mine = newcomer();
    await expect(map.join(mine)).rejects.toMatchObject({ code: 'map_unavailable' });
  });
});
