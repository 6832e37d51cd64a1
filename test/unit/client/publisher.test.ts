import { MapError, type PlacedFile, type RemovedFile } from '@stevedore/map';
import type { Outbox, OutboxEntry, PublishedFile } from '@stevedore/staging';
import { expect, it } from 'vitest';
import { Publisher } from '../../../packages/client/dist/deployment/publisher.js';

/** What waits in the outbox reaches the map in order, in steps, whatever fails in between. */

const KEY = (n: number): Buffer => Buffer.alloc(16, n);

function published(count: number): PublishedFile[] {
  const file = { key: KEY(1), size: 1, crc32: 0, about: '{}', expiresAt: null };
  return Array.from({ length: count }, (_, offset) => ({ ...file, offset }));
}

function trunk(id: number, state: string, files = 0): OutboxEntry {
  const row = { taskId: KEY(id), state, fileId: `trunk ${id}` };
  const all = published(files);
  const read = (after: number, limit: number) =>
    all.filter(({ offset }) => offset > after).slice(0, limit);
  return { id, what: 'trunk', trunk: row, files: read } as unknown as OutboxEntry;
}

const deletion = (id: number): OutboxEntry => ({
  ...{ id, what: 'deletion', key: KEY(id), taskId: undefined },
});

/** A map that takes so many statements, and what it was told. */
function scene(entries: OutboxEntry[], statements = Number.POSITIVE_INFINITY) {
  const told: string[] = [];
  let left = statements;
  const tell = async (what: string): Promise<void> => {
    if (left-- <= 0) throw new MapError('map_unavailable', 'away');
    told.push(what);
  };
  const outbox = {
    read: (limit: number) => entries.slice(0, limit),
    forget: (upTo: number) => {
      while (entries[0] && entries[0].id <= upTo) entries.shift();
    },
    get pending() {
      return entries.length;
    },
  };
  const map = {
    place: ({ fileId }: { fileId: string }, files: readonly PlacedFile[]) =>
      tell(`place ${files.length} in ${fileId}`),
    retire: (id: Uint8Array) => tell(`retire ${id[0]}`),
    remove: (files: readonly RemovedFile[], isSettled: boolean) =>
      tell(`remove ${files.map(({ key }) => key[0])} ${isSettled}`),
  };
  const publisher = new Publisher(map, outbox as unknown as Outbox);
  return { told, publisher, takeMore: (count: number) => (left = count) };
}

const ALL = () => [
  trunk(1, 'confirmed', 5_000),
  deletion(2),
  deletion(3),
  trunk(4, 'retiring'),
  trunk(5, 'retired'),
  deletion(6),
  trunk(7, 'confirmed'),
];
const TOLD = [
  ...['place 2000 in trunk 1', 'place 2000 in trunk 1', 'place 1000 in trunk 1'],
  ...['remove 2,3 true', 'retire 5', 'remove 6 true', 'place 0 in trunk 7'],
];

it('deletions that follow each other are one statement, a trunk is several where it is long', async () => {
  const { told, publisher } = scene(ALL());
  expect(await publisher.publish(60_000)).toBe(false);
  expect(told).toEqual(TOLD);
  expect(publisher.pending).toBe(0);
});

it('what the map did not take waits, and is told again from the entry on that failed', async () => {
  for (let taken = 0; taken < TOLD.length; taken++) {
    const { told, publisher, takeMore } = scene(ALL(), taken);
    await expect(publisher.publish(60_000)).rejects.toMatchObject({ code: 'map_unavailable' });
    expect(told).toEqual(TOLD.slice(0, taken));
    takeMore(100);
    expect(await publisher.publish(60_000)).toBe(false);
    // The trunk that was cut is placed as a whole.
    const again = taken < 3 ? 0 : taken;
    expect(told.slice(taken)).toEqual(TOLD.slice(again));
  }
});

it('stops after its time, between two entries, and says that there is more', async () => {
  const { told, publisher } = scene(ALL());
  expect(await publisher.publish(-1)).toBe(true);
  expect(told).toEqual(TOLD.slice(0, 3));
  expect(publisher.pending).toBe(6);
});
