import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { startStorage } from '@stevedore/node';
import { formatFileId, parseFileId, parseSliceId } from '@stevedore/protocol';
import { startTracker } from '@stevedore/tracker';
import { expect, onTestFinished, test } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { hasCommand, python, requirement } from '../../support/requirements.js';
import { temporaryFolder } from '../../support/temporary.js';

const needsPython = requirement('python3', () => hasCommand(python, '--version'));
const LIST_ZIP = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as trunk:
    assert trunk.testzip() is None
    print(json.dumps({i.filename: [i.file_size, json.loads(i.comment)["name"]]
                      for i in trunk.infolist()}))
`;

/** Any program that reads ZIPs finds the files in their trunk. */
async function expectZip(
  client: FastdfsClient,
  id: string,
  bodies: readonly Buffer[],
  keys: readonly string[],
): Promise<void> {
  const path = join(temporaryFolder(), 'trunk.zip');
  const { trunk } = parseSliceId(parseFileId(id)!)!;
  writeFileSync(path, await client.downloadBytes(formatFileId(trunk)));
  const said = execFileSync(python, ['-c', LIST_ZIP, path], { encoding: 'utf8' });
  const listed = Object.entries(JSON.parse(said) as Record<string, [number, string]>);
  expect(listed).toHaveLength(bodies.length);
  for (const [index, key] of keys.entries()) {
    const [, found] = listed.find(([name]) => name.startsWith(key)) ?? [];
    expect(found).toEqual([bodies[index]!.length, 'a.png']);
  }
}

/**
 * An affinity group on its whole way: the group of a put, a trunk, our storage, and any
 * FastDFS client that reads the files by their ids.
 */
test('files of a group that came in mixed are read from the storage’s disk together', async () => {
  const tracker = await startTracker({ port: 0 });
  onTestFinished(() => tracker.close());
  const trackers = [`127.0.0.1:${tracker.port}`];
  const storage = await startStorage({ port: 0, storePaths: [temporaryFolder()], trackers });
  onTestFinished(() => storage.close());
  await storage.active();
  const store = await open({
    idMaxAge: 0,
    directory: temporaryFolder(),
    trackers,
    mergeMaxAge: '1h',
  });
  onTestFinished(() => store.close());
  const client = new FastdfsClient({ trackers });
  onTestFinished(() => client.close());

  const bodies = Array.from({ length: 24 }, (_, index) => randomBytes(5000 + 900 * index));
  const keys: string[] = [];
  for (const [index, body] of bodies.entries()) {
    keys.push((await store.put(body, { group: `page ${index % 4}`, name: 'a.png' })).key);
  }
  await store.flush();
  const ids = await Promise.all(keys.map((key) => store.settled(key)));
  for (const [index, id] of ids.entries()) {
    expect((await client.downloadBytes(id)).equals(bodies[index]!)).toBe(true);
  }
  const { loads, hits, readAhead } = storage.cacheStats();
  expect({ loads, hits }).toEqual({ loads: 4, hits: 20 });
  expect(readAhead.usedBytes).toBe(readAhead.readBytes);

  if (!needsPython.missing) await expectZip(client, ids[0]!, bodies, keys);

  // A deletion by any client holds, however much was read along.
  await client.delete(ids[5]!);
  await expect(client.downloadBytes(ids[5]!)).rejects.toMatchObject({ code: 'not_found' });
  expect((await client.downloadBytes(ids[9]!)).equals(bodies[9]!)).toBe(true);
});
