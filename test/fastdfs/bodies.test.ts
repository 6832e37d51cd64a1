import { createReadStream, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { refuse, reset } from '@stevedore/bench/cluster';
import { downloadFile, uploadFile } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { Chunks, chunksOf, failure, until } from '../support/fastdfs.js';
import { HELLO } from '../support/good-server.js';
import { temporaryFolder } from '../support/temporary.js';
import { clusterSetup } from '../support/test-cluster.js';

const MiB = 1024 * 1024;

describe('a file of the local disk', () => {
  it.each([0, 1, 5000, 3 * MiB + 1])('of %i bytes is stored under its extension', async (size) => {
    const { client } = await clusterSetup();
    const path = join(temporaryFolder(), 'archive.tar.gz');
    writeFileSync(path, Buffer.alloc(size, 'stevedore '));
    const ids = [await client.uploadFile(path), await client.upload({ path })];
    for (const id of ids) {
      expect(id).toMatch(/\.tar\.gz$/);
      expect((await client.downloadBytes(id)).equals(readFileSync(path))).toBe(true);
    }
    expect(await client.uploadFile(path, { extension: '' })).not.toMatch(/\./);
  });

  it('is read again when the upload is repeated elsewhere', async () => {
    const { cluster, client, orphans } = await clusterSetup({}, { storages: 2 });
    const path = join(temporaryFolder(), 'file.bin');
    writeFileSync(path, Buffer.concat([...chunksOf(3, MiB)]));
    cluster.storages[0]!.misbehave(uploadFile.code, reset);
    const ids = [await client.uploadFile(path), await client.uploadFile(path)];
    for (const id of ids) {
      expect((await client.downloadBytes(id)).equals(readFileSync(path))).toBe(true);
    }
    expect(orphans.length).toBe(1);
  });

  it('can be the body of every call that takes one', async () => {
    const { client } = await clusterSetup();
    const path = join(temporaryFolder(), 'part.bin');
    writeFileSync(path, 'part');
    const id = await client.uploadAppender({ path });
    await client.append(id, { path });
    await client.modify(id, 2, { path });
    expect((await client.downloadBytes(id)).toString()).toBe('papartrt');
    const slave = await client.uploadSlave(id, '_s', { path });
    expect(slave).toMatch(/_s\.bin$/);
    expect((await client.downloadBytes(slave)).toString()).toBe('part');
  });

  it('that is missing, a directory or of another size is not sent', async () => {
    const { cluster, client } = await clusterSetup();
    const folder = temporaryFolder();
    const path = join(folder, 'file');
    await expect(client.uploadFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
    mkdirSync(path);
    expect((await failure(client.uploadFile(path))).code).toBe('invalid_argument');
    writeFileSync(join(folder, 'five'), '12345');
    const call = client.uploadFile(join(folder, 'five'), { size: 4 });
    expect((await failure(call)).code).toBe('length_mismatch');
    expect(await cluster.names()).toHaveLength(0);
  });
});

describe('a stream', () => {
  it('that was read before, or is over, is refused', async () => {
    const { cluster, client } = await clusterSetup();
    const partly = Readable.from([Buffer.from('a'), Buffer.from('b')]);
    for await (const _ of partly.iterator({ destroyOnReturn: false })) break;
    const twice = Readable.from([Buffer.from('a')]);
    await client.delete(await client.upload(twice));
    for (const body of [partly, twice, new PassThrough().destroy()]) {
      expect((await failure(client.upload(body))).code).toBe('invalid_argument');
      expect((await failure(client.upload(body, { size: 1 }))).code).toBe('invalid_argument');
    }
    expect(await cluster.names()).toHaveLength(0);
  });
});

describe('a body of unknown length', () => {
  it('may have the same memory for every chunk', async () => {
    const { client } = await clusterSetup();
    async function* refilled() {
      const memory = Buffer.alloc(4);
      for (const letter of 'abc') yield memory.fill(letter);
    }
    const id = await client.upload(refilled());
    expect((await client.downloadBytes(id)).toString()).toBe('aaaabbbbcccc');
  });

  it.each([0, 1, 256 * 1024, 256 * 1024 + 1, 3 * MiB])('of %i bytes is stored', async (size) => {
    const { client } = await clusterSetup();
    const whole = Buffer.alloc(size, 'unknown ');
    const chunks = [whole.subarray(0, size / 3), Buffer.alloc(0), whole.subarray(size / 3)];
    const id = await client.upload(new Chunks(chunks), { extension: 'bin' });
    expect(client.describe(id)).toMatchObject({ kind: 'normal', size });
    expect((await client.downloadBytes(id)).equals(whole)).toBe(true);
  });

  it('may be any stream', async () => {
    const { client } = await clusterSetup();
    const path = join(temporaryFolder(), 'stream');
    writeFileSync(path, HELLO);
    expect(await client.downloadBytes(await client.upload(createReadStream(path)))).toEqual(HELLO);
    const web = new Blob([HELLO]).stream() as unknown as AsyncIterable<Uint8Array>;
    expect(await client.downloadBytes(await client.upload(web))).toEqual(HELLO);
  });

  it('leaves nothing in the spool directory, not even while it is there', async () => {
    const spoolDirectory = temporaryFolder();
    const { client } = await clusterSetup({ spoolDirectory });
    const seen: string[] = [];
    async function* body(): AsyncGenerator<Uint8Array> {
      for (const chunk of chunksOf(8, MiB / 4)) {
        yield chunk;
        seen.push(...readdirSync(spoolDirectory));
      }
    }
    await client.upload(body());
    expect([...seen, ...readdirSync(spoolDirectory)]).toEqual([]);
  });

  it('is repeated when the storage was not ready', async () => {
    const { cluster, client } = await clusterSetup();
    let left = 1;
    cluster.storages[0]!.misbehave(uploadFile.code, (received, good) => {
      if (left-- > 0) refuse(11)(received, good);
      else received.socket.write(good);
    });
    const body = new Chunks(chunksOf(4, MiB / 4));
    const id = await client.upload(body);
    expect((await client.info(id)).size).toBe(MiB);
    expect(body.pulled).toBe(MiB);
  });

  it('above maxSpoolBytes is refused and told to stop', async () => {
    const { cluster, client } = await clusterSetup({ maxSpoolBytes: MiB });
    const body = new Chunks(chunksOf(64, MiB / 4));
    const error = await failure(client.upload(body));
    expect(error).toMatchObject({ code: 'too_large', operation: 'upload' });
    await until(() => body.returned);
    expect(body.pulled).toBeLessThan(2 * MiB);
    expect(cluster.storages[0]!.accepted).toBe(0);
  });

  it('ends with its own error, or with that of the disk', async () => {
    const own = new Error('camera unplugged');
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(MiB);
      throw own;
    }
    const { client } = await clusterSetup();
    await expect(client.upload(body())).rejects.toBe(own);
    const spoolDirectory = join(temporaryFolder(), 'missing');
    const { client: homeless } = await clusterSetup({ spoolDirectory });
    const call = homeless.upload(new Chunks(chunksOf(2, MiB)));
    await expect(call).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await homeless.upload(new Chunks([HELLO]))).toMatch(/^group1/);
  });

  it('that never goes on ends with the call', async () => {
    const { client } = await clusterSetup();
    const body: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
    };
    expect((await failure(client.upload(body, { deadlineMs: 100 }))).code).toBe('timeout');
    const signal = AbortSignal.timeout(50);
    expect((await failure(client.upload(body, { signal }))).code).toBe('aborted');
  });
});

