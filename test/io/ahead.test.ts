import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../storage/support.js';
import { temporaryFolder } from '../support/temporary.js';
import { change, contentOf, NAME, store, tierOf } from '../tiers/harness.js';
import { bytesOf } from './contents.js';
import { ioServers, known, openWith, partsOf, STRIPE } from './harness.js';

describe('a data file that is made ahead', () => {
  async function growing(options: Parameters<typeof openWith>[3] = {}) {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const mortal = known(servers);
    const opened = await openWith(folder, mortal, {}, options);
    await store(opened, folder, NAME, bytesOf(100));
    const grow = (at: number, bytes: Buffer) => change(opened, folder, NAME, { at, bytes });
    return { servers, folder, mortal, opened, grow };
  }

  it('is there at the mark, and the migration only writes', async () => {
    const { servers, folder, mortal, opened, grow } = await growing();
    await grow(100, bytesOf(1000, 2));
    await opened.disk.syncDirectory(join(folder, 'data', '00', '00'));
    for (const server of servers) expect(partsOf(server)).toEqual([]);
    await grow(1100, bytesOf(1900, 3));
    await until(() => servers.every((server) => partsOf(server).length === 1));
    const [made] = partsOf(servers[0]!);
    const requests = mortal.requests;
    await grow(3000, bytesOf(2000, 4));
    // Five stripes at two servers: each is written, and each server synced.
    expect(mortal.requests - requests).toBeLessThanOrEqual(5 + 2);
    expect(tierOf(opened).records.find(NAME)!.layout!.handle).toBe(made);
    const expected = Buffer.concat([
      bytesOf(100),
      bytesOf(1000, 2),
      bytesOf(1900, 3),
      bytesOf(2000, 4),
    ]);
    expect(await contentOf(opened, folder, NAME)).toEqual(expected);
    await opened.close();
  });

  it('goes when the file shrinks, is deleted or never grows', async () => {
    const { servers, folder, opened, grow } = await growing();
    const made = () => until(() => servers.every((server) => partsOf(server).length === 1));
    const gone = () => until(() => servers.every((server) => partsOf(server).length === 0));
    await grow(100, bytesOf(3000));
    await made();
    await change(opened, folder, NAME, { size: 50 });
    await gone();
    await grow(50, bytesOf(3000));
    await made();
    await opened.disk.unlink(join(folder, 'data', NAME));
    await gone();
    await store(opened, folder, '00/00/small', bytesOf(4000));
    for (const server of servers) expect(partsOf(server)).toEqual([]);
    await opened.close();
  });

  it('is an orphan after a crash', async () => {
    const { servers, folder, opened, grow } = await growing();
    await grow(100, bytesOf(3000));
    await until(() => servers.every((server) => partsOf(server).length === 1));
    opened.abandon();
    const again = await openWith(folder, known(servers));
    tierOf(again).dataFiles!.clean();
    await until(() => servers.every((server) => partsOf(server).length === 0));
    expect(await contentOf(again, folder, NAME)).toHaveLength(3100);
    await again.close();
  });

  it('can be switched off, and each round trip of a migration can be made', async () => {
    const requestsOf = async (options: Parameters<typeof openWith>[3]) => {
      const { mortal, opened, folder, grow } = await growing(options);
      await grow(100, bytesOf(3000));
      const requests = mortal.requests;
      await grow(3100, bytesOf(1000, 2));
      expect(await contentOf(opened, folder, NAME)).toHaveLength(4100);
      await opened.close();
      return mortal.requests - requests;
    };
    const off = { preMigrationShare: 1 };
    const least = await requestsOf(off);
    const size = { ...off, extraRounds: { create: true, size: true } };
    // To each of two servers one to make the part, and one to ask for its size.
    expect(await requestsOf(size)).toBe(least + 4);
  });
});

describe('a file that is read in one go', () => {
  it('is asked for ahead, stripe by stripe, and no stripe twice', async () => {
    const servers = await ioServers(3);
    const folder = temporaryFolder();
    const mortal = known(servers);
    const opened = await openWith(folder, mortal);
    const large = bytesOf(20 * STRIPE + 100);
    await store(opened, folder, NAME, large);
    const file = await opened.disk.openToRead(join(folder, 'data', NAME));
    const before = mortal.requests;
    const found: Buffer[] = [];
    for (let at = 0; at < large.length; at += STRIPE) {
      const chunk = Buffer.alloc(STRIPE);
      found.push(chunk.subarray(0, await file.readAt(chunk, at)));
    }
    expect(Buffer.concat(found).equals(large)).toBe(true);
    expect(mortal.requests - before).toBe(21);
    await file.close();
    await opened.close();
  });

  it('gives the error of a stripe that was asked for ahead, and its bytes when they can be had', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const large = bytesOf(8 * STRIPE);
    await store(opened, folder, NAME, large);
    const file = await opened.disk.openToRead(join(folder, 'data', NAME));
    const read = async (stripe: number) => {
      const chunk = Buffer.alloc(STRIPE);
      await file.readAt(chunk, stripe * STRIPE);
      return chunk.equals(large.subarray(stripe * STRIPE, (stripe + 1) * STRIPE));
    };
    const { servers: order } = tierOf(opened).records.find(NAME)!.layout!;
    const second = servers.find(({ record }) => record.id === order[1])!;
    await second.stop();
    expect(await read(0)).toBe(true);
    await expect(read(1)).rejects.toMatchObject({ status: 11 });
    expect(await read(2)).toBe(true);
    await second.restart();
    await until(() => read(1).catch(() => false));
    expect(await read(3)).toBe(true);
    await file.close();
    await opened.close();
  });
});
