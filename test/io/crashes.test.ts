import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../storage/support.js';
import { temporaryFolder } from '../support/temporary.js';
import { change, contentOf, NAME, store, THRESHOLD, tierOf } from '../tiers/harness.js';
import { ioServers, Killed, known, openWith, partsOf } from './harness.js';

/**
 * The storage's process ends at every single request that it makes to an I/O server,
 * before the request is sent and after it was carried out, and at every step of a move.
 * The next process must find the file as it was or as it was to be, and nothing else.
 */

const STRIPE = 4096;

type Opened = Awaited<ReturnType<typeof openWith>>;

const SMALL = Buffer.alloc(3000, 5);
const LARGE = Buffer.alloc(2 * STRIPE + 100, 6);
const METADATA = Buffer.from('a\x02b');

interface History {
  readonly what: string;
  readonly before: Buffer;
  readonly after: Buffer | undefined;
  readonly act: (opened: Opened, folder: string) => Promise<unknown>;
}

const overwritten = Buffer.from(LARGE);
overwritten.fill(9, 500, 500 + STRIPE);

const HISTORIES: readonly History[] = [
  {
    what: 'a row that moves',
    before: SMALL,
    after: SMALL,
    act: (opened) => tierOf(opened).moveToFile(NAME),
  },
  {
    what: 'a row that grows out',
    before: SMALL,
    after: Buffer.concat([SMALL, LARGE]),
    act: (opened, folder) => change(opened, folder, NAME, { at: SMALL.length, bytes: LARGE }),
  },
  {
    what: 'an append',
    before: LARGE,
    after: Buffer.concat([LARGE, SMALL]),
    act: (opened, folder) => change(opened, folder, NAME, { at: LARGE.length, bytes: SMALL }),
  },
  {
    what: 'an overwriting',
    before: LARGE,
    after: overwritten,
    act: (opened, folder) =>
      change(opened, folder, NAME, { at: 500, bytes: Buffer.alloc(STRIPE, 9) }),
  },
  {
    what: 'a cut',
    before: LARGE,
    after: LARGE.subarray(0, THRESHOLD + 50),
    act: (opened, folder) => change(opened, folder, NAME, { size: THRESHOLD + 50 }),
  },
  {
    what: 'a file that comes back into a row',
    before: LARGE,
    after: LARGE,
    act: (opened) => tierOf(opened).moveToRow(NAME, LARGE.length),
  },
  {
    what: 'a deletion',
    before: LARGE,
    after: undefined,
    act: async (opened, folder) => {
      await opened.disk.unlink(join(folder, 'data', NAME));
      await opened.disk.syncDirectory(join(folder, 'data', '00', '00'));
    },
  },
  {
    what: 'another file in its place',
    before: LARGE,
    after: Buffer.concat([LARGE, LARGE]),
    act: (opened, folder) => store(opened, folder, NAME, Buffer.concat([LARGE, LARGE])),
  },
];

