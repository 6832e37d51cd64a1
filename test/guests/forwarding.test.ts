import {
  AT_HOME_FLAG,
  type Command,
  downloadFile,
  type FileName,
  getMetadata,
  PASSED_ON_FLAG,
  parseFileId,
  queryFetch,
  queryFetchAll,
  queryFileInfo,
  queryUpdate,
  Status,
} from '@stevedore/protocol';
import { askMigration } from '@stevedore/storage';
import { expect, onTestFinished, test } from 'vitest';
import { RawClient, trackerOf, until } from '../storage/support.js';
import { content, nodeOf, SIZE, TIERS, withMoved } from '../support/two-groups.js';

/** Trackers send reads of a file to the storage of another group that has its bytes. */

function nameOf(fileId: string): FileName {
  const { group, name } = parseFileId(fileId)!;
  return { group, name };
}

/** Ports that the tracker names for the file. */
async function fetchPorts(tracker: number, file: FileName) {
  const raw = await RawClient.open(tracker);
  const one = await raw.ask(queryFetch, file);
  const home = await raw.ask(queryFetch, file, AT_HOME_FLAG);
  const all = await raw.ask(queryFetchAll, file);
  const update = await raw.ask(queryUpdate, file);
  expect(one.answer!.group).toBe(file.group);
  return {
    one: one.answer!.port,
    home: home.answer!.port,
    all: all.answer!.servers.map(({ port }) => port),
    update: update.answer!.port,
  };
}

async function isForwarded(tracker: number, file: FileName, port: number): Promise<boolean> {
  return (await fetchPorts(tracker, file)).one === port;
}

/** As `RawClient.ask`, on a connection that nothing else has been asked on. */
async function askAt<Request, Answer>(
  port: number,
  command: Command<Request, Answer>,
  request: Request,
  flags = 0,
) {
  return (await RawClient.open(port)).ask(command, request, flags);
}

test('the tracker names the storage that has the bytes for reads, and the home for changes', async () => {
  const { tracker, home, other, ids } = await withMoved(2);
  const [there, here] = [other.storage.port, home.storage.port];
  for (const [n, id] of ids.entries()) {
    const file = nameOf(id);
    await until(() => isForwarded(tracker, file, there));
    expect(await fetchPorts(tracker, file)).toEqual({
      one: there,
      home: here,
      all: [there, here],
      update: here,
    });
    const range = { offset: 0, length: 0 };
    const part = { offset: 5, length: 7 };
    for (const port of [there, here]) {
      expect(await askAt(port, downloadFile, { ...file, ...range })).toEqual({
        status: 0,
        answer: content(n),
      });
      expect((await askAt(port, downloadFile, { ...file, ...part })).answer).toEqual(
        content(n).subarray(5, 12),
      );
    }
    for (const flags of [0, 1]) {
      const answers = [there, here].map((port) => askAt(port, queryFileInfo, file, flags));
      const [one, two] = await Promise.all(answers);
      expect(one!.answer).toMatchObject({ size: SIZE });
      expect(one).toEqual(two);
    }
    const described = await Promise.all(
      [there, here].map((port) => askAt(port, getMetadata, file)),
    );
    expect(described[0]).toEqual({ status: 0, answer: Buffer.from(`n\x02${n}`) });
    expect(described[1]).toEqual(described[0]);
  }
  expect([...home.errors, ...other.errors]).toEqual([]);
});

test('a read there needs no home: the home may be silent for as long as the lease runs', async () => {
  const { tracker, home, other, ids } = await withMoved(1);
  const file = nameOf(ids[0]!);
  const { port } = other.storage;
  await until(() => isForwarded(tracker, file, port));
  const before = home.storage.statistics().operations;
  for (let n = 0; n < 20; n += 1) {
    expect((await askAt(port, downloadFile, { ...file, offset: 0, length: 0 })).status).toBe(0);
    expect((await askAt(port, queryFileInfo, file)).status).toBe(0);
    expect((await askAt(port, getMetadata, file)).status).toBe(0);
  }
  expect(home.storage.statistics().operations).toEqual(before);
});

