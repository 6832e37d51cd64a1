import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { describe, expect } from 'vitest';
import { type Case, type ClientNode, clientSuite, type Line } from '../support/interop/clients.js';

/** The npm package fdfs 1.0.4. Its lists fail: it knows the records of FastDFS 4. */

/** What of it is used here. */
interface Fdfs {
  upload(body: Buffer, options: UploadOptions): Promise<string>;
  download(id: string, options: { target: PassThrough; offset?: number; bytes?: number }): unknown;
  del(id: string): Promise<void>;
  setMetaData(id: string, values: Values, flag?: 'O' | 'M'): Promise<void>;
  getMetaData(id: string): Promise<Values>;
  getFileInfo(id: string): Promise<{ readonly size: number; readonly crc32: number }>;
}

interface UploadOptions {
  readonly ext?: string;
  readonly method?: 'uploadAppender' | 'append' | 'modify';
  readonly fileId?: string;
  readonly offset?: number;
}

type Values = Readonly<Record<string, string>>;
type Program = Readonly<Partial<Record<Case, () => Promise<void>>>>;

const silent = { debug() {}, info() {}, warn() {}, error() {} };

async function run({ host, port, slices, moved }: ClientNode): Promise<Line[]> {
  const FdfsClient = createRequire(import.meta.url)('fdfs') as new (options: object) => Fdfs;
  const connect = (tracker: { readonly host: string; readonly port: number }) =>
    new FdfsClient({ trackers: [tracker], timeout: 10_000, logger: silent });
  const client = connect({ host, port });
  const lines: Line[] = [];
  const keep = (id: string, bytes: Buffer) => {
    lines.push({ kept: id, sha256: createHash('sha256').update(bytes).digest('hex') });
  };
  const bodies = {
    ...program(client, readSlices(slices), keep),
    ...movedProgram(connect({ host: '127.0.0.1', port: moved.port }), readSlices(moved.files)),
  };
  for (const [name, body] of Object.entries(bodies)) {
    const error = await body().then(
      () => null,
      (reason: unknown) => String(reason),
    );
    lines.push({ case: name as Case, error });
  }
  return lines;
}

function program(
  client: Fdfs,
  slices: readonly { readonly id: string; readonly bytes: Buffer }[],
  keep: (id: string, bytes: Buffer) => void,
): Program {
  const { download, expectContent, expectInfo } = reading(client);
  const store = async (size: number) => {
    const bytes = randomBytes(size);
    const id = await client.upload(bytes, { ext: 'jpg' });
    if (size > 0) await expectContent(id, bytes);
    keep(id, bytes);
    return { id, bytes };
  };
  const appender = (bytes: Buffer) =>
    client.upload(bytes, { ext: 'log', method: 'uploadAppender' });

  return {
    upload: async () => void (await store(1000)),
    large: async () => void (await store(3_000_000)),
    empty: async () => {
      const { id } = await store(0);
      expect((await client.getFileInfo(id)).size).toBe(0);
    },
    range: async () => {
      const { id, bytes } = await store(5000);
      const part = await download(id, { offset: 100, bytes: 200 });
      expect(part.equals(bytes.subarray(100, 300))).toBe(true);
    },
    info: async () => {
      const { id, bytes } = await store(4321);
      await expectInfo(id, bytes);
    },
    delete: async () => {
      const id = await client.upload(randomBytes(10), { ext: 'bin' });
      await client.del(id);
      await expect(client.del(id)).rejects.toThrow('2');
      await expect(download(id)).rejects.toThrow('2');
    },
    append: async () => {
      const [first, second] = [randomBytes(1000), randomBytes(500_000)];
      const fileId = await appender(first);
      await client.upload(second, { method: 'append', fileId });
      await expectContent(fileId, Buffer.concat([first, second]));
      keep(fileId, Buffer.concat([first, second]));
    },
    modify: async () => {
      const [bytes, patch] = [randomBytes(1000), randomBytes(100)];
      const fileId = await appender(bytes);
      await client.upload(patch, { method: 'modify', fileId, offset: 300 });
      patch.copy(bytes, 300);
      await expectContent(fileId, bytes);
      keep(fileId, bytes);
    },
    metadata: async () => {
      const { id } = await store(10);
      await client.setMetaData(id, { width: '800', title: 'Ærø' });
      expect(await client.getMetaData(id)).toEqual({ title: 'Ærø', width: '800' });
      await client.setMetaData(id, { only: 'this' }, 'O');
      expect(await client.getMetaData(id)).toEqual({ only: 'this' });
    },
    merge: async () => {
      const { id } = await store(10);
      await client.setMetaData(id, { a: '1' });
      await client.setMetaData(id, { b: '2', a: '3' }, 'M');
      expect(await client.getMetaData(id)).toEqual({ a: '3', b: '2' });
    },
    sliceRead: async () => {
      for (const { id, bytes } of slices) await expectContent(id, bytes);
    },
    sliceRange: async () => {
      for (const { id, bytes } of slices) {
        const part = await download(id, { offset: 100, bytes: 50 });
        expect(part.equals(bytes.subarray(100, 150)), id).toBe(true);
      }
    },
    sliceInfo: async () => {
      for (const { id, bytes } of slices) await expectInfo(id, bytes);
    },
    forgedSlice: async () => {
      const { id } = slices[0]!;
      const at = id.lastIndexOf('.') - 4;
      const forged = `${id.slice(0, at)}${id[at] === 'B' ? 'C' : 'B'}${id.slice(at + 1)}`;
      await expect(download(forged)).rejects.toThrow('2');
    },
  };
}

