import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { FileMap } from '../../../../packages/staging/dist/filemap/filemap.js';
import { spawnSync } from '../../../support/child-process.js';
import { ROOT } from '../../../support/paths.js';
import { until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const SIZE = 100;

function openFileMap(
  path = join(temporaryFolder(), 'filemap.sqlite'),
  publishes: 'nothing' | 'changes' = 'nothing',
): FileMap {
  const fileMap = FileMap.open(path, publishes);
  onTestFinished(() => fileMap.close());
  return fileMap;
}

function file(key: Buffer, position: number) {
  const about = { name: 'a.jpg', type: 'image/jpeg', group: undefined, crc32: 1, stagedAt: 1 };
  return { what: 'file' as const, ...about, key, size: SIZE, position, at: 'container' as const };
}

function stored(taskId: Buffer, fileId: string, files: number) {
  const about = { kind: 'trunk' as const, size: files * SIZE, crc32: 1, file: undefined };
  return { what: 'stored' as const, ...about, taskId, fileId, files };
}

function retired(taskId: Buffer, fileId: string, files: number) {
  return { what: 'retired' as const, kind: 'trunk' as const, taskId, fileId, files, size: 1 };
}

/** So many files in a trunk of their own, recorded in segment 1. */
function addTrunk(fileMap: FileMap, fileId: string, files: number) {
  const taskId = randomBytes(16);
  const keys = Array.from({ length: files }, () => randomBytes(16)).sort(Buffer.compare);
  const changes = keys.map((key, index) => file(key, index * SIZE));
  fileMap.apply([...changes, stored(taskId, fileId, files)], 1, 1);
  const trunk = fileMap.trunkByTask(taskId)!;
  const members = keys.map((key, index) => ({ key, offset: index * SIZE, size: SIZE }));
  fileMap.confirmMembers(trunk.id, members);
  fileMap.finishTrunk(trunk.id, files, files * SIZE);
  return { taskId, trunk, keys };
}

function remove(fileMap: FileMap, keys: readonly Buffer[], segment: number): void {
  fileMap.apply(
    keys.map((key) => ({ what: 'deletion' as const, key })),
    segment,
    1,
  );
}

test('a merged file that is deleted is gone from every answer, and its trunk counts it', () => {
  const fileMap = openFileMap();
  const { trunk, keys } = addTrunk(fileMap, 'group1/M00/one', 4);
  remove(fileMap, [keys[1]!], 2);
  expect(fileMap.find(keys[1]!)).toBeUndefined();
  expect(fileMap.isDeleted(keys[1]!)).toBe(true);
  expect(fileMap.isDeleted(keys[2]!)).toBe(false);
  const left = [keys[0], keys[2], keys[3]];
  expect(fileMap.page(Buffer.alloc(0), 10).map(({ key }) => key)).toEqual(left);
  expect(fileMap.aliveIn(trunk.id, -1, 10).map(({ key }) => key)).toEqual(left);
  expect(fileMap.findInTrunk(trunk.id, SIZE)).toBeUndefined();
  const around = fileMap.groupAround(fileMap.aliveIn(trunk.id, SIZE, 1)[0]!, 10);
  expect(around.map(({ key }) => key)).toEqual(left);
  expect(fileMap.recount()).toEqual(fileMap.counters());
  expect(fileMap.counters().mergedFiles).toBe(3);
  expect(fileMap.trunkByTask(trunk.taskId)).toMatchObject({ deadFiles: 1, deadBytes: SIZE });
  // A second deletion of it changes nothing but where its record is.
  remove(fileMap, [keys[1]!], 3);
  expect(fileMap.trunkByTask(trunk.taskId)).toMatchObject({ deadFiles: 1, deadBytes: SIZE });
  expect(fileMap.neededRecords(2).deletions).toEqual([]);
  expect(fileMap.neededRecords(3).deletions).toEqual([keys[1]]);
});

test('more than half dead a trunk is to be emptied, wholly dead it is to go', () => {
  const fileMap = openFileMap();
  const { trunk, keys } = addTrunk(fileMap, 'group1/M00/one', 4);
  const ids = (trunks: readonly { readonly id: number }[]) => trunks.map(({ id }) => id);
  remove(fileMap, keys.slice(0, 2), 2);
  expect(fileMap.sparseTrunk(0, 0)).toBeUndefined();
  remove(fileMap, keys.slice(2, 3), 2);
  expect(fileMap.sparseTrunk(0, 0)?.id).toBe(trunk.id);
  expect(fileMap.sparseTrunk(trunk.id, 0)).toBeUndefined();
  expect(ids(fileMap.deadTrunks())).toEqual([]);
  remove(fileMap, keys.slice(3), 2);
  expect(fileMap.sparseTrunk(0, 0)).toBeUndefined();
  expect(ids(fileMap.deadTrunks())).toEqual([trunk.id]);
});

test('a deletion is kept as long as a trunk has the file, and as its record is there', () => {
  const fileMap = openFileMap();
  const { taskId, keys } = addTrunk(fileMap, 'group1/M00/one', 2);
  remove(fileMap, keys, 2);
  expect(fileMap.neededRecords(2).deletions).toEqual(keys);
  fileMap.apply([retired(taskId, 'group1/M00/one', 2)], 3, 1);
  expect(fileMap.neededRecords(2).deletions).toEqual([]);
  expect(fileMap.isDeleted(keys[0]!)).toBe(true);
  fileMap.forgetSegment(2);
  expect(fileMap.isDeleted(keys[0]!)).toBe(false);
});

test('a deleted file that a second trunk turns out to have stays deleted until both are gone', () => {
  const fileMap = openFileMap();
  const first = addTrunk(fileMap, 'group1/M00/one', 2);
  remove(fileMap, [first.keys[0]!], 2);
  const taskId = randomBytes(16);
  fileMap.apply([stored(taskId, 'group1/M00/two', 1)], 2, 2);
  const { what: _, position: __, at: ___, ...about } = file(first.keys[0]!, 0);
  const second = fileMap.trunkByTask(taskId)!;
  fileMap.adoptMembers(second, [{ file: about, offset: 0, was: [] }]);
  fileMap.finishTrunk(second.id, 1, SIZE);
  expect(fileMap.find(first.keys[0]!)).toBeUndefined();
  expect(fileMap.neededRecords(2).deletions).toEqual([first.keys[0]]);
  fileMap.apply([retired(first.taskId, 'group1/M00/one', 2)], 3, 1);
  expect(fileMap.neededRecords(2).deletions).toEqual([first.keys[0]]);
  fileMap.apply([retired(taskId, 'group1/M00/two', 1)], 3, 2);
  expect(fileMap.neededRecords(2).deletions).toEqual([]);
  expect(fileMap.isDeleted(first.keys[0]!)).toBe(true);
});

test('the log is written back while work goes on, by a thread that ends with the FileMap', async () => {
  const path = join(temporaryFolder(), 'filemap.sqlite');
  const fileMap = FileMap.open(path);
  const begun = statSync(path).size;
  const keys: Buffer[] = [];
  for (let segment = 1; segment <= 40; segment += 1) {
    const added = Array.from({ length: 100 }, () => randomBytes(16));
    fileMap.apply(added.map(file), segment, 1);
    keys.push(...added);
  }
  await until(() => statSync(path).size > begun);
  await fileMap.makeDurable();
  await fileMap.close();
  const again = openFileMap(path);
  expect(keys.every((key) => again.find(key)?.size === SIZE)).toBe(true);
});

test('closing waits for the thread of the log, though nothing else keeps the process', () => {
  const path = join(temporaryFolder(), 'filemap.sqlite');
  const module = pathToFileURL(`${ROOT}/packages/staging/dist/filemap/filemap.js`).href;
  const script = `
    import { FileMap } from ${JSON.stringify(module)};
    const fileMap = FileMap.open(${JSON.stringify(path)});
    const files = Array.from({ length: 1000 }, (_, position) => {
      const key = Buffer.alloc(16);
      key.writeUInt32BE(position);
      return { what: 'file', key, name: 'a', type: 't', group: undefined, crc32: 1, stagedAt: 1,
        size: 1, position, at: 'container' };
    });
    fileMap.apply(files, 1, 1000);
    await fileMap.close();
    console.log('closed');
  `;
  const args = ['--input-type=module', '--eval', script];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: 'closed\n', stderr: '' });
});