describe('a download into a file', () => {
  it('is whole when the call is done', async () => {
    const { client } = await clusterSetup();
    const folder = temporaryFolder();
    const path = join(folder, 'copy');
    const whole = Buffer.alloc(5 * MiB, 'download ');
    const id = await client.upload(whole);
    expect(await client.downloadFile(id, path)).toEqual({ size: whole.length });
    expect(readFileSync(path).equals(whole)).toBe(true);
    expect(await client.downloadFile(id, path, { offset: 9, length: 8 })).toEqual({ size: 8 });
    expect(readFileSync(path, 'utf8')).toBe('download');
    expect(readdirSync(folder)).toEqual(['copy']);
  });

  it('of a file of no bytes makes one', async () => {
    const { client } = await clusterSetup();
    const path = join(temporaryFolder(), 'copy');
    await client.downloadFile(await client.upload(Buffer.alloc(0)), path);
    expect(readFileSync(path).length).toBe(0);
  });

  it('that fails leaves what was there', async () => {
    const { cluster, client } = await clusterSetup();
    const folder = temporaryFolder();
    const path = join(folder, 'copy');
    writeFileSync(path, 'before');
    const id = await client.upload(HELLO);
    cluster.storages[0]!.misbehave(downloadFile.code, ({ socket }, good) =>
      socket.end(good.subarray(0, -1)),
    );
    expect((await failure(client.downloadFile(id, path))).code).toBe('connection_lost');
    cluster.behave();
    await expect(client.downloadFile(id, join(folder, 'no', 'copy'))).rejects.toMatchObject({
      code: 'ENOENT',
    });
    await until(() => client.stats().leased === 0);
    expect(readdirSync(folder)).toEqual(['copy']);
    expect(readFileSync(path, 'utf8')).toBe('before');
  });
});
