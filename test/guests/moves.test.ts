import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Status } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { StatusError } from '../../packages/storage/dist/errors.js';
import { Departures } from '../../packages/storage/dist/guests/departures.js';
import type { GuestPlace } from '../../packages/storage/dist/guests/guest-name.js';
import { isGuestBase } from '../../packages/storage/dist/guests/guest-name.js';
import { Guests } from '../../packages/storage/dist/guests/guests.js';
import type { MoveStep } from '../../packages/storage/dist/tiers/move.js';
import type { OpenedTiers } from '../../packages/storage/dist/tiers/open-tiers.js';
import { temporaryFolder } from '../support/temporary.js';
import { change, contentOf, openIn, store, THRESHOLD, tierOf } from '../tiers/harness.js';

/** Another metadata server in memory, which can be away, full, or lose what it was given. */
class OtherServer {
  readonly files = new Map<string, Buffer>();
  isAway = false;
  isBusy = false;
  alters = false;

  store(place: GuestPlace, _home: unknown, bytes: Buffer): Promise<void> {
    if (this.isBusy) return Promise.reject(new StatusError(Status.busy, 'busy'));
    return this.#answer(() => {
      const kept = Buffer.from(bytes);
      if (this.alters) kept[0]! ^= 1;
      this.files.set(place.name, kept);
    });
  }

  read(place: GuestPlace, size: number): Promise<Buffer> {
    return this.#answer(() => {
      const bytes = this.files.get(place.name);
      if (!bytes) throw new StatusError(Status.notFound, place.name);
      if (bytes.length !== size || this.alters) {
        throw Object.assign(new Error('other bytes'), { code: 'EIO' });
      }
      return bytes;
    });
  }

  remove(place: GuestPlace): Promise<void> {
    return this.#answer(() => void this.files.delete(place.name));
  }

  async #answer<Result>(give: () => Result): Promise<Result> {
    await new Promise(setImmediate);
    if (this.isAway) throw new StatusError(Status.tryAgain, 'away');
    return give();
  }
}

const NAME = `00/00/${'a'.repeat(27)}12.txt`;
const TARGET = { group: 'group2', id: '10.0.0.2' };
const HOME = { group: 'group1', id: '10.0.0.1' };
const CONTENT = Buffer.alloc(3000, 5);
const METADATA = Buffer.from('a\x02b');
const ROW = 0;
const GUEST = 3;

class Killed extends Error {}

function guestsOf(server: OtherServer): Guests {
  return new Guests({ hosts: server, self: () => HOME });
}

async function opened(
  folder: string,
  server: OtherServer,
  onStep: (step: MoveStep) => void = () => {},
): Promise<OpenedTiers> {
  return openIn(folder, { onStep }, true, guestsOf(server));
}

async function tidy(tiers: OpenedTiers, server: OtherServer): Promise<void> {
  const options = { tiers: tiers.tiers, guests: guestsOf(server), graceMs: 0, intervalMs: 1000 };
  await new Departures(options).work();
}

async function withFile(folder: string, server: OtherServer): Promise<OpenedTiers> {
  const tiers = await opened(folder, server);
  await store(tiers, folder, NAME, CONTENT);
  await store(tiers, folder, `${NAME}-m`, METADATA);
  return tiers;
}