describe('a storage that ends in the middle of', () => {
  it.each(HISTORIES.map((history) => [history.what, history] as const))(
    '%s',
    async (_, history) => {
      const servers = await ioServers(2);
      let ends = 0;
      for (const when of ['before', 'after'] as const) {
        for (let at = 1; ; at += 1) {
          const hasEnded = await endAt(servers, history, at, when);
          if (!hasEnded) break;
          ends += 1;
        }
      }
      // A deletion asks nothing of the servers before it is answered.
      if (history.after) expect(ends).toBeGreaterThan(1);
    },
  );

  /** False if the history was over before. */
  async function endAt(
    servers: Awaited<ReturnType<typeof ioServers>>,
    { before, after, act }: History,
    at: number,
    when: 'before' | 'after',
  ): Promise<boolean> {
    const folder = temporaryFolder();
    const mortal = known(servers);
    const opened = await openWith(folder, mortal, {}, { stripeBytes: STRIPE });
    await store(opened, folder, NAME, before);
    await store(opened, folder, `${NAME}-m`, METADATA);
    mortal.dieAt = mortal.requests + at;
    mortal.dieWhen = when;
    const outcome = await act(opened, folder).then(
      () => 'done',
      (error: unknown) => error,
    );
    const hasEnded = mortal.requests >= mortal.dieAt;
    if (outcome !== 'done') expect(outcome).toBeInstanceOf(Killed);
    await endOf(opened, folder);
    const again = await openWith(folder, known(servers), {}, { stripeBytes: STRIPE });
    const found = await contentOf(again, folder, NAME);
    const possible = outcome === 'done' ? [after] : [before, after];
    expect(possible.some((each) => (each && found ? each.equals(found) : each === found))).toBe(
      true,
    );
    if (found) expect(await contentOf(again, folder, `${NAME}-m`)).toEqual(METADATA);
    await expectNothingElse(servers, again);
    await again.disk.unlink(join(folder, 'data', NAME)).catch(() => {});
    await tierOf(again).records.commit();
    await until(() => servers.every((server) => partsOf(server).length === 0));
    await again.close();
    return hasEnded;
  }

  /** Every part at the servers belongs to a record, as soon as they have been looked through. */
  async function expectNothingElse(
    servers: Awaited<ReturnType<typeof ioServers>>,
    opened: Opened,
  ): Promise<void> {
    const { records, dataFiles } = tierOf(opened);
    const handle = records.find(NAME)?.layout?.handle;
    await until(() => {
      dataFiles!.clean();
      return servers.every((server) => partsOf(server).every((part) => part === handle));
    });
  }
});

describe('a move that is killed', () => {
  it.each(['copied', 'verified', 'switched'] as const)(
    'when %s leaves one whole copy',
    async (step) => {
      const servers = await ioServers(2);
      const folder = temporaryFolder();
      let armed = false;
      const opened = await openWith(folder, known(servers), {
        onStep: (reached) => {
          if (armed && reached === step) throw new Killed();
        },
      });
      await store(opened, folder, NAME, SMALL);
      armed = true;
      await expect(tierOf(opened).moveToFile(NAME)).rejects.toThrow(Killed);
      await endOf(opened, folder);
      const again = await openWith(folder, known(servers), {}, { stripeBytes: STRIPE });
      expect(await contentOf(again, folder, NAME)).toEqual(SMALL);
      const handle = tierOf(again).records.find(NAME)?.layout?.handle;
      expect(handle !== undefined).toBe(step === 'switched');
      await until(() => {
        tierOf(again).dataFiles!.clean();
        return servers.every((server) => partsOf(server).every((part) => part === handle));
      });
      await again.close();
    },
  );

  it.each(['copied', 'verified'] as const)(
    'is revoked by a change when %s, and the change is made',
    async (step) => {
      const servers = await ioServers(2);
      const folder = temporaryFolder();
      let changed: Promise<void> | undefined;
      const opened = await openWith(folder, known(servers), {
        onStep: (reached) => {
          if (reached !== step || changed) return;
          changed = change(opened, folder, NAME, { at: 0, bytes: Buffer.from('new') });
        },
      });
      await store(opened, folder, NAME, SMALL);
      expect(await tierOf(opened).moveToFile(NAME)).toBe('revoked');
      await changed;
      const bytes = (await contentOf(opened, folder, NAME))!;
      expect(bytes.subarray(0, 4)).toEqual(Buffer.from('new\x05'));
      // What it is large enough for is made ahead; nothing else is left.
      await opened.disk.unlink(join(folder, 'data', NAME));
      await until(() => servers.every((server) => partsOf(server).length === 0));
      await opened.close();
    },
  );
});

/** As if the process had been killed; a storage removes temporary files when it starts. */
async function endOf(opened: Opened, folder: string): Promise<void> {
  opened.abandon();
  for (const name of readdirSync(join(folder, 'data', '.tmp'))) {
    rmSync(join(folder, 'data', '.tmp', name));
  }
}
