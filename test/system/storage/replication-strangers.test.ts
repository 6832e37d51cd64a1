import { readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { deferred } from '@stevedore/async';
import { type Disk, decoratedDisk, localDisk } from '@stevedore/disk';
import {
  beat,
  deleteFile,
  encodeHeader,
  getMyIp,
  join,
  parameterReq,
  reportDiskUsage,
  reportServerId,
  Status,
  StorageStatus,
  syncAppendFile,
  syncCreateFile,
  syncCreateLink,
  syncDeleteFile,
  syncDestReq,
  syncModifyFile,
  syncRenameFile,
  syncTruncateFile,
  syncUpdateFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../../support/random.js';
import { contentsOf, groupOf, sameEverywhere } from '../../support/storage/group.js';
import { stockServer } from '../../support/storage/stock-server.js';
import {
  filesIn,
  hasten,
  RawClient,
  storageOf,
  turns,
  until,
} from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What a storage does with copies from those who may not send any, and from bad members. */

/** A connection that comes from an address. */
function from(localAddress: string, to: { host: string; port: number }): Promise<RawClient> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...to, localAddress, noDelay: true });
    onTestFinished(() => void socket.destroy());
    socket.once('error', reject);
    socket.once('connect', () => resolve(new RawClient(socket)));
  });
}

const CONTENT = Buffer.from('content');

/** Each way to change a file of this name from outside. */
async function attempts(open: () => Promise<RawClient>, name: string): Promise<number[]> {
  const change = { atSeconds: 1_900_000_000, group: 'group1', name };
  const size = CONTENT.length;
  const statuses: number[] = [];
  const add = async (asked: Promise<{ status: number }>): Promise<void> => {
    statuses.push((await asked).status);
  };
  for (const command of [syncCreateFile, syncUpdateFile]) {
    await add((await open()).bring(command, { ...change, size }, CONTENT));
  }
  for (const command of [syncAppendFile, syncModifyFile]) {
    await add((await open()).bring(command, { ...change, offset: 0, size }, CONTENT));
  }
  await add((await open()).ask(syncTruncateFile, { ...change, oldSize: 7, newSize: 1 }));
  for (const command of [syncCreateLink, syncRenameFile]) {
    await add((await open()).ask(command, { ...change, source: name }));
  }
  await add((await open()).ask(syncDeleteFile, change));
  return statuses;
}

