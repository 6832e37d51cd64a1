import { createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { fakeClock } from '../../support/fake-clock.js';
import { Chunks, failure, until } from '../../support/fastdfs.js';
import { HELLO } from '../../support/good-server.js';
import { turns } from '../../support/storage/support.js';
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
    let [asked, returned] = [0, 0];
    const body: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          asked += 1;
          return new Promise(() => {});
        },
        return: async () => {
          returned += 1;
          return { done: true, value: undefined };
        },
      }),
    };
    fakeClock();
    const late = failure(client.upload(body, { size: 1, deadlineMs: 5_000 }));
    while (asked === 0) await turns();
    await vi.advanceTimersByTimeAsync(5_000);
    expect((await late).code).toBe('timeout');
    vi.useRealTimers();
    const controller = new AbortController();
    const ended = failure(client.upload(body, { size: 1, signal: controller.signal }));
    await until(() => asked === 2);
    controller.abort();
    expect((await ended).code).toBe('aborted');
    expect(returned).toBe(2);
    await until(() => client.stats().leased === 0);
  });
});