function reading(client: Fdfs) {
  const download = async (id: string, range: { offset?: number; bytes?: number } = {}) => {
    const target = new PassThrough();
    const bytes = buffer(target);
    await client.download(id, { ...range, target });
    return bytes;
  };
  const expectContent = async (id: string, bytes: Buffer) => {
    expect((await download(id)).equals(bytes), id).toBe(true);
  };
  const expectInfo = async (id: string, bytes: Buffer) => {
    const info = await client.getFileInfo(id);
    expect({ size: info.size, crc32: info.crc32 >>> 0 }, id).toEqual({
      size: bytes.length,
      crc32: crc32(bytes),
    });
  };
  return { download, expectContent, expectInfo };
}

/** Files whose bytes another group has. */
function movedProgram(
  client: Fdfs,
  files: readonly { readonly id: string; readonly bytes: Buffer }[],
): Program {
  const { download, expectContent, expectInfo } = reading(client);
  return {
    movedRead: async () => {
      for (const { id, bytes } of files) await expectContent(id, bytes);
    },
    movedRange: async () => {
      for (const { id, bytes } of files) {
        const part = await download(id, { offset: 5, bytes: 20 });
        expect(part.equals(bytes.subarray(5, 25)), id).toBe(true);
      }
    },
    movedInfo: async () => {
      for (const { id, bytes } of files) await expectInfo(id, bytes);
    },
    movedMetadata: async () => {
      for (const [n, { id }] of files.entries()) {
        expect(await client.getMetaData(id)).toEqual({ n: String(n) });
      }
      const { id, bytes } = files[0]!;
      await client.setMetaData(id, { only: 'this' });
      expect(await client.getMetaData(id)).toEqual({ only: 'this' });
      await expectContent(id, bytes);
    },
    movedDelete: async () => {
      const { id } = files.at(-1)!;
      await client.del(id);
      await expect(download(id)).rejects.toThrow('2');
      await expect(client.getFileInfo(id)).rejects.toThrow('2');
    },
  };
}

function readSlices(path: string) {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  return lines.map((line) => {
    const space = line.indexOf(' ');
    return { id: line.slice(0, space), bytes: readFileSync(line.slice(space + 1)) };
  });
}

describe('npm fdfs', () => {
  clientSuite(run, {
    truncate: 'no such call',
    regenerate: 'no such call',
    slave: 'no such call',
  });
});
