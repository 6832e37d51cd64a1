import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FastdfsClient } from '@stevedore/fastdfs';
import { onwardDone, parseFileId, queryFileInfo, writeOnward } from '@stevedore/protocol';
import { startIoServer, startStorage, startTracker, type TierOptions } from '@stevedore/storage';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RawClient, until } from '../storage/support.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';

/** A client that writes on to the I/O servers by itself, over the wire. */

const KIB = 1024;
const STRIPE = 16 * KIB;

/** Different for every seed and place; cheap, for there is much of it. */
function bytesOf(size: number, seed = 1): Buffer {
  const words = new Uint32Array(Math.ceil(size / 4));
  for (let at = 0; at < words.length; at += 1) words[at] = Math.imul(at + 1, 2 * seed + 7919);
  return Buffer.from(words.buffer, 0, size);
}

/** Not by `toEqual`, which takes its time over large buffers. */
function expectSame(found: Buffer, expected: Buffer): void {
  expect(found.length).toBe(expected.length);
  expect(found.equals(expected)).toBe(true);
}

async function cluster(tiers: TierOptions = {}, servers = 3) {
  const tracker = await startTracker({ port: 0 });
  onTestFinished(() => tracker.close());
  const trackers = [`127.0.0.1:${tracker.port}`];
  const ioServers = await Promise.all(
    Array.from({ length: servers }, () =>
      startIoServer({ port: 0, directory: temporaryFolder(), trackers }),
    ),
  );
  onTestFinished(async () => {
    for (const server of ioServers) await server.close();
  });
  const errors: Error[] = [];
  const storage = await startStorage({
    port: 0,
    storePaths: [temporaryFolder()],
    trackers,
    cacheBytes: 0,
    onError: (error) => errors.push(error),
    tiers: {
      enabled: true,
      thresholdBytes: 64 * KIB,
      parameters: { maximumThresholdBytes: 64 * KIB },
      migrates: false,
      bytesPerSecond: 1e9,
      stripeBytes: STRIPE,
      ioListIntervalMs: 20,
      ...tiers,
    },
  });
  onTestFinished(() => storage.close());
  await storage.active();
  const active = () => storage.migrationStatus()!.ioServers.filter((each) => each.isActive).length;
  await until(() => active() === servers);
  const client = new FastdfsClient({ trackers, writesOnward: true });
  onTestFinished(() => client.close());
  const raw = () => RawClient.open(storage.port);
  return { storage, client, raw, ioServers, errors, trackers };
}

const nameOf = (id: string) => {
  const { group, name } = parseFileId(id)!;
  return { group, name };
};

