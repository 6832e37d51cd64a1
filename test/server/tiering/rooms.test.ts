import { type MigrationRoom, migrationRoom } from '@stevedore/protocol';
import { type Address, checkAddress, control, FrameServer, type Handler } from '@stevedore/wire';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  OtherRooms,
  OwnRoom,
  roomHandler,
} from '../../../packages/tiering/dist/migration/rooms.js';
import { connectionLimits } from '../../../packages/wire/dist/server/limits.js';
import { until } from '../../support/storage/support.js';

/** Which metadata server takes load of another one, and how much of it. */

const IDLE = { metadataBytes: 0, smallFileBytes: 0 };
const NOBODY = checkAddress('127.0.0.1:1', 1);

async function serving(...handlers: readonly Handler<undefined>[]): Promise<Address> {
  const server = new FrameServer<undefined>({
    role: 'storage',
    host: '127.0.0.1',
    port: 0,
    limits: connectionLimits({}),
    handlers: new Map(handlers.map((handler) => [handler.code, handler])),
    closesAfterInvalid: true,
    onError: () => {},
    openSession: () => undefined,
    closeSession: () => {},
  });
  await server.listen();
  onTestFinished(() => server.close());
  return checkAddress(`127.0.0.1:${server.port}`, 1);
}

/** One with so much room, in bytes a second. */
async function withRoom(bytes: number) {
  const room = new OwnRoom();
  room.begin(IDLE, bytes, 1, true);
  return { room, at: await serving(roomHandler(room)) };
}

function roomsOf(groups: Readonly<Record<string, readonly Address[] | Error>>): OtherRooms {
  const rooms = new OtherRooms({
    groups: Object.keys(groups),
    storagesOf: async (group) => {
      const storages = groups[group]!;
      if (storages instanceof Error) throw storages;
      return storages;
    },
    access: { secret: undefined, withoutSecret: 'all' },
  });
  onTestFinished(() => rooms.close());
  return rooms;
}

describe('the room of a metadata server', () => {
  it('is none before its first interval has ended', () => {
    const none = { capacityBytes: 1, metadataBytes: 0, smallFileBytes: 0, markPerMille: 0 };
    expect(new OwnRoom().take(1000)).toEqual({ ...none, takenBytes: 0 });
  });

  it('is what its load leaves up to its mark, for one that asks for some of it', () => {
    const room = new OwnRoom();
    room.begin({ metadataBytes: 100.4, smallFileBytes: 50.6 }, 1000.3, 0.8, true);
    const told = {
      capacityBytes: 1000,
      metadataBytes: 100,
      smallFileBytes: 51,
      markPerMille: 800,
    };
    // Who asks for nothing takes nothing.
    expect(room.take(0)).toEqual({ ...told, takenBytes: 0 });
    expect(room.take(10.9)).toEqual({ ...told, takenBytes: 10 });
    expect(room.take(1)).toEqual({ ...told, markPerMille: 0, takenBytes: 0 });
    room.begin({ metadataBytes: 100.4, smallFileBytes: 50.6 }, 1000.3, 0.8, true);
    expect(room.take(10_000)).toEqual({ ...told, takenBytes: 649 });
  });

  it.each([
    ['has load to move itself', 0, false],
    ['is at its mark', 800, true],
  ])('is none while it %s', (_, metadataBytes, mayTake) => {
    const room = new OwnRoom();
    room.begin({ metadataBytes, smallFileBytes: 0 }, 1000, 0.8, mayTake);
    expect(room.take(10)).toMatchObject({ metadataBytes, markPerMille: 0, takenBytes: 0 });
  });
});

describe('load', () => {
  it('goes to the server whose room fits best, which takes no other then', async () => {
    const [large, fitting, small] = [
      await withRoom(9000),
      await withRoom(4000),
      await withRoom(3900),
    ];
    const rooms = roomsOf({ group2: [large.at, fitting.at], group3: [small.at] });
    // Of half a second.
    expect(await rooms.find(2000, 500)).toEqual({ group: 'group2', roomBytes: 2000 });
    expect(fitting.room.take(1)).toMatchObject({ takenBytes: 0 });
    for (const { room } of [large, small]) expect(room.take(1)).toMatchObject({ takenBytes: 1 });
  });

  it('that none has room for goes in part to the one with the most', async () => {
    const [small, large] = [await withRoom(1000), await withRoom(3000)];
    const rooms = roomsOf({ group2: [small.at], group3: [large.at] });
    expect(await rooms.find(2000, 500)).toEqual({ group: 'group3', roomBytes: 1500 });
  });

  it('goes nowhere where none has room', async () => {
    const full = new OwnRoom();
    full.begin({ metadataBytes: 1000, smallFileBytes: 0 }, 1000, 1, true);
    expect(await roomsOf({}).find(2000, 500)).toBeUndefined();
    const rooms = roomsOf({ group2: [await serving(roomHandler(full))] });
    expect(await rooms.find(2000, 500)).toBeUndefined();
  });

  it('goes as far as its mark to a server that has one', async () => {
    const room = new OwnRoom();
    room.begin({ metadataBytes: 100, smallFileBytes: 0 }, 1000, 0.6, true);
    const rooms = roomsOf({ group2: [await serving(roomHandler(room))] });
    expect(await rooms.find(2000, 1000)).toEqual({ group: 'group2', roomBytes: 500 });
  });

  it('goes past storages that are away, know no such question, or are in no list', async () => {
    const { at } = await withRoom(3000);
    const rooms = roomsOf({
      group2: new Error('there is no such group'),
      group3: [NOBODY, await serving(), at],
    });
    expect(await rooms.find(1000, 1000)).toEqual({ group: 'group3', roomBytes: 1000 });
  });

  it.each([
    ['has given its room to another meanwhile', (room: MigrationRoom) => room],
    [
      'is away by then',
      () => {
        throw new Error('away');
      },
    ],
  ])('stays where the one that was chosen %s', async (_, answer) => {
    const room = { ...IDLE, capacityBytes: 5000, markPerMille: 1000, takenBytes: 0 };
    const asked: number[] = [];
    const at = await serving(
      control(migrationRoom, (wantedBytes) => {
        asked.push(wantedBytes);
        return wantedBytes === 0 ? room : answer(room);
      }),
    );
    expect(await roomsOf({ group2: [at] }).find(2000.5, 1000)).toBeUndefined();
    expect(asked).toEqual([0, 2001]);
  });

  it('is offered to 64 storages at most', async () => {
    const { at } = await withRoom(3000);
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const away = (count: number) => Array.from({ length: count }, () => NOBODY);
    const rooms = roomsOf({ group2: away(63), group3: [at] });
    expect(await rooms.find(1000, 1000)).toMatchObject({ group: 'group3' });
    const later = await withRoom(3000);
    const more = roomsOf({ group2: away(64), group3: [later.at] });
    expect(await more.find(1000, 1000)).toBeUndefined();
    expect(warnings).toEqual([]);
  });

  it('goes nowhere once the storage closes, which waits for no answer', async () => {
    const { room, at } = await withRoom(3000);
    let answer: (() => void) | undefined;
    const silent = await serving(
      control(migrationRoom, async () => {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
        return room.take(0);
      }),
    );
    const rooms = roomsOf({ group2: [silent, at] });
    const finding = rooms.find(1000, 1000);
    await until(() => answer !== undefined);
    rooms.close();
    expect(await finding).toBeUndefined();
    expect(await rooms.find(1000, 1000)).toBeUndefined();
    answer!();
    expect(room.take(1)).toMatchObject({ takenBytes: 1 });
  });
});
