import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FastdfsClient } from '@stevedore/fastdfs';
import {
  deleteFile,
  deleteStorage,
  type FileName,
  getMetadata,
  listStorage,
  queryFetch,
  queryFetchAll,
  queryUpdate,
  regenerateAppender,
  StorageStatus,
  setMetadata,
  truncateFile,
} from '@stevedore/protocol';
import { systemEnvironment } from '@stevedore/wire';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  contentsOf,
  type GroupOfTest,
  groupOf,
  type MemberOfTest,
  pathExists,
  sameEverywhere,
} from '../../support/storage/group.js';
import { download, gatedDisk } from '../../support/storage/group-requests.js';
import { type RawClient, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A group of storages behaves as one of FastDFS does: each pushes its changes to the others. */

/** Uploads, changes and deletions of every kind; some of what they made. */
async function changes(client: RawClient, mark: string) {
  const kept = await client.upload(Buffer.from(`kept ${mark}`));
  const gone = await client.upload(Buffer.from(`gone ${mark}`));
  const large = await client.upload(Buffer.alloc(300_000, mark));
  const empty = await client.upload(Buffer.alloc(0));
  await client.slave(kept, `slave ${mark}`);
  const again = await client.slave(gone, 'a');
  const metadata = Buffer.from(`name\x02${mark}`);
  for (const file of [kept, gone, large]) {
    await client.must(setMetadata, { ...file, metadata, mode: 'overwrite' });
  }
  await client.must(setMetadata, { ...large, metadata: Buffer.alloc(0), mode: 'overwrite' });
  await client.must(deleteFile, again);
  await client.slave(gone, 'b');
  await client.must(deleteFile, gone);
  const grown = await client.appender('first');
  expect(await client.append(grown, ` second ${mark}`)).toBe(0);
  expect(await client.modify(grown, 2, 'XYZ')).toBe(0);
  await client.must(truncateFile, { name: grown.name, size: 9 });
  await client.must(truncateFile, { name: grown.name, size: 12 });
  expect(await client.append(grown, mark)).toBe(0);
  const regenerated = await client.appender(`to be ${mark}`);
  await client.append(regenerated, ' regenerated');
  await client.must(setMetadata, { ...regenerated, metadata, mode: 'merge' });
  const normal = await client.must(regenerateAppender, { name: regenerated.name });
  return { kept, gone, large, empty, grown, normal, regenerated };
}

/** Resolves once a tracker sends readers of the file to so many members. */
async function readableAt(group: GroupOfTest, file: FileName, count: number): Promise<void> {
  const client = await group.asked();
  await until(async () => (await client.ask(queryFetchAll, file)).answer?.servers.length === count);
}

describe('a group of storages', () => {
  it('pushes every change to every member', async () => {
    let shiftMs = 0;
    const now = (): number => systemEnvironment.now() + shiftMs;
    const group = await groupOf(3, { environment: { ...systemEnvironment, now } });
    let last: Awaited<ReturnType<typeof changes>> | undefined;
    for (const member of group.members) {
      const made = await changes(await member.connect(), member.host);
      await sameEverywhere(group.members);
      for (const other of group.members) {
        expect(await download(other, made.kept)).toBe(`kept ${member.host}`);
        expect(await download(other, made.grown)).toBe(
          `${'fiXYZ second'.slice(0, 9)}\0\0\0${member.host}`,
        );
        expect(await download(other, made.normal)).toBe(`to be ${member.host} regenerated`);
        for (const file of [made.gone, made.regenerated]) {
          expect(await download(other, file)).toBe(2);
        }
        const client = await other.connect();
        const { answer } = await client.ask(getMetadata, made.normal);
        expect(answer?.toString()).toBe(`name\x02${member.host}`);
        expect((await client.ask(getMetadata, made.large)).status).toBe(2);
      }
      last = made;
    }
    // By the times that records carry: once a later one has come, all earlier files are there.
    shiftMs = 1000;
    await (await group.members[2]!.connect()).upload(Buffer.from('later'));
    await readableAt(group, last!.kept, 3);
    // An appender is read where it is changed, and elsewhere if that fails.
    const asked = await group.asked();
    const { servers } = await asked.must(queryFetchAll, last!.grown);
    expect(servers[0]!.address).toBe(group.members[2]!.host);
    expect((await asked.must(queryFetch, last!.grown)).address).toBe(group.members[2]!.host);
    // What was copied, opened, read and written is counted; what was refused is no download.
    const tracker = await group.asked();
    await until(async () => {
      const { answer } = await tracker.ask(listStorage, { group: 'group1', id: '' });
      return answer!.every(({ statistics: { operations, times } }) => {
        const { download, syncInBytes, syncOutBytes, fileOpen, fileRead, fileWrite } = operations;
        const counted = [syncInBytes, syncOutBytes, fileOpen, fileRead, fileWrite, download];
        const all = counted.every(({ success }) => success > 0) && times.lastSyncUpdateSeconds > 0;
        return all && download.total === download.success;
      });
    });
    await sameEverywhere(group.members);
    expect((await contentsOf(group.members[0]!)).size).toBe(3 * 9 + 1);
    expect(group.members.flatMap(({ errors }) => errors)).toEqual([]);
  });

  it('brings a member that was away up to date, and one that starts empty', async () => {
    const group = await groupOf(3);
    const [a, b, c] = group.members as [MemberOfTest, MemberOfTest, MemberOfTest];
    const before = await changes(await a.connect(), 'before');
    await c.stop();
    const client = await a.connect();
    const away = await changes(client, 'away');
    await changes(await b.connect(), 'elsewhere');
    await client.append(before.grown, ' while away');
    await client.must(truncateFile, { name: before.grown.name, size: 4 });
    await client.append(before.grown, ' and more');
    await client.must(deleteFile, before.kept);
    // Regenerated here, and known there as it was before.
    const old = await client.appender('old');
    await client.must(regenerateAppender, { name: old.name });
    await c.start();
    await sameEverywhere(group.members);
    expect(await download(b, before.grown)).toBe('fiXY and more');
    expect(await download(c, away.kept)).toBe('kept away');
    expect(await download(c, before.kept)).toBe(2);

    const d = group.add();
    await d.start();
    await d.storage!.active();
    await sameEverywhere(group.members);
    await readableAt(group, away.kept, 4);
    expect(await download(d, away.kept)).toBe('kept away');
    // Its disk is replaced by an empty one.
    await d.stop();
    await changes(client, 'without d');
    await rm(d.folder, { recursive: true });
    await d.start();
    await d.storage!.active();
    await sameEverywhere(group.members);
    expect(group.members.flatMap(({ errors }) => errors).filter(unforeseen)).toEqual([]);
  });

  it('gives a member that lost its disk its own files back, even if nobody else made any', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members as [MemberOfTest, MemberOfTest];
    const made = await changes(await a.connect(), 'mine');
    await sameEverywhere(group.members);
    await a.stop();
    await rm(a.folder, { recursive: true });
    expect(await download(b, made.kept)).toBe('kept mine');
    const client = await group.asked();
    // Reads go on meanwhile, an appender's too.
    await until(async () => (await group.statusOf(a)) === StorageStatus.offline);
    const at = await client.must(queryFetchAll, made.grown);
    expect(at.servers.map(({ address }) => address)).toEqual([b.host]);
    await a.start();
    await a.storage!.active();
    await sameEverywhere(group.members);
    expect(await (await a.connect()).append(made.grown, ' and on')).toBe(0);
    await sameEverywhere(group.members);
    expect(await download(b, made.grown)).toMatch(/ and on$/);
    // What it lost it passes on again.
    const c = group.add();
    await b.stop();
    await c.start();
    await c.storage!.active();
    await sameEverywhere([a, c]);
  });

  it('replaces one lost store path of several', async () => {
    const paths = [0, 1].map(() => [temporaryFolder(), temporaryFolder()]);
    const group = await groupOf(0);
    const [a, b] = [group.add(), group.add()];
    await a.start({ storePaths: paths[0]! });
    await a.storage!.active();
    await b.start({ storePaths: paths[1]! });
    await b.storage!.active();
    const client = await a.connect();
    const files = [
      await client.upload(Buffer.from('zero'), 'txt', 0),
      await client.upload(Buffer.from('one'), 'txt', 1),
    ];
    await until(async () => (await download(b, files[1]!)) === 'one');
    await a.stop();
    await rm(paths[0]![1]!, { recursive: true });
    await a.start({ storePaths: paths[0]! });
    await a.storage!.active();
    expect(await download(a, files[0]!)).toBe('zero');
    expect(await download(a, files[1]!)).toBe('one');
  });

  it('does not bring back what was deleted, in whatever order members return', async () => {
    const group = await groupOf(3);
    const [a, b, c] = group.members as [MemberOfTest, MemberOfTest, MemberOfTest];
    await c.stop();
    const client = await a.connect();
    const file = await client.upload(Buffer.from('deleted at b'));
    const other = await client.appender('deleted at b');
    const slaveFile = await client.slave(file, 'slave');
    await sameEverywhere([a, b]);
    await a.stop();
    for (const each of [file, other, slaveFile]) await (await b.connect()).must(deleteFile, each);
    // c hears of the deletion before it hears of the files.
    await c.start();
    const last = await (await b.connect()).upload(Buffer.from('last'));
    await until(() => pathExists(c, last));
    await b.stop();
    await a.start();
    const next = await (await a.connect()).upload(Buffer.from('next'));
    await until(() => pathExists(c, next));
    for (const each of [file, other, slaveFile]) expect(await download(c, each)).toBe(2);
    // It knows so even after a start.
    await c.stop();
    await rm(join(a.folder, 'data', 'sync', `${c.host}.mark`));
    await a.stop();
    await a.start();
    await c.start();
    const third = await (await a.connect()).upload(Buffer.from('third'));
    await until(() => pathExists(c, third));
    for (const each of [file, other, slaveFile]) expect(await download(c, each)).toBe(2);
    await b.start();
    await sameEverywhere(group.members);
    for (const each of [file, other, slaveFile]) expect(await download(a, each)).toBe(2);
  });

  it('changes files at their sources alone, and deletes them anywhere', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members as [MemberOfTest, MemberOfTest];
    const first = await a.connect();
    const file = await first.upload(Buffer.from('described'));
    const log = await first.appender('log');
    await sameEverywhere(group.members);
    const second = await b.connect();
    const tracker = await group.asked();
    const described = { ...file, metadata: Buffer.from('name\x02b'), mode: 'overwrite' as const };
    const isRefused = async (): Promise<void> => {
      expect((await second.ask(setMetadata, described)).status).toBe(11);
      expect(await second.append(log, ' by b')).toBe(11);
      expect((await second.ask(truncateFile, { name: log.name, size: 1 })).status).toBe(11);
      expect((await second.ask(regenerateAppender, { name: log.name })).status).toBe(11);
    };
    await isRefused();
    expect((await tracker.must(queryUpdate, log)).address).toBe(a.host);
    await a.stop();
    await until(async () => (await group.statusOf(a)) === StorageStatus.offline);
    // Another one is asked then, which deletes, and still changes nothing.
    expect((await tracker.must(queryUpdate, log)).address).toBe(b.host);
    await isRefused();
    expect((await tracker.must(queryFetch, log)).address).toBe(b.host);
    expect(await download(b, log)).toBe('log');
    await second.must(deleteFile, file);
    const meanwhile = await second.upload(Buffer.from('meanwhile'));
    await a.start();
    await until(async () => (await (await a.connect()).append(log, ' by a')) === 0);
    await sameEverywhere(group.members);
    // The bytes are on its disk a moment before the change is answered.
    await until(async () => (await download(b, log)) === 'log by a');
    expect(await download(a, meanwhile)).toBe('meanwhile');
    expect(await download(a, file)).toBe(2);
  });

  it('gives a client the slave that another member took while the source was away', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members as [MemberOfTest, MemberOfTest];
    const master = await (await a.connect()).upload(Buffer.from('master'));
    await sameEverywhere(group.members);
    await a.stop();
    const thumbnail = await (await b.connect()).slave(master, 'thumbnail');
    await b.stop();
    const { disk, hold } = gatedDisk();
    await a.start({ disk });
    const release = hold();
    await b.start();
    await until(async () => (await group.statusOf(b)) === StorageStatus.active);
    expect(await group.statusOf(a)).toBe(StorageStatus.active);
    const client = new FastdfsClient({ trackers: [`${group.tracker.host}:${group.tracker.port}`] });
    onTestFinished(() => client.close());
    const id = `${thumbnail.group}/${thumbnail.name}`;
    expect((await client.downloadBytes(id)).toString()).toBe('thumbnail');
    expect(await pathExists(a, thumbnail)).toBe(false);
    release();
    await sameEverywhere(group.members);
  });

  it('changes what a member left that is gone for good', async () => {
    const group = await groupOf(2);
    const [a, b] = group.members as [MemberOfTest, MemberOfTest];
    const log = await (await a.connect()).appender('log');
    await sameEverywhere(group.members);
    await a.stop();
    const tracker = await group.asked();
    await until(async () => (await group.statusOf(a)) === StorageStatus.offline);
    await tracker.must(deleteStorage, { group: 'group1', id: a.host });
    await until(async () => (await (await b.connect()).append(log, ' by b')) === 0);
    expect((await tracker.must(queryFetch, log)).address).toBe(b.host);
    expect(await download(b, log)).toBe('log by b');
  });

  it('passes a deletion on, whoever made it', async () => {
    const group = await groupOf(3);
    const [a, b, c] = group.members as [MemberOfTest, MemberOfTest, MemberOfTest];
    const file = await (await a.connect()).upload(Buffer.from('deleted at b'));
    await sameEverywhere(group.members);
    await c.stop();
    await (await b.connect()).must(deleteFile, file);
    await until(async () => (await download(a, file)) === 2);
    await b.stop();
    // Neither its source nor the one that deleted it has to tell c.
    await c.start();
    await until(async () => (await download(c, file)) === 2);
  });
});

/** Members say when another one has gone. */
function unforeseen({ message }: Error): boolean {
  return !/connection has ended|closed|ECONNREFUSED|ECONNRESET|has gone/.test(message);
}
