import { join } from 'node:path';
import type { GatewayStore } from '@stevedore/client/internal';
import { openDatabase } from '@stevedore/disk/sqlite';
import { expect, it } from 'vitest';
import { bytesOf, server } from '../../support/client/servers.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A server that stays away is adopted without an operator, and joins again once it is back. */

const GONE = { code: 'not_found' };

/** Three servers of one FastDFS, which adopt soon. */
async function three() {
  const path = join(temporaryFolder(), 'map.db');
  const shared = { map: `sqlite:${path}`, adoptAfter: '1s' } as const;
  const first = await server(shared);
  const trackers = first.trackers as string[];
  const second = await server({ ...shared, trackers });
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
