import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import {
  deleteFile,
  encodeHeader,
  reportServerId,
  Status,
  syncAppendFile,
  syncCreateFile,
  syncCreateLink,
  syncDeleteFile,
  syncModifyFile,
  syncRenameFile,
  syncTruncateFile,
  syncUpdateFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../support/random.js';
import { contentsOf, done, groupOf, send } from './group.js';
import { filesIn, RawClient } from './support.js';

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
    await add(send(await open(), command, { ...change, size }, CONTENT));
  }
  for (const command of [syncAppendFile, syncModifyFile]) {
    await add(send(await open(), command, { ...change, offset: 0, size }, CONTENT));
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
    expect(await attempts(open, file.name)).toEqual(Array.from({ length: 8 }, () => 13));
    const client = await open();
    expect((await client.ask(reportServerId, group.members[1]!.host)).status).toBe(13);
    expect([...(await contentsOf(a!)).keys()]).toEqual([file.name]);
    await done(client, deleteFile, file);
  });

  it('has the files of a member up to the times of its own records, not of others', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const file = await (await a!.connect()).upload(CONTENT);
    const own = await (await b!.connect()).upload(CONTENT);
    await b!.stop();
    const client = await from(b!.host, { host: a!.host, port: a!.storage!.port });
    await done(client, reportServerId, b!.host);
    const change = { group: 'group1', atSeconds: 2_000_000_000, name: file.name };
    expect((await client.ask(syncDeleteFile, change)).status).toBe(0);
    await client.ask(syncDeleteFile, { ...change, atSeconds: 1_999_999_999, name: own.name });
    await a!.stop();
    const synced = await readFile(join(a!.folder, 'data', 'sync', 'synced.json'), 'utf8');
    expect(JSON.parse(synced)).toEqual({ [b!.host]: 1_999_999_999 });
  });

  it('keeps a slave that is younger than a deletion that is passed on late', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members;
    const connection = await a!.connect();
    const { name: master } = await connection.upload(CONTENT);
    const request = { master, prefix: '_s', extension: 'txt', size: CONTENT.length };
    const { answer: slave } = await send(connection, uploadSlaveFile, request, CONTENT);
    await b!.stop();
    const client = await from(b!.host, { host: a!.host, port: a!.storage!.port });
    const change = { group: 'group1', atSeconds: 1_000_000_000, name: slave!.name };
    expect((await client.ask(syncDeleteFile, change)).status).toBe(0);
    expect((await contentsOf(a!)).has(slave!.name)).toBe(true);
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
    const group = await groupOf(2, { requestTimeoutMs: 300, maxDrainBytes: 0 });
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
    for (let count = 0; count < 300; count++) {
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
    expect(Status.accessDenied).toBe(13);
  });
});