describe('a large append that makes a file outgrow its row', () => {
  it('goes to the I/O servers directly, from memory and from a file', async () => {
    const { storage, client, errors } = await cluster();
    const folder = temporaryFolder();
    for (const [turn, small] of [0, 1, 1000, STRIPE, 40 * KIB].entries()) {
      const begun = bytesOf(small, turn);
      const more = bytesOf(200 * KIB + turn, 100 + turn);
      const id = await client.uploadAppender(begun, { extension: 'log' });
      const { writtenOnward } = storage.migrationStatus()!;
      const path = join(folder, String(turn));
      writeFileSync(path, more);
      await client.append(id, turn % 2 === 0 ? more : { path });
      expect(storage.migrationStatus()!.writtenOnward).toBe(writtenOnward + 1);
      const whole = Buffer.concat([begun, more]);
      expectSame(await client.downloadBytes(id), whole);
      expect(await client.info(id)).toMatchObject({ size: whole.length });
      // Afterwards it is a file like any other.
      await client.append(id, bytesOf(100 * KIB, 7));
      await client.modify(id, 10, bytesOf(10, 8));
      const changed = Buffer.concat([whole, bytesOf(100 * KIB, 7)]);
      bytesOf(10, 8).copy(changed, 10);
      expectSame(await client.downloadBytes(id), changed);
    }
    expect(errors).toEqual([]);
  });

  it('goes the usual way if it is small, does not outgrow the row, or the client knows nothing of it', async () => {
    const { storage, client, trackers } = await cluster();
    const stock = new FastdfsClient({ trackers });
    onTestFinished(() => stock.close());
    const id = await client.uploadAppender(bytesOf(60 * KIB), { extension: 'log' });
    await client.append(id, bytesOf(20 * KIB, 2));
    const other = await stock.uploadAppender(bytesOf(60 * KIB), { extension: 'log' });
    await stock.append(other, bytesOf(100 * KIB, 2));
    await client.append(other, bytesOf(100 * KIB, 3));
    expect(storage.migrationStatus()).toMatchObject({ writtenOnward: 0, ioFiles: { files: 2 } });
    expect(await client.downloadBytes(id)).toHaveLength(80 * KIB);
    expect(await client.downloadBytes(other)).toHaveLength(260 * KIB);
  });

  it('goes the usual way to a storage without I/O servers or tiers', async () => {
    const tracker = await startTracker({ port: 0 });
    onTestFinished(() => tracker.close());
    const trackers = [`127.0.0.1:${tracker.port}`];
    const storage = await startStorage({ port: 0, storePaths: [temporaryFolder()], trackers });
    onTestFinished(() => storage.close());
    await storage.active();
    const client = new FastdfsClient({ trackers, writesOnward: true });
    onTestFinished(() => client.close());
    const id = await client.uploadAppender(bytesOf(10), { extension: 'log' });
    for (let turn = 0; turn < 3; turn += 1) await client.append(id, bytesOf(100 * KIB, turn));
    expect(await client.downloadBytes(id)).toHaveLength(300 * KIB + 10);
  });

  it('is revoked by a change or deletion: readers have the old file until then', async () => {
    const { storage, client, raw } = await cluster();
    const id = await client.uploadAppender(bytesOf(1000), { extension: 'log' });
    const asking = await raw();
    const grant = async () => {
      const request = { name: nameOf(id).name, size: 100 * KIB };
      return (await asking.ask(writeOnward, request)).answer!;
    };
    const { id: first, offset } = await grant();
    expect(offset).toBe(1000);
    // A second one while it is on its way is told to append as ever.
    expect(await grant()).toBeUndefined();
    expectSame(await client.downloadBytes(id), bytesOf(1000));
    await client.setMetadata(id, { a: '1' });
    expect((await asking.ask(queryFileInfo, nameOf(id))).answer).toMatchObject({ size: 1000 });
    await client.append(id, bytesOf(10, 2));
    const checks = Array.from({ length: 7 }, () => 0);
    expect((await asking.ask(onwardDone, { id: first, checks })).status).toBe(16);
    expectSame(await client.downloadBytes(id), Buffer.concat([bytesOf(1000), bytesOf(10, 2)]));
    const { id: second } = await grant();
    await client.delete(id);
    expect((await asking.ask(onwardDone, { id: second, checks })).status).toBe(16);
    await expect(client.downloadBytes(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(storage.migrationStatus()).toMatchObject({ revokes: 2, ioFiles: { files: 0 } });
    await until(() => storage.migrationStatus()!.waitingDeletions === 0);
  });

  it('is not believed: what is not at the servers does not become the file', async () => {
    const { client, raw } = await cluster();
    const id = await client.uploadAppender(bytesOf(1000), { extension: 'log' });
    const asking = await raw();
    const request = { name: nameOf(id).name, size: 100 * KIB };
    const { answer } = await asking.ask(writeOnward, request);
    const checks = Array.from({ length: 7 }, () => 0);
    expect((await asking.ask(onwardDone, { id: answer!.id, checks })).status).not.toBe(0);
    expectSame(await client.downloadBytes(id), bytesOf(1000));
    expect((await asking.ask(onwardDone, { id: answer!.id, checks })).status).toBe(16);
  });

  it('ends by itself when the client does not come back', async () => {
    const { storage, client, raw } = await cluster({ onwardMs: 20 });
    const id = await client.uploadAppender(bytesOf(1000), { extension: 'log' });
    const asking = await raw();
    const request = { name: nameOf(id).name, size: 100 * KIB };
    const { answer } = await asking.ask(writeOnward, request);
    await until(async () => {
      const again = await asking.ask(writeOnward, request);
      return again.answer !== undefined && again.answer.id !== answer!.id;
    });
    await client.append(id, bytesOf(10, 2));
    expect(await client.downloadBytes(id)).toHaveLength(1010);
    await until(() => storage.migrationStatus()!.waitingDeletions === 0);
  });

  it('goes the usual way while an I/O server is dead', async () => {
    const { client, ioServers } = await cluster({}, 2);
    const id = await client.uploadAppender(bytesOf(1000), { extension: 'log' });
    await ioServers[0]!.close();
    await client.append(id, bytesOf(200 * KIB, 2));
    expectSame(
      await client.downloadBytes(id),
      Buffer.concat([bytesOf(1000), bytesOf(200 * KIB, 2)]),
    );
  });

  it('of many clients to many files loses nothing, while others change and delete them', async () => {
    const { client, storage } = await cluster();
    await Promise.all(
      Array.from({ length: 6 }, async (_, index) => {
        const random = new Random(index);
        let model = bytesOf(2000, index);
        const id = await client.uploadAppender(model, { extension: 'log' });
        for (let turn = 0; turn < 3; turn += 1) {
          const more = bytesOf(70 * KIB + random.below(60 * KIB), index * 10 + turn);
          const before = model.length;
          const appended: Promise<unknown>[] = [client.append(id, more)];
          const isDisturbed = random.below(2) === 0;
          if (isDisturbed) appended.push(client.modify(id, 0, Buffer.from('new')));
          await Promise.all(appended);
          model = Buffer.concat([model, more]);
          if (isDisturbed) model.write('new', 0);
          expectSame(await client.downloadBytes(id), model);
          await client.truncate(id, before);
          model = model.subarray(0, before);
        }
        await client.delete(id);
      }),
    );
    await until(() => storage.migrationStatus()!.waitingDeletions === 0);
    expect(storage.migrationStatus()).toMatchObject({ ioFiles: { files: 0 }, rows: { files: 0 } });
  });
});