describe('a storage of a group', () => {
  it('takes copies from members only', async () => {
    const group = await groupOf(2);
    const [a] = group.members;
    const file = await (await a!.connect()).upload(CONTENT);
    const stranger = a!.host.replace(/\d+$/, '200');
    const to = { host: a!.host, port: a!.storage!.port };
    const open = () => from(stranger, to);
    const denied = Array.from({ length: 8 }, () => Status.accessDenied);
    expect(await attempts(open, file.name)).toEqual(denied);
    const client = await open();
    expect((await client.ask(reportServerId, group.members[1]!.host)).status).toBe(13);
    expect([...(await contentsOf(a!)).keys()]).toEqual([file.name]);
    await client.must(deleteFile, file);
  });

  it('has the files of a member up to the times of its own records, not of others', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const file = await (await a!.connect()).upload(CONTENT);
    const own = await (await b!.connect()).upload(CONTENT);
    await b!.stop();
    const client = await from(b!.host, { host: a!.host, port: a!.storage!.port });
    await client.must(reportServerId, b!.host);
    const change = { group: 'group1', atSeconds: 2_000_000_000, name: file.name };
    expect((await client.ask(syncDeleteFile, change)).status).toBe(0);
    await client.ask(syncDeleteFile, { ...change, atSeconds: 1_999_999_999, name: own.name });
    await a!.stop();
    const synced = await readFile(path.join(a!.folder, 'data', 'sync', 'synced.json'), 'utf8');
    expect(JSON.parse(synced)).toEqual({ [b!.host]: 1_999_999_999 });
  });

  it('keeps a slave that is younger than a deletion that is passed on late', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const connection = await a!.connect();
    const { name: master } = await connection.upload(CONTENT);
    const request = { master, prefix: '_s', extension: 'txt', size: CONTENT.length };
    const { answer: slave } = await connection.bring(uploadSlaveFile, request, CONTENT);
    await b!.stop();
    const client = await from(b!.host, { host: a!.host, port: a!.storage!.port });
    const change = { group: 'group1', atSeconds: 1_000_000_000, name: slave!.name };
    expect((await client.ask(syncDeleteFile, change)).status).toBe(0);
    expect((await contentsOf(a!)).has(slave!.name)).toBe(true);
  });

  /** A member with a slave, whose disk can be held up; the other member is this test. */
  async function heldMember() {
    const gates = new Map<'exists' | 'rename', { passed: () => void; open: Promise<void> }>();
    const pass = async (step: 'exists' | 'rename', file: string): Promise<void> => {
      const gate = file.includes('_s') ? gates.get(step) : undefined;
      if (!gate) return;
      // Those who come after it are not held up.
      gates.delete(step);
      gate.passed();
      await gate.open;
    };
    const disk: Disk = decoratedDisk(localDisk, {
      exists: async (file) => {
        const isThere = await localDisk.exists(file);
        await pass('exists', file);
        return isThere;
      },
      rename: async (file, to) => {
        await pass('rename', to);
        await localDisk.rename(file, to);
      },
    });
    const group = await groupOf(2, { disk });
    const [a, b] = group.members;
    const connection = await a!.connect();
    const { name: master } = await connection.upload(CONTENT);
    const request = { master, prefix: '_s', extension: 'txt', size: 3 };
    const store = async (text: string) => {
      const { answer } = await connection.bring(uploadSlaveFile, request, Buffer.from(text));
      return answer!;
    };
    const slave = await store('old');
    await sameEverywhere(group.members);
    await b!.stop();
    const member = () => from(b!.host, { host: a!.host, port: a!.storage!.port });
    const hold = (step: 'exists' | 'rename') => {
      const { promise: open, resolve: release } = deferred<void>();
      const { promise: reached, resolve: passed } = deferred<void>();
      gates.set(step, { passed, open });
      return { release, reached };
    };
    const text = async () => (await contentsOf(a!)).get(slave.name)?.slice(-3);
    const change = { group: 'group1', atSeconds: Math.floor(Date.now() / 1000), name: slave.name };
    return { connection, slave, store, member, hold, text, change };
  }

  it('keeps a slave that is stored again while a late deletion looks for it', async () => {
    const { connection, slave, store, member, hold, text, change } = await heldMember();
    await connection.must(deleteFile, slave);
    const client = await member();
    const { release, reached } = hold('exists');
    const late = client.ask(syncDeleteFile, change);
    await reached;
    await store('new');
    release();
    expect((await late).status).toBe(2);
    expect(await text()).toBe('new');
  });

  it('keeps a slave that takes the place of an older one while a late deletion waits', async () => {
    const { member, hold, text, change } = await heldMember();
    const [client, other] = [await member(), await member()];
    const { release, reached } = hold('rename');
    const younger = { ...change, atSeconds: change.atSeconds + 9, size: 3 };
    const sent = other.bring(syncUpdateFile, younger, Buffer.from('new'));
    await reached;
    const late = client.ask(syncDeleteFile, { ...change, atSeconds: change.atSeconds + 5 });
    await turns();
    release();
    expect((await late).status).toBe(0);
    expect((await sent).status).toBe(0);
    expect(await text()).toBe('new');
  });

  it('takes no name from a member that leads anywhere else', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const file = await (await a!.connect()).upload(CONTENT);
    const before = await filesIn(a!.folder);
    await b!.stop();
    const to = { host: a!.host, port: a!.storage!.port };
    const open = () => from(b!.host, to);
    const base = file.name.slice(10);
    const names = [
      `M00/00/../${base}`,
      `M00/../../${base}`,
      `M01/00/00/${base}`,
      `M00/00/00/../../../etc/passwd`,
      `M00/00/00/${base}/x`,
      'data/sync/binlog.000',
      'M00/00/00/.tmp',
      `${file.name}-m-m`,
      `M00/00/00/${'A'.repeat(27)}\0.txt`,
    ];
    for (const name of names) {
      expect(await attempts(open, name), name).toEqual(Array.from({ length: 8 }, () => 22));
    }
    expect(await filesIn(a!.folder)).toEqual(before);
  });

  it('outlives what a broken member may send', async () => {
    const group = await groupOf(2, { requestTimeoutMs: 2000 });
    const [a, b] = group.members;
    const file = await (await a!.connect()).upload(CONTENT);
    await b!.stop();
    const to = { host: a!.host, port: a!.storage!.port };
    const random = new Random(Number(process.env.STEVEDORE_TEST_SEED ?? 1));
    const commands = [
      syncCreateFile,
      syncUpdateFile,
      syncAppendFile,
      syncModifyFile,
      syncTruncateFile,
      syncDeleteFile,
      syncCreateLink,
      syncRenameFile,
      reportServerId,
    ];
    const other = file.name.replace(/.{3}\.txt$/, '999.txt');
    for (let count = 0; count < 120; count++) {
      const client = await from(b!.host, to);
      const command = random.pick(commands);
      const change = { atSeconds: random.below(2 ** 31), group: 'group1', name: other };
      const request = { ...change, offset: 0, size: 7, oldSize: 7, newSize: 9, source: other };
      const body = Buffer.concat([syncModifyFile.request.encode(request), CONTENT]);
      for (let flips = random.below(4); flips > 0; flips--) {
        body[random.below(body.length)] = random.below(256);
      }
      const sent = body.subarray(0, random.below(body.length + 1));
      const bodyBytes = random.below(3) === 0 ? random.below(2 ** 30) : sent.length;
      const status = random.below(2) === 0 ? 0 : 17;
      client.send(
        Buffer.concat([encodeHeader({ bodyBytes, command: command.code, status }), sent]),
      );
      if (random.below(2) === 0) client.socket.destroy();
      else await Promise.race([client.reply(), new Promise((resolve) => setTimeout(resolve, 20))]);
      client.socket.destroy();
    }
    expect(await (await a!.connect()).isOpen()).toBe(true);
    const places = (await filesIn(a!.folder)).filter((path) => !/^data\/[0-9A-F]{2}\//.test(path));
    expect(places.filter((path) => !path.startsWith('data/.tmp'))).toEqual([]);
    expect((await contentsOf(a!)).get(file.name)?.endsWith('content')).toBe(true);
  });

  it("takes a stock member's links, which go with their files", async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const client = await a!.connect();
    const { name: source } = await client.upload(CONTENT);
    await b!.stop();
    const member = await from(b!.host, { host: a!.host, port: a!.storage!.port });
    await member.must(reportServerId, b!.host);
    const link = { group: 'group1', name: source.replace(/.{3}\.txt$/, '999.lnk') };
    const sent = { ...link, source, atSeconds: 1_795_000_000 };
    expect((await member.ask(syncCreateLink, sent)).status).toBe(0);
    for (let reads = 0; reads < 2; reads += 1) expect(await client.read(link)).toEqual(CONTENT);
    expect((await client.ask(deleteFile, { group: 'group1', name: source })).status).toBe(0);
    expect(await client.read(link)).toBe(2);
  });

  it('shows itself away to a stock storage that does not begin its first copy', async () => {
    const group = await groupOf(1);
    const [a] = group.members;
    const { port } = a!.storage!;
    const stock = await from(a!.host.replace(/\d+$/, '9'), group.tracker);
    const times = { joinedAtSeconds: 1_795_000_000, startedAtSeconds: 1_795_000_000 };
    const paths = { storePathCount: 1, subdirectoriesPerPath: 4, uploadPriority: 10 };
    const self = { version: '6.16.1', initial: false, status: 7, storageId: '' };
    const trackerAddress = group.tracker.host;
    const trackers = [`${trackerAddress}:${group.tracker.port}`];
    const where = { group: 'group1', port, trackerAddress, trackers };
    await stock.must(join, { ...where, ...times, ...paths, ...self });
    await stock.must(beat, undefined);
    await a!.stop();
    await rm(a!.folder, { recursive: true });
    await a!.start();
    hasten(20);
    for (const status of [StorageStatus.waitSync, StorageStatus.offline, StorageStatus.waitSync]) {
      await until(async () => (await group.statusOf(a!)) === status);
    }
    expect(a!.errors.map(({ message }) => message).join()).toContain('no member has begun');
  });

  it('does not beat at a stock tracker that takes an empty storage for ONLINE', async () => {
    const folder = temporaryFolder();
    const host = '127.0.29.2';
    const online = { status: StorageStatus.online, sourceId: '' };
    const requests = await stockServer(
      '127.0.29.1',
      22_122,
      new Map([
        [getMyIp.code, { body: getMyIp.reply.encode(host) }],
        [parameterReq.code, { body: parameterReq.reply.encode(new Map()) }],
        [join.code, { body: join.reply.encode(online) }],
        [syncDestReq.code, { status: 2 }],
      ]),
    );
    const trackers = ['127.0.29.1:22122'];
    await storageOf({ folder, host, trackers });
    const asked = () => requests.filter(({ code }) => code === syncDestReq.code).length;
    await until(() => asked() >= 3);
    const codes = requests.map(({ code }) => code);
    expect(codes).not.toContain(beat.code);
    expect(codes).not.toContain(reportDiskUsage.code);
  });
});
