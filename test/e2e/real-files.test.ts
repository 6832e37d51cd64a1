import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FastdfsClient } from '@stevedore/fastdfs';
import { parseSliceId } from '@stevedore/protocol';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { startGatewayProcess } from '../support/gateway-process.js';
import { type RealFile, realFiles } from '../support/real-files.js';
import { hasCommand, python, requirement } from '../support/requirements.js';
import { until } from '../support/staging.js';
import { temporaryFolder } from '../support/temporary.js';

const IN_FLIGHT = 16;
const needsPython = requirement('python3', () => hasCommand(python, '--version'));

interface Stored extends RealFile {
  readonly key: string;
  fileId: string;
}

/** Runs the work for every item, `IN_FLIGHT` at a time. */
async function forAll<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

function connect(url: string): Pool {
  const pool = new Pool(url, { connections: IN_FLIGHT });
  onTestFinished(() => pool.destroy());
  return pool;
}

async function upload(pool: Pool, { name, bytes }: RealFile): Promise<Stored> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/files',
    headers: { 'x-filename': encodeURIComponent(name), 'content-type': 'application/x-test' },
    body: bytes,
  });
  const receipt = (await body.json()) as { key: string; size: number; name: string };
  expect(statusCode).toBe(201);
  expect(receipt).toMatchObject({ size: bytes.length, name });
  return { name, bytes, key: receipt.key, fileId: '' };
}

async function download(pool: Pool, path: string): Promise<Buffer> {
  const { statusCode, body } = await pool.request({ method: 'GET', path });
  const bytes = Buffer.from(await body.arrayBuffer());
  expect(statusCode, `${path}: ${bytes.toString('latin1', 0, 300)}`).toBe(200);
  return bytes;
}

async function fileIdOf(pool: Pool, key: string): Promise<string | undefined> {
  const { body } = await pool.request({ method: 'GET', path: `/files/${key}/info` });
  return ((await body.json()) as { fileId?: string }).fileId;
}

test('real files go in, are merged, survive a restart and come back to the byte', async () => {
  const folder = temporaryFolder();
  const directory = join(folder, 'data');
  const real = realFiles(150);
  expect(real.length).toBeGreaterThan(75);
  const made = [
    { name: 'five.bin', bytes: randomBytes(5_000_000) },
    { name: 'twelve.bin', bytes: randomBytes(12_000_000) },
    { name: 'empty', bytes: Buffer.alloc(0) },
  ];
  const gateway = await startGatewayProcess(directory, '--merge-max-age', '1s');
  const pool = connect(gateway.url);

  const stored: Stored[] = [];
  await forAll([...real, ...made], async (file) => {
    const one = await upload(pool, file);
    stored.push(one);
    expect((await download(pool, `/files/${one.key}`)).equals(one.bytes), one.name).toBe(true);
  });

  await until(async () => {
    const missing = stored.filter((one) => one.fileId === '').slice(0, IN_FLIGHT);
    await forAll(missing, async (one) => {
      one.fileId = (await fileIdOf(pool, one.key)) ?? '';
    });
    return stored.every((one) => one.fileId !== '');
  });
  const check = async (from: Pool) => {
    await forAll(stored, async (one) => {
      expect((await download(from, `/files/${one.key}`)).equals(one.bytes), one.key).toBe(true);
      expect((await download(from, `/${one.fileId}`)).equals(one.bytes), one.fileId).toBe(true);
    });
  };
  await check(pool);
  await checkTrunks(folder, gateway.trackerPort, stored);
  expect(await gateway.stop()).toBe(0);

  // The second gateway keeps no local copy: every byte comes from the storage.
  const second = await startGatewayProcess(directory, '--retain', '0B', '--cache-size', '0B');
  await check(connect(second.url));
  expect(await second.stop()).toBe(0);
});

/** Every trunk, opened by Python's zipfile, holds just the files that say they are in it. */
async function checkTrunks(folder: string, trackerPort: number, stored: Stored[]): Promise<void> {
  await using client = new FastdfsClient({ trackers: [`127.0.0.1:${trackerPort}`] });
  const members = new Map<string, Stored[]>();
  for (const one of stored) {
    const slice = parseSliceId(one.fileId);
    if (!slice) continue;
    const trunk = `${slice.trunk.group}/${slice.trunk.name}`;
    members.set(trunk, [...(members.get(trunk) ?? []), one]);
  }
  expect(members.size).toBeGreaterThan(0);
  if (needsPython.missing) return;
  for (const [trunk, files] of members) {
    const path = join(folder, 'trunk.zip');
    writeFileSync(path, await client.downloadBytes(trunk, { maxBytes: 2 ** 27 }));
    const listed = JSON.parse(
      execFileSync(python, ['-c', LIST_ZIP, path], { encoding: 'utf8', maxBuffer: 2 ** 27 }),
    ) as Record<string, [size: number, crc: number, name: string]>;
    expect(Object.keys(listed).length).toBe(files.length);
    for (const { key, name, bytes } of files) {
      const entry = Object.entries(listed).find(([entryName]) => entryName.startsWith(key));
      expect(entry?.[1][0]).toBe(bytes.length);
      expect(entry?.[1][2]).toBe(name);
    }
  }
}

const LIST_ZIP = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as trunk:
    assert trunk.testzip() is None
    print(json.dumps({i.filename: [i.file_size, i.CRC, json.loads(i.comment)["name"]]
                      for i in trunk.infolist()}))
`;
