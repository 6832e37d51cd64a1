import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isStoreError, type OpenOptions, open, type StoreError } from '@stevedore/client';
import { type GatewayStore, openForGateway } from '@stevedore/client/internal';
import { FastdfsClient } from '@stevedore/fastdfs';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Deployment } from '../../../packages/client/dist/deployment/deployment.js';
import { forgetFileMap, until } from '../../support/staging.js';
import { SMALL } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Several processes of one machine: each reads what the others have, and asks the owner to write. */

const CONTENT = Buffer.from('the content of a small file');
const LARGE = Buffer.alloc(3_000_000, 'large');

async function trackers(): Promise<string[]> {
  const node = await open({ idMaxAge: 0, directory: temporaryFolder() });
  onTestFinished(() => node.close());
  return node.trackers as string[];
}

/** Stores of one data directory; `reopen` closes one and opens it again. */
async function stores(count: number, options: OpenOptions = {}) {
  const named = await trackers();
  const directories = Array.from({ length: count }, () => temporaryFolder());
  const all: GatewayStore[] = [];
  const openOne = async (index: number): Promise<GatewayStore> => {
    const siblings = directories.flatMap((directory, other) =>
      other === index
        ? []
        : [
            {
              directory,
              delete: async (key: string) => {
                try {
                  await all[other]!.delete(key, { onlyHere: true });
                  return true;
                } catch (error) {
                  if (isStoreError(error, 'not_found')) return false;
                  throw error;
                }
              },
            },
          ],
    );
    const directory = directories[index]!;
    const given = { ...SMALL, mergeMaxAge: '1h', trackers: named, directory, ...options } as const;
    all[index] = await openForGateway(given, { siblings });
    for (const [other, store] of all.entries()) if (other !== index) store.siblings!.lookAgain();
    return all[index];
  };
  for (const index of directories.keys()) await openOne(index);
  onTestFinished(async () => {
    for (const store of all) await store.close();
  });
  const reopen = async (index: number, between?: () => void) => {
    await all[index]!.close();
    between?.();
    return openOne(index);
  };
  return { all, first: all[0]!, second: all[1]!, directories, reopen };
}

const notFound = { code: 'not_found' };

