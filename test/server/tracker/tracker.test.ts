import {
  beat,
  type DiskUsage,
  encodeRequest,
  type JoinRequest,
  join,
  parameterReq,
  queryStore,
  queryStoreInGroup,
  reportDiskUsage,
  StorageStatus,
  syncDestReq,
  syncNotify,
} from '@stevedore/protocol';
import type { TrackerOptions } from '@stevedore/tracker';
import { describe, expect, it } from 'vitest';
import { type RawClient, trackerOf, until } from '../../support/storage/support.js';
import { bodyOf, frameVectors } from '../../support/vectors.js';

const firstJoin = frameVectors('storage-to-tracker').find(
  ({ cluster, op }) => cluster === 'plain' && op === 'first.127.0.17.3.STORAGE_JOIN',
)!;

function joinOf(changes: Partial<JoinRequest> = {}): JoinRequest {
  return { ...join.request.decode(bodyOf(firstJoin.request_hex)), ...changes };
}

const room: DiskUsage = { totalMegabytes: 100_000, freeMegabytes: 50_000 };

/** A storage that has joined and is active, with so much room on each of its store paths. */
async function member(
  tracker: { connect(): Promise<RawClient> },
  changes: Partial<JoinRequest>,
  freeMegabytes = room.freeMegabytes,
) {
  const client = await tracker.connect();
  const request = joinOf(changes);
  expect((await client.ask(join, request)).status).toBe(0);
  const nobody = { sourceId: '', untilSeconds: 0 };
  expect((await client.ask(syncNotify, nobody)).status).toBe(0);
  const usage = Array.from({ length: request.storePathCount }, () => ({ ...room, freeMegabytes }));
  expect((await client.ask(reportDiskUsage, usage)).status).toBe(0);
  return client;
}

