import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { turnBit } from '../../support/rot.js';
import { openStore } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

/** What can be read without waiting, and whose memory it is. */

async function setup(options: { readonly cacheSize: number; readonly retain: number | '1GiB' }) {
  const cluster = await testCluster();
  const directory = temporaryFolder();
  const fixed = { trackers: cluster.trackers, directory, scrubRate: 0, idMaxAge: 0 };
  const again = async () => {
    const store = await openStore({ ...fixed, ...options });
    store.on('error', () => undefined);
    return store;
  };
  return { store: await again(), directory, again };
}

test('a small file in memory or on this disk is there at once, and counted as a read', async () => {
  for (const cacheSize of [0, 2 ** 24]) {
    const { store } = await setup({ cacheSize, retain: '1GiB' });
    const bytes = randomBytes(20_000);
    const { key } = await store.put(bytes);
    const staged = await store.get(key);
    expect(staged.contentNow()?.equals(bytes)).toBe(true);
    await store.flush();
    const merged = await store.get(key);
    expect(merged.contentNow()?.equals(bytes)).toBe(true);
    expect(store.stats()).toMatchObject({ reads: 2, readBytes: 40_000, failedReads: 0 });
  }
});

test('no byte that is read is in memory of threads, which WebCrypto and TextDecoder refuse', async () => {
  for (const cacheSize of [0, 2 ** 24]) {
    const { store } = await setup({ cacheSize, retain: '1GiB' });
    const text = 'a small file '.repeat(1000);
    const { key } = await store.put(text);
    for (const isMerged of [false, true]) {
      if (isMerged) await store.flush();
      const file = await store.get(key);
      const parts = [file.contentNow()!, (await file.content()) as Buffer, await file.bytes()];
      for await (const chunk of file.stream()) parts.push(chunk);
      for await (const chunk of file.web()) parts.push(chunk as Buffer);
      parts.push(await file.bytes({ range: { start: 5, end: 8 } }));
      for (const part of parts) {
        expect(part.buffer).toBeInstanceOf(ArrayBuffer);
        await crypto.subtle.digest('SHA-256', part);
        expect(text).toContain(new TextDecoder().decode(part));
      }
    }
  }
});

test('a file that is only in FastDFS, a large one and an empty one are not', async () => {
  const { store: first, again } = await setup({ cacheSize: 0, retain: 0 });
  const { key } = await first.put(randomBytes(20_000));
  const large = await first.put(randomBytes(5_000_000));
  const empty = await first.put(Buffer.alloc(0));
  await first.flush();
  await first.close();
  const store = await again();
  // The newest segment stays in any case.
  await store.put('another');
  await store.flush();
  await expect.poll(() => store.stats().containerBytes).toBeLessThan(1000);
  for (const each of [key, large.key, empty.key]) {
    const file = await store.get(each);
    expect(file.contentNow()).toBeUndefined();
    expect((await file.bytes()).length).toBe(file.size);
  }
});

test('a damaged copy is not, and its damage is found by the read that follows', async () => {
  const { store, directory } = await setup({ cacheSize: 0, retain: '1GiB' });
  const bytes = randomBytes(20_000);
  const { key } = await store.put(bytes);
  turnBit(join(directory, 'container'), bytes);
  const file = await store.get(key);
  expect(file.contentNow()).toBeUndefined();
  await expect(file.content()).rejects.toMatchObject({ code: 'corrupt' });
  expect(store.stats()).toMatchObject({ reads: 1, failedReads: 1 });
});

test('what `bytes` and `stream` give belongs to the reader, wherever the file is', async () => {
  for (const cacheSize of [0, 2 ** 24]) {
    const { store: first, again } = await setup({ cacheSize, retain: 0 });
    const sizes = [1, 2000, 20_000];
    const bodies = sizes.map((size) => randomBytes(size));
    const keys = await Promise.all(bodies.map(async (body) => (await first.put(body)).key));
    await first.flush();
    await first.close();
    const store = await again();
    // The newest segment stays in any case.
    const here = await store.put(bodies[2]!);
    await store.flush();
    await expect.poll(() => store.stats().containerBytes).toBeLessThan(21_000);
    for (const [index, key] of [...keys, here.key].entries()) {
      const body = bodies[index] ?? bodies[2]!;
      const id = await store.settled(key);
      for (const name of [key, id, key]) {
        const file = await store.get(name);
        const streamed = async () => Buffer.concat(await file.stream().toArray());
        const range = { start: 0, end: body.length - 1 };
        const reads = [file.bytes(), file.bytes(), file.bytes({ range }), streamed()];
        for (const bytes of await Promise.all(reads)) {
          expect(bytes.equals(body)).toBe(true);
          bytes.fill(0);
        }
        expect(body.equals((await file.content()) as Buffer)).toBe(true);
      }
    }
  }
});