test('a trunk is published when it is confirmed, and again when a file comes back to it', () => {
  const fileMap = openFileMap(undefined, 'changes');
  const outbox = fileMap.outbox!;
  const { trunk, keys } = addTrunk(fileMap, 'group1/M00/one', 5);
  const [entry, ...others] = outbox.read(10);
  if (entry?.what !== 'trunk') throw new Error('no trunk is published');
  expect(others).toEqual([]);
  const offsets = (after: number, limit: number) =>
    entry.files(after, limit).map(({ offset }) => offset / SIZE);
  expect([offsets(-1, 2), offsets(SIZE, 2), offsets(3 * SIZE, 2)]).toEqual([[0, 1], [2, 3], [4]]);
  const about = '{"name":"a.jpg","type":"image/jpeg","stagedAt":1}';
  const rest = { size: SIZE, crc32: 1, about, expiresAt: null };
  expect(entry.files(-1, 1)).toEqual([{ key: keys[0], offset: 0, ...rest }]);
  outbox.forget(entry.id);

  const was = [['group1/M00/one', SIZE]] as const;
  fileMap.apply([{ ...file(keys[1]!, 0), what: 'moved', was }], 2, 1);
  expect(outbox.read(10)).toEqual([]);
  expect(fileMap.rollBackMove(keys[1]!)).toBe(true);
  expect(outbox.read(10)).toMatchObject([{ what: 'trunk', trunk: { taskId: trunk.taskId } }]);
});