describe('a tracker', () => {
  it('answers wide addresses when told to, and tells storages so', async () => {
    const tracker = await trackerOf({ addressWidth: 'wide' });
    const storage = await member(tracker, {});
    const { body } = await storage.exchange(encodeRequest(queryStore, undefined));
    expect(body.length).toBe(70);
    expect(queryStore.reply.decode(body).address).toBe('127.0.0.1');
    const { answer } = await storage.ask(parameterReq, undefined);
    expect(answer!.get('response_ip_addr_size')).toBe('46');
  });

  it('knows no storage before its first copy is settled and it has reported', async () => {
    const tracker = await trackerOf();
    const storage = await tracker.connect();
    expect((await storage.ask(queryStore, undefined)).status).toBe(2);
    await storage.ask(join, joinOf());
    expect((await storage.ask(queryStore, undefined)).status).toBe(2);
    await storage.ask(reportDiskUsage, [room]);
    expect((await storage.ask(queryStore, undefined)).status).toBe(2);
    expect(await storage.ask(syncDestReq, undefined)).toEqual({ status: 0, answer: undefined });
    await storage.ask(reportDiskUsage, [room]);
    expect((await storage.ask(queryStore, undefined)).status).toBe(0);
  });

  it('forgets a storage whose connection ends and takes it back', async () => {
    const tracker = await trackerOf();
    const storage = await member(tracker, {});
    const client = await tracker.connect();
    expect((await client.ask(queryStore, undefined)).status).toBe(0);
    storage.socket.destroy();
    await until(async () => (await client.ask(queryStore, undefined)).status === 2);
    await member(tracker, {});
    expect((await client.ask(queryStore, undefined)).status).toBe(0);
  });

  it('is not misled by an old connection that ends after the storage has joined anew', async () => {
    const tracker = await trackerOf();
    const old = await member(tracker, {});
    const fresh = await member(tracker, {});
    old.socket.end();
    await old.ended();
    expect((await fresh.ask(queryStore, undefined)).status).toBe(0);
  });

  it('sends nobody to a storage that has been silent for too long', async () => {
    let nowMs = 1_800_000_000_000;
    const environment = { now: () => nowMs, uptimeMs: () => nowMs, random: () => 0 };
    const tracker = await trackerOf({ environment, checkActiveIntervalMs: 100_000 });
    const storage = await member(tracker, {});
    nowMs += 100_000;
    expect((await storage.ask(queryStore, undefined)).status).toBe(0);
    nowMs += 1;
    expect((await storage.ask(queryStore, undefined)).status).toBe(2);
    await storage.ask(beat, undefined);
    expect((await storage.ask(queryStore, undefined)).status).toBe(0);
  });

  it('loses no storage when somebody sets the clock', async () => {
    let nowMs = 1_800_000_000_000;
    const environment = { now: () => nowMs, uptimeMs: () => 1_000, random: () => 0 };
    const tracker = await trackerOf({ environment, checkActiveIntervalMs: 100_000 });
    const storage = await member(tracker, {});
    for (const changeMs of [3_600_000, -7_200_000]) {
      nowMs += changeMs;
      expect((await storage.ask(queryStore, undefined)).status).toBe(0);
      await storage.ask(beat, undefined);
      expect((await storage.ask(queryStore, undefined)).status).toBe(0);
    }
  });

  it('answers 28 when nobody has more room than is reserved', async () => {
    const tracker = await trackerOf({ reservedSpaceMegabytes: 512 });
    const storage = await member(tracker, {});
    await storage.ask(reportDiskUsage, [{ totalMegabytes: 1000, freeMegabytes: 512 }]);
    expect((await storage.ask(queryStore, undefined)).status).toBe(28);
    expect((await storage.ask(queryStoreInGroup, { group: 'group1' })).status).toBe(28);
    await storage.ask(reportDiskUsage, [{ totalMegabytes: 1000, freeMegabytes: 513 }]);
    expect((await storage.ask(queryStore, undefined)).status).toBe(0);
  });

  it('sends an upload to the group that the rule says', async () => {
    const groupsOf = async (options: TrackerOptions): Promise<string[]> => {
      const tracker = await trackerOf(options);
      await member(tracker, { group: 'groupA', port: 23_001, storePathCount: 2 }, 5_000);
      const client = await member(tracker, { group: 'groupB', port: 23_002 });
      const groups: string[] = [];
      for (let turn = 0; turn < 4; turn++) {
        const { status, answer } = await client.ask(queryStore, undefined);
        groups.push(answer ? `${answer.group}/${answer.storePathIndex}` : String(status));
      }
      return groups;
    };
    expect(await groupsOf({})).toEqual(['groupA/0', 'groupB/0', 'groupA/1', 'groupB/0']);
    const fixed = await groupsOf({ storeLookup: 'group', storeGroup: 'groupA' });
    expect(fixed).toEqual(['groupA/0', 'groupA/1', 'groupA/0', 'groupA/1']);
    expect(await groupsOf({ storeLookup: 'most-free' })).toEqual(Array(4).fill('groupB/0'));
    const none = await groupsOf({ storeLookup: 'group', storeGroup: 'none' });
    expect(none).toEqual(Array(4).fill('2'));
    const refused = trackerOf({ storeLookup: 'group' });
    await expect(refused).rejects.toMatchObject({ code: 'invalid_option' });
  });

  it('takes groups and store paths in turns and leaves full paths out', async () => {
    const tracker = await trackerOf();
    await member(tracker, { group: 'groupB', port: 23_002 });
    const storage = await member(tracker, { group: 'groupA', port: 23_001, storePathCount: 3 });
    const full = { totalMegabytes: 100, freeMegabytes: 1 };
    await storage.ask(reportDiskUsage, [room, full, room]);
    const targets: string[] = [];
    for (let index = 0; index < 6; index++) {
      const { answer } = await storage.ask(queryStore, undefined);
      targets.push(`${answer!.group}:${answer!.port}/${answer!.storePathIndex}`);
    }
    expect(targets).toEqual([
      'groupA:23001/0',
      'groupB:23002/0',
      'groupA:23001/2',
      'groupB:23002/0',
      'groupA:23001/0',
      'groupB:23002/0',
    ]);
  });

  it('refuses joins that cannot be', async () => {
    const tracker = await trackerOf();
    const client = await tracker.connect();
    const statusOf = async (changes: Partial<JoinRequest>) =>
      (await client.ask(join, joinOf(changes))).status;
    expect(await statusOf({ storePathCount: 0 })).toBe(22);
    expect(await statusOf({ storePathCount: 257 })).toBe(22);
    expect(await statusOf({ subdirectoriesPerPath: 257 })).toBe(22);
    expect(await statusOf({ initial: false, status: -1 })).toBe(14);
    expect(await statusOf({ initial: false, status: StorageStatus.deleted })).toBe(14);
    await member(tracker, {});
    expect(await statusOf({ port: 1 })).toBe(22);
    expect(await client.isOpen()).toBe(true);
  });
});
