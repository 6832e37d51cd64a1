import { createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Chunks, failure, until } from '../../support/fastdfs.js';
import { HELLO } from '../../support/good-server.js';
import { temporaryFolder } from '../../support/temporary.js';
import { clusterSetup } from '../../support/test-cluster.js';

it('a stream that was read before, or is over, is refused', async () => {
  const { cluster, client } = await clusterSetup();
  const partly = Readable.from([Buffer.from('a'), Buffer.from('b')]);
  for await (const _ of partly.iterator({ destroyOnReturn: false })) break;
  const twice = Readable.from([Buffer.from('a')]);
  await client.delete(await client.upload(twice, { size: 1 }));
  for (const body of [partly, twice, new PassThrough().destroy()]) {
    expect((await failure(client.upload(body, { size: 1 }))).code).toBe('invalid_argument');
  }
  expect(await cluster.names()).toHaveLength(0);
});

describe('an iterable', () => {
  it('without its size is refused, and not begun', async () => {
    const { cluster, client } = await clusterSetup();
    const body = new Chunks([HELLO]);
    expect((await failure(client.upload(body))).code).toBe('invalid_argument');
    expect(body.pulled).toBe(0);
    expect(await cluster.names()).toHaveLength(0);
  });

  it('may be any stream', async () => {
    const { client } = await clusterSetup();
    const path = join(temporaryFolder(), 'stream');
    writeFileSync(path, HELLO);
    const web = new Blob([HELLO]).stream() as unknown as AsyncIterable<Uint8Array>;
    for (const body of [createReadStream(path), web]) {
      const id = await client.upload(body, { size: HELLO.length });
      expect(await client.downloadBytes(id)).toEqual(HELLO);
    }
  });

  it('that never goes on ends with the call', async () => {
    const { client } = await clusterSetup();
    let returned = 0;
    const body: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => {}),
        return: async () => {
          returned += 1;
          return { done: true, value: undefined };
        },
      }),
    };
    const options = { size: 1, deadlineMs: 100 };
    expect((await failure(client.upload(body, options))).code).toBe('timeout');
    const signal = AbortSignal.timeout(50);
    expect((await failure(client.upload(body, { size: 1, signal }))).code).toBe('aborted');
    expect(returned).toBe(2);
    await until(() => client.stats().leased === 0);
  });
});