test('what is changed is answered by nobody else any more, whoever is asked', async () => {
  const { tracker, home, other, client, ids } = await withMoved(4);
  const files = ids.map(nameOf);
  const there = other.storage.port;
  for (const file of files) await until(() => isForwarded(tracker, file, there));
  await askMigration(`127.0.0.1:${home.storage.port}`, 'pause');
  const read = (file: FileName) => askAt(there, downloadFile, { ...file, offset: 0, length: 0 });

  await client.setMetadata(ids[0]!, { changed: 'yes' });
  expect((await askAt(there, getMetadata, files[0]!)).answer).toEqual(
    Buffer.from('changed\x02yes'),
  );
  await client.setMetadata(ids[0]!, {});
  expect((await askAt(there, getMetadata, files[0]!)).status).toBe(Status.notFound);
  await client.append(ids[1]!, Buffer.from('more'));
  expect((await read(files[1]!)).answer).toEqual(Buffer.concat([content(1), Buffer.from('more')]));
  expect((await askAt(there, queryFileInfo, files[1]!)).answer).toMatchObject({ size: SIZE + 4 });
  await client.truncate(ids[2]!, 10);
  expect((await read(files[2]!)).answer).toEqual(content(2).subarray(0, 10));
  await client.delete(ids[3]!);
  expect((await read(files[3]!)).status).toBe(Status.notFound);
  expect((await askAt(there, getMetadata, files[3]!)).status).toBe(Status.notFound);

  // The tracker hears of it; what still has its bytes there is answered there again.
  for (const file of files.slice(1))
    await until(async () => !(await isForwarded(tracker, file, there)));
  await until(() => isForwarded(tracker, files[0]!, there));
  expect((await askAt(there, getMetadata, files[0]!)).status).toBe(Status.notFound);
  expect((await read(files[0]!)).answer).toEqual(content(0));
});

test('nothing is passed on twice, and nothing for a group that nobody knows', async () => {
  const { home, other, ids } = await withMoved(1);
  const file = nameOf(ids[0]!);
  const strange = { ...file, name: file.name.replace(/^(M00\/..\/..\/)./, '$1_') };
  const there = other.storage.port;
  const read = (name: FileName, flags = 0, port = there) =>
    askAt(port, downloadFile, { ...name, offset: 0, length: 0 }, flags);
  // A name that no storage knows: it goes home, and no further.
  expect((await read(strange)).status).toBe(Status.notFound);
  expect((await read(strange, PASSED_ON_FLAG)).status).toBe(Status.invalid);
  expect((await read({ ...file, group: 'group9' })).status).toBe(Status.invalid);
  expect((await askAt(there, queryFileInfo, strange, PASSED_ON_FLAG)).status).toBe(Status.invalid);
  expect((await askAt(there, getMetadata, strange, PASSED_ON_FLAG)).status).toBe(Status.invalid);
  // The home answers for its own as ever, marked or not.
  expect((await read(file, PASSED_ON_FLAG, home.storage.port)).answer).toEqual(content(0));
});

test('a tracker that begins anew is told again, and one that joins late as well', async () => {
  const { port: tracker, close } = await trackerOf();
  const other = await nodeOf(tracker, 'group2', TIERS);
  const moved = await withMoved(1, { tracker, other });
  const file = nameOf(moved.ids[0]!);
  await until(() => isForwarded(tracker, file, other.storage.port));
  await close();
  const again = await trackerOf({ port: tracker });
  onTestFinished(() => again.close());
  await until(async () => {
    try {
      return await isForwarded(tracker, file, other.storage.port);
    } catch {
      return false;
    }
  });
});

test('a storage that was away, or forgot, is not sent to, and then again', async () => {
  const { tracker, home, other, ids } = await withMoved(1);
  const file = nameOf(ids[0]!);
  const { port } = other.storage;
  await until(() => isForwarded(tracker, file, port));
  await other.storage.close();
  await until(() => isForwarded(tracker, file, home.storage.port));
  const again = await nodeOf(tracker, 'group2', TIERS, { folder: other.folder, port });
  await until(() => isForwarded(tracker, file, port));
  const answered = () => askAt(port, downloadFile, { ...file, offset: 0, length: 0 });
  expect((await answered()).answer).toEqual(content(0));
  // The home is killed and started: what others had is theirs to answer again.
  await home.storage.close();
  await until(async () => (await fetchPorts(tracker, file).catch(() => undefined)) === undefined);
  const start = { folder: home.folder, port: home.storage.port };
  const homeAgain = await nodeOf(tracker, 'group1', TIERS, start);
  await until(() => isForwarded(tracker, file, port));
  expect((await answered()).answer).toEqual(content(0));
  expect([...again.errors, ...homeAgain.errors]).toEqual([]);
});