describe('a move to another metadata server', () => {
  it('leaves the record, with its metadata, and takes the bytes', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await withFile(folder, server);
    const { records } = tierOf(tiers);
    expect(await tierOf(tiers).moveToGuest(NAME, TARGET, 1)).toBe('moved');
    expect(records.find(NAME)).toMatchObject({ place: GUEST, size: 3000, moves: 1 });
    expect(records.bytes(NAME)).toBeUndefined();
    expect(records.waitingDepartures).toBe(0);
    const [name] = [...server.files.keys()];
    expect(name).toMatch(/^M00\/00\/00\/a{27}g[0-9a-f]{12}\.moved$/);
    expect(isGuestBase(name!.slice(name!.lastIndexOf('/') + 1))).toBe(true);
    expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
    expect(await contentOf(tiers, folder, `${NAME}-m`)).toEqual(METADATA);
    await tiers.close();
    const again = await opened(folder, server);
    expect(await contentOf(again, folder, NAME)).toEqual(CONTENT);
    // What is with another server goes nowhere else from here.
    expect(await tierOf(again).moveToGuest(NAME, TARGET, 1)).toBe('refused');
    expect(await tierOf(again).moveToFile(NAME)).toBe('refused');
    expect(await tierOf(again).moveToRow(NAME, THRESHOLD)).toBe('moved');
    await tidy(again, server);
    expect(server.files.size).toBe(0);
    expect(await contentOf(again, folder, NAME)).toEqual(CONTENT);
    await again.close();
  });

  it.each(['marked', 'copied', 'verified', 'switched'] as const)(
    'that is killed when %s leaves one whole copy, and nothing at the other server for long',
    async (step) => {
      const folder = temporaryFolder();
      const server = new OtherServer();
      await (await withFile(folder, server)).close();
      const dying = await opened(folder, server, (reached) => {
        if (reached === step) throw new Killed();
      });
      await expect(tierOf(dying).moveToGuest(NAME, TARGET, 1)).rejects.toThrow(Killed);
      dying.abandon();
      const tiers = await opened(folder, server);
      const isAway = tierOf(tiers).records.find(NAME)!.place === GUEST;
      expect(isAway).toBe(step === 'switched');
      await tidy(tiers, server);
      expect(server.files.size).toBe(isAway ? 1 : 0);
      expect(tierOf(tiers).records.waitingDepartures).toBe(0);
      expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
      expect(await contentOf(tiers, folder, `${NAME}-m`)).toEqual(METADATA);
      // And it can be made again.
      if (!isAway) expect(await tierOf(tiers).moveToGuest(NAME, TARGET, 1)).toBe('moved');
      expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
      await tiers.close();
    },
  );

  it('home that is killed leaves one whole copy', async () => {
    for (const step of ['copied', 'switched'] as const) {
      const folder = temporaryFolder();
      const server = new OtherServer();
      const before = await withFile(folder, server);
      await tierOf(before).moveToGuest(NAME, TARGET, 1);
      await before.close();
      const dying = await opened(folder, server, (reached) => {
        if (reached === step) throw new Killed();
      });
      await expect(tierOf(dying).moveToRow(NAME, THRESHOLD)).rejects.toThrow(Killed);
      dying.abandon();
      const tiers = await opened(folder, server);
      const isHome = tierOf(tiers).records.find(NAME)!.place === ROW;
      expect(isHome).toBe(step === 'switched');
      await tidy(tiers, server);
      expect(server.files.size).toBe(isHome ? 0 : 1);
      expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
      await tiers.close();
    }
  });

  it.each(['marked', 'copied', 'verified'] as const)(
    'is revoked by a change when %s, and the change is made',
    async (step) => {
      const folder = temporaryFolder();
      const server = new OtherServer();
      let changed: Promise<void> | undefined;
      const tiers: OpenedTiers = await opened(folder, server, (reached) => {
        if (reached !== step || changed) return;
        changed = change(tiers, folder, NAME, { at: 0, bytes: Buffer.from('new') });
      });
      await store(tiers, folder, NAME, CONTENT);
      expect(await tierOf(tiers).moveToGuest(NAME, TARGET, 1)).toBe('revoked');
      await changed;
      expect((await contentOf(tiers, folder, NAME))?.subarray(0, 4)).toEqual(
        Buffer.from('new\x05'),
      );
      await tidy(tiers, server);
      expect(server.files.size).toBe(0);
      await tiers.close();
    },
  );

  it('is undone by a change, which brings the bytes home, into a row or a data file', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await withFile(folder, server);
    const tier = tierOf(tiers);
    await tier.moveToGuest(NAME, TARGET, 1);
    await change(tiers, folder, NAME, { at: 3000, bytes: Buffer.from('more') });
    expect(tier.records.find(NAME)).toMatchObject({ place: ROW, size: 3004 });
    expect(await contentOf(tiers, folder, NAME)).toEqual(
      Buffer.concat([CONTENT, Buffer.from('more')]),
    );
    await tier.moveToGuest(NAME, TARGET, 1);
    const growth = Buffer.alloc(2 * THRESHOLD, 6);
    await change(tiers, folder, NAME, { at: 3004, bytes: growth });
    expect(existsSync(join(folder, 'data', NAME))).toBe(true);
    expect((await contentOf(tiers, folder, NAME))?.subarray(3004)).toEqual(growth);
    expect(await contentOf(tiers, folder, `${NAME}-m`)).toEqual(METADATA);
    await tidy(tiers, server);
    expect(server.files.size).toBe(0);
    await tiers.close();
  });

  it('ends with a deletion, which the other server hears of when it is there again', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await withFile(folder, server);
    await tierOf(tiers).moveToGuest(NAME, TARGET, 1);
    server.isAway = true;
    // Nobody needs its bytes for that.
    await tiers.disk.unlink(join(folder, 'data', NAME));
    await tiers.disk.syncDirectory(join(folder, 'data', '00', '00'));
    expect(await tiers.disk.exists(join(folder, 'data', NAME))).toBe(false);
    await tidy(tiers, server);
    expect(tierOf(tiers).records.waitingDepartures).toBe(1);
    tiers.abandon();
    const again = await opened(folder, server);
    server.isAway = false;
    await tidy(again, server);
    expect(tierOf(again).records.waitingDepartures).toBe(0);
    expect(server.files.size).toBe(0);
    await again.close();
  });

  it('is refused where the other server is busy or away, and fails where it alters bytes', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await withFile(folder, server);
    server.isBusy = true;
    expect(await tierOf(tiers).moveToGuest(NAME, TARGET, 1)).toBe('refused');
    server.isBusy = false;
    server.isAway = true;
    expect(await tierOf(tiers).moveToGuest(NAME, TARGET, 1)).toBe('refused');
    server.isAway = false;
    server.alters = true;
    await expect(tierOf(tiers).moveToGuest(NAME, TARGET, 1)).rejects.toThrow('other bytes');
    server.alters = false;
    expect(tierOf(tiers).records.find(NAME)).toMatchObject({ place: ROW, moves: 0 });
    expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
    await tidy(tiers, server);
    expect(server.files.size).toBe(0);
    await tiers.close();
  });

  it('is never made of what another server has given: no record leads to a record', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await opened(folder, server);
    const guest = `00/00/${'b'.repeat(27)}g0123456789ab.moved`;
    await store(tiers, folder, guest, CONTENT);
    expect(await tierOf(tiers).moveToGuest(guest, TARGET, 1)).toBe('refused');
    await tiers.close();
  });

  it('metadata is changed at home while the other server is away; bytes say so', async () => {
    const folder = temporaryFolder();
    const server = new OtherServer();
    const tiers = await withFile(folder, server);
    await tierOf(tiers).moveToGuest(NAME, TARGET, 1);
    server.isAway = true;
    await store(tiers, folder, `${NAME}-m`, Buffer.from('c\x02d'));
    expect(await contentOf(tiers, folder, `${NAME}-m`)).toEqual(Buffer.from('c\x02d'));
    await expect(contentOf(tiers, folder, NAME)).rejects.toMatchObject({ status: Status.tryAgain });
    const write = change(tiers, folder, NAME, { at: 0, bytes: Buffer.from('x') });
    await expect(write).rejects.toMatchObject({ status: Status.tryAgain });
    server.isAway = false;
    expect(await contentOf(tiers, folder, NAME)).toEqual(CONTENT);
    await tiers.close();
  });
});
