import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { open } from '@stevedore/client';
import { expect, onTestFinished, test } from 'vitest';
import { hasCommand, python, requirement } from '../support/requirements.js';
import { temporaryFolder } from '../support/temporary.js';

/** Other people's clients read one small file out of a trunk by its slice id. */

const needsPy3Fdfs = requirement('the Python package py3Fdfs', () =>
  hasCommand(python, '-c', 'import fdfs_client.client'),
);

const silent = { debug() {}, info() {}, warn() {}, error() {} };

async function mergedSlices() {
  const store = await open({
    directory: temporaryFolder(),
    trunkSize: '1MiB',
    smallFileLimit: '256KiB',
  });
  onTestFinished(() => store.close());
  const files: { id: string; bytes: Buffer }[] = [];
  for (let index = 1; index <= 20; index++) {
    const bytes = randomBytes(index * 1000);
    const { key } = await store.put(bytes, { name: `${index}.jpg` });
    files.push({ id: key, bytes });
  }
  await store.flush();
  for (const file of files) file.id = await store.settled(file.id);
  const [host, port] = store.trackers[0]!.split(':') as [string, string];
  return { files, host, port: Number(port) };
}

test('npm fdfs downloads slices, whole and in part, and reads their info', async () => {
  const { files, host, port } = await mergedSlices();
  const FdfsClient = createRequire(import.meta.url)('fdfs');
  const client = new FdfsClient({ trackers: [{ host, port }], timeout: 10_000, logger: silent });
  const download = async (id: string, range: object = {}): Promise<Buffer> => {
    const target = new PassThrough();
    const bytes = buffer(target);
    await client.download(id, { ...range, target });
    return bytes;
  };
  for (const { id, bytes } of files) {
    expect((await download(id)).equals(bytes), id).toBe(true);
    expect(await client.getFileInfo(id)).toMatchObject({ size: bytes.length });
  }
  const { id, bytes } = files[7]!;
  const part = await download(id, { offset: 100, bytes: 50 });
  expect(part.equals(bytes.subarray(100, 150))).toBe(true);
});

test.skipIf(needsPy3Fdfs.missing)('Python py3Fdfs downloads slices', async () => {
  const { files, host, port } = await mergedSlices();
  for (const { id, bytes } of files.slice(0, 5)) {
    const output = execFileSync(python, ['-c', DOWNLOAD, host, String(port), id], {
      encoding: 'utf8',
      maxBuffer: 2 ** 24,
    });
    expect(output.trim()).toBe(bytes.toString('hex'));
  }
});

const DOWNLOAD = `
import sys
from fdfs_client.client import Fdfs_client
host, port, file_id = sys.argv[1], int(sys.argv[2]), sys.argv[3]
client = Fdfs_client({'host_tuple': (host,), 'port': port, 'timeout': 30, 'name': 'Tracker Pool'})
print(client.download_to_buffer(file_id.encode())['Content'].hex())
`;
