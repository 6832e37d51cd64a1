import { appendFile as appendToFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Storage, StorageOptions } from '@stevedore/node';
import { deleteFile, type FileName, uploadSlaveFile } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import {
  contentsOf,
  groupOf,
  type MemberOfTest,
  pathExists,
  sameEverywhere,
} from '../../support/storage/group.js';
import { download, gatedDisk } from '../../support/storage/group-requests.js';
import { idOf, until } from '../../support/storage/support.js';

/** How many members have a new file when it is answered, and when the others get it. */

describe('an upload', () => {
  it('needs as many members as the operator says', async () => {
    const group = await groupOf(2, { writeCopies: 2, writeTimeoutMs: 5000 });
    const [a, b] = group.members as [MemberOfTest, MemberOfTest];
    const client = await a.connect();
    const file = await client.upload(Buffer.from('twice'));
    expect(await download(b, file)).toBe('twice');
    const slaveFile = await client.slave(file, 'a slave');
    expect(await download(b, slaveFile)).toBe('a slave');
    await b.stop();
    const refusal = () => client.upload(Buffer.from('once')).then(() => '', String);
    await until(async () => (await refusal()).endsWith('status 11'));
    const request = { master: file.name, prefix: '_t', extension: 'txt', size: 1 };
    expect((await client.bring(uploadSlaveFile, request, Buffer.from('t'))).status).toBe(11);
    expect([...(await contentsOf(a)).keys()]).toEqual([file.name, slaveFile.name].sort());
    // A deletion waits for nobody.
    await client.must(deleteFile, slaveFile);
    await b.start();
    await sameEverywhere(group.members);
    expect([...(await contentsOf(b)).keys()]).toEqual([file.name]);
  });

  it('that too few members get in time is removed again', async () => {
    const { group, slow, hold } = await groupWithSlow({ writeCopies: 3, writeTimeoutMs: 3000 });
    const client = await group.members[0]!.connect();
    const file = await client.upload(Buffer.from('in time'));
    expect(await download(slow, file)).toBe('in time');
    const release = hold();
    await expect(client.upload(Buffer.from('too late'))).rejects.toThrow('status 11');
    release();
    await sameEverywhere(group.members);
    expect([...(await contentsOf(slow)).keys()]).toEqual([file.name]);
  });

  it('of a slave that is refused leaves the slave alone that another member took since', async () => {
    const { group, slow, hold } = await groupWithSlow({ writeCopies: 2, writeTimeoutMs: 3000 });
    const [first, second] = group.members as [MemberOfTest, MemberOfTest];
    const client = await first.connect();
    const { name } = await client.upload(Buffer.from('master'));
    await sameEverywhere(group.members);
    await second.stop();
    const release = hold();
    const request = { master: name, prefix: '_s', extension: 'txt', size: 3 };
    const refused = client.bring(uploadSlaveFile, request, Buffer.from('one'));
    // It is made here, and too few have it; the other one takes it after that.
    await until(async () => (await contentsOf(first)).size > 1);
    expect((await refused).status).toBe(11);
    await first.stop();
    await second.start();
    const taken = await (await second.connect()).bring(
      uploadSlaveFile,
      request,
      Buffer.from('two'),
    );
    expect(taken.status).toBe(0);
    release();
    await first.start();
    await sameEverywhere(group.members);
    expect(await download(second, taken.answer!)).toBe('two');
    expect(await download(slow, taken.answer!)).toBe('two');
  });

  it('waits for nobody by default, and members that were slow catch up', async () => {
    const { group, slow, hold } = await groupWithSlow();
    const client = await group.members[0]!.connect();
    const release = hold();
    const files: FileName[] = [];
    for (let count = 0; count < 40; count++) {
      files.push(await client.upload(Buffer.from(`file ${count}`)));
    }
    const source = group.members[0]!.storage!;
    const progress = () => source.replicationStatus().members.find(({ id }) => id === slow.host)!;
    expect(progress().lagBytes).toBeGreaterThan(0);
    for (const file of files) {
      expect(await pathExists(slow, file)).toBe(false);
      expect(await download(group.members[0]!, file)).toMatch(/^file/);
    }
    release();
    await sameEverywhere(group.members);
    await until(() => progress().lagBytes === 0);
    expect(progress()).toMatchObject({ isConnected: true, refused: 0 });
  });

  it('that a crash has left without a record reaches the others with the next log', async () => {
    const group = await groupOf(1);
    const [a] = group.members as [MemberOfTest];
    const client = await a.connect();
    const file = await client.upload(Buffer.from('unsynced'));
    await a.stop();
    await appendToFile(join(a.folder, 'data', 'sync', 'binlog.000'), '17952');
    await a.start();
    const b = group.add();
    await b.start();
    await b.storage!.active();
    await sameEverywhere([a, b]);
    expect(await download(b, file)).toBe('unsynced');
    expect(idOf(file).name).toBe(file.name);
  });
});

/** A group of two, and a third member whose disk can be held up. */
async function groupWithSlow(options: Partial<StorageOptions> = {}) {
  const group = await groupOf(2);
  const slow = group.add();
  const { disk, hold } = gatedDisk();
  await slow.start({ disk });
  await slow.storage!.active();
  const [first] = group.members;
  await first!.stop();
  await first!.start(options);
  await first!.storage!.active();
  await until(() => isLevel(first!.storage!));
  return { group, slow, hold };
}

/** All other members are connected and have its log. */
function isLevel(storage: Storage): boolean {
  const { members } = storage.replicationStatus();
  return members.length > 0 && members.every((each) => each.isConnected && each.lagBytes === 0);
}