describe('a file of a sibling', () => {
  it('takes along what any process has made of it', async () => {
    const { all } = await stores(3);
    const [first, second, third] = all as [GatewayStore, GatewayStore, GatewayStore];
    const { key } = await first.put(CONTENT);
    const made = await Promise.all(all.map((store) => store.put('x', { pictureOf: key })));
    expect(await third.stat(made[1]!.key)).toMatchObject({ pictureOf: key });
    await third.delete(key);
    for (const each of made) await expect(first.get(each.key)).rejects.toMatchObject(notFound);
    expect(all.map((store) => store.stats().derivedFiles)).toEqual([0, 0, 0]);
    await expect(second.put('x', { pictureOf: key })).rejects.toMatchObject(notFound);
  });

  it('is read at every process, staged and merged, small, empty and large, and by its FastDFS id', async () => {
    const { all } = await stores(3);
    const [first, ...others] = all as [GatewayStore, GatewayStore, GatewayStore];
    const small = await first.put(CONTENT, { name: 'a.txt', type: 'text/plain', group: 'album' });
    const empty = await first.put(Buffer.alloc(0));
    const large = await first.put(LARGE, { name: 'large.bin' });
    const readAll = async () => {
      for (const store of others) {
        const file = await store.get(small.key);
        expect(await file.bytes()).toEqual(CONTENT);
        expect(await file.bytes({ range: { start: 4, end: 10 } })).toEqual(CONTENT.subarray(4, 11));
        expect(await store.stat(small.key)).toEqual(await first.stat(small.key));
        expect(await (await store.get(empty.key)).bytes()).toEqual(Buffer.alloc(0));
        expect((await (await store.get(large.key)).bytes()).equals(LARGE)).toBe(true);
      }
    };
    await readAll();
    const settling = others[0]!.settled(small.key);
    await first.flush();
    await readAll();
    const id = await settling;
    for (const store of others) {
      expect(await (await store.get(id)).bytes()).toEqual(CONTENT);
      expect((await store.get(id)).key).toBe(small.key);
      const whole = await store.settled(large.key);
      expect((await store.get(whole)).key).toBe(large.key);
    }
  });

  it('is gone where its deletion by another server was heard first, from memory too', async () => {
    const { first, second } = await stores(2, {
      map: `sqlite:${join(temporaryFolder(), 'map.db')}`,
      cacheSize: 1_000_000,
    });
    const { key } = await first.put(CONTENT);
    await (await second.get(key)).bytes();
    const known = second.cached!.get(key)!;
    // The other half is for files just uploaded.
    expect(second.cached!.maxBytes).toBe(500_000);
    expect(second.cached!.isCurrent(known)).toBe(true);
    (second.deployment as Deployment).noteRemoved(Buffer.from(key, 'base64url'));
    await expect(second.get(key)).rejects.toMatchObject(notFound);
    await expect(second.stat(key)).rejects.toMatchObject(notFound);
    expect(second.cached!.isCurrent(known)).toBe(false);
    expect(await (await first.get(key)).bytes()).toEqual(CONTENT);
  });

  it('is gone everywhere once it is deleted anywhere, from memory too', async () => {
    const { all, first, second } = await stores(2);
    const one = await first.put(CONTENT);
    const two = await first.put(CONTENT);
    const three = await first.put(CONTENT);
    for (const { key } of [one, two, three]) await (await second.get(key)).bytes();
    const known = second.cached!.get(one.key)!;
    expect(known.bytes.equals(CONTENT)).toBe(true);
    await first.delete(one.key);
    expect(second.cached!.isCurrent(known)).toBe(false);
    expect(second.cached!.get(one.key)).toBeUndefined();
    await expect(second.get(one.key)).rejects.toMatchObject(notFound);
    await second.delete(two.key);
    await expect(first.get(two.key)).rejects.toMatchObject(notFound);
    await expect(second.get(two.key)).rejects.toMatchObject(notFound);
    await expect(second.delete(two.key)).rejects.toMatchObject(notFound);
    await first.flush();
    const id = await first.settled(three.key);
    await second.delete(id);
    await expect(first.get(three.key)).rejects.toMatchObject(notFound);
    for (const store of all) await expect(store.get(id)).rejects.toMatchObject(notFound);
  });

  it('is read after its bytes have moved: merged, compacted, its segment removed', async () => {
    const { first, second, directories } = await stores(2, { retain: 0, cacheSize: 0 });
    const receipts = [];
    for (let index = 0; index < 40; index += 1) {
      receipts.push(await first.put(Buffer.alloc(50_000, String(index))));
    }
    const file = await second.get(receipts[0]!.key);
    const before = await file.bytes();
    await first.flush();
    const kept = [receipts[0]!.key, receipts[39]!.key];
    const ids = () => Promise.all(kept.map((key) => first.settled(key)));
    const merged = await ids();
    for (const { key } of receipts.slice(1, 39)) await second.delete(key);
    await until(async () => {
      await first.flush();
      return (await ids()).every((id, index) => id !== merged[index]);
    });
    for (const name of readdirSync(join(directories[0]!, 'container'))) {
      rmSync(join(directories[0]!, 'container', name), { force: true });
    }
    // With what was known of it before, and as it is known now.
    expect((await file.bytes()).equals(before)).toBe(true);
    expect((await (await second.get(receipts[39]!.key)).bytes())[0]).toBe('3'.charCodeAt(0));
  });

  it('is read while its owner is away, and 404 is said only of what cannot exist', async () => {
    const { first, second, reopen, directories } = await stores(2);
    const { key } = await first.put(CONTENT);
    await first.close();
    expect(await (await second.get(key)).bytes()).toEqual(CONTENT);
    const unknown = Buffer.from(key, 'base64url').fill(1, 8).toString('base64url');
    await expect(second.get(unknown)).rejects.toMatchObject(notFound);
    const again = await reopen(0, () => {
      forgetFileMap(directories[0]!);
    });
    expect(await (await second.get(key)).bytes()).toEqual(CONTENT);
    await again.delete(key);
    await expect(second.get(key)).rejects.toMatchObject(notFound);
  });

  it('of which the FileMap cannot be read is not said to be gone', async () => {
    const { first, second, directories } = await stores(2);
    const { key } = await first.put(CONTENT);
    await first.close();
    forgetFileMap(directories[0]!);
    second.siblings!.lookAgain();
    await expect(second.get(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  it('is found by the mark of its upload', async () => {
    const { first, second } = await stores(2);
    const once = Buffer.alloc(16, 7);
    const receipt = await first.put(CONTENT, { once });
    expect(await second.findOnce(once)).toMatchObject([{ key: receipt.key }]);
  });
});

it('a copy of a directory beside it is refused', async () => {
  const { directories, all } = await stores(2);
  await all[1]!.close();
  const nobody = { delete: async () => false };
  const beside = [{ directory: directories[0]!, ...nobody }];
  const copy = temporaryFolder();
  cpSync(join(directories[0]!, 'origin'), join(copy, 'origin'));
  await expect(
    openForGateway(
      { ...SMALL, directory: copy, trackers: all[0]!.trackers as string[] },
      { siblings: beside },
    ),
  ).rejects.toMatchObject({ code: 'directory_unusable' });
});

it('a file of a sibling that FastDFS has lost is missing at every process, and found out by any', async () => {
  const { all } = await stores(2, { retain: 0, cacheSize: 0 });
  const [owner, other] = all as [GatewayStore, GatewayStore];
  const errors: string[] = [];
  for (const store of all) store.on('error', (error) => errors.push((error as StoreError).code));
  const { key } = await owner.put(LARGE);
  await owner.flush();
  const id = await owner.settled(key);
  await expect.poll(async () => (await owner.locate(key)).disk).toBeUndefined();
  const client = new FastdfsClient({ trackers: owner.trackers });
  await client.delete(id);
  await client.close();
  const missing = { code: 'missing_in_fastdfs' };
  for (const store of [other, owner]) {
    for (const name of [key, id]) {
      const file = await store.get(name).catch(() => undefined);
      await expect(file?.bytes() ?? store.get(name)).rejects.toMatchObject(missing);
      await expect(store.stat(name)).rejects.toMatchObject(missing);
    }
    expect(store.stats().missingInFastdfs).toBe(1);
  }
  expect(errors).toEqual([missing.code, missing.code]);
});
