import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../storage/support.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';
import { change, contentOf, NAME, store, THRESHOLD, tierOf } from '../tiers/harness.js';
import { bytesOf, onDisk } from './contents.js';
import { ioServer, ioServers, known, openWith, partsOf, STRIPE } from './harness.js';

describe('data files at I/O servers', () => {
  it('a file beyond the threshold is striped over them, over restarts; a small one is a row', async () => {
    const servers = await ioServers(3);
    const folder = temporaryFolder();
    const first = await openWith(folder, known(servers));
    const large = bytesOf(10 * STRIPE + 17);
    await store(first, folder, NAME, large);
    await store(first, folder, '00/00/small', bytesOf(100));
    expect(onDisk(folder)).toBe(false);
    expect(await contentOf(first, folder, NAME)).toEqual(large);
    const record = tierOf(first).records.find(NAME)!;
    expect(record).toMatchObject({ place: 2, size: large.length, moving: false });
    expect(record.layout).toMatchObject({ stripeBytes: STRIPE });
    expect(record.layout?.checks).toHaveLength(11);
    for (const server of servers) expect(partsOf(server)).toEqual([record.layout!.handle]);
    expect(tierOf(first).records.find('00/00/small')).toMatchObject({ place: 0 });
    await first.close();
    const second = await openWith(folder, known(servers));
    expect(await contentOf(second, folder, NAME)).toEqual(large);
    expect(await second.disk.exists(join(folder, 'data', NAME))).toBe(true);
    expect((await second.disk.list(join(folder, 'data', '00', '00'))).sort()).toEqual([
      'file.txt',
      'small',
    ]);
    await second.close();
  });

  it('stays on this disk while there is no I/O server', async () => {
    const folder = temporaryFolder();
    const opened = await openWith(folder, known([]));
    await store(opened, folder, NAME, bytesOf(10_000));
    expect(onDisk(folder)).toBe(true);
    await opened.close();
    const later = await openWith(folder, known(await ioServers(1)));
    expect(await contentOf(later, folder, NAME)).toEqual(bytesOf(10_000));
    expect(tierOf(later).records.find(NAME)).toBeUndefined();
    await later.close();
  });

  it('is read in any part, and only what is asked for travels', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const large = bytesOf(20 * STRIPE + 5);
    await store(opened, folder, NAME, large);
    const file = await opened.disk.openToRead(join(folder, 'data', NAME));
    const random = new Random(5);
    for (let turn = 0; turn < 100; turn += 1) {
      const at = random.below(large.length + 10);
      const target = Buffer.alloc(random.below(4 * STRIPE));
      const read = await file.readAt(target, at);
      expect(target.subarray(0, read)).toEqual(large.subarray(at, at + target.length));
    }
    await file.close();
    await opened.close();
  });

  it('takes any change as a file does: appends, overwritings, cuts, growth, against a model', async () => {
    const servers = await ioServers(3);
    const folder = temporaryFolder();
    let opened = await openWith(folder, known(servers));
    let model = bytesOf(THRESHOLD + 1000);
    await store(opened, folder, NAME, model);
    const random = new Random(11);
    for (let turn = 0; turn < 60; turn += 1) {
      const kind = random.below(10);
      if (kind < 4) {
        const bytes = bytesOf(random.below(3 * STRIPE) + 1, turn);
        await change(opened, folder, NAME, { at: model.length, bytes });
        model = Buffer.concat([model, bytes]);
      } else if (kind < 7) {
        const bytes = bytesOf(random.below(3 * STRIPE) + 1, turn);
        const at = random.below(model.length + 1);
        await change(opened, folder, NAME, { at, bytes });
        const grown = Buffer.alloc(Math.max(model.length, at + bytes.length));
        model.copy(grown);
        bytes.copy(grown, at);
        model = grown;
      } else {
        const size = THRESHOLD + 1 + random.below(12 * STRIPE);
        await change(opened, folder, NAME, { size });
        const cut = Buffer.alloc(size);
        model.copy(cut);
        model = cut;
      }
      expect(model.equals((await contentOf(opened, folder, NAME))!)).toBe(true);
      if (turn % 20 === 19) {
        await opened.close();
        opened = await openWith(folder, known(servers));
      }
    }
    const { layout } = tierOf(opened).records.find(NAME)!;
    tierOf(opened).dataFiles!.clean();
    await until(() =>
      servers.every((server) => partsOf(server).every((p) => p === layout!.handle)),
    );
    await opened.close();
  });

  it('a reader keeps the file as it was, whatever becomes of it', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const before = bytesOf(5 * STRIPE);
    await store(opened, folder, NAME, before);
    const reader = await opened.disk.openToRead(join(folder, 'data', NAME));
    const read = async () => {
      const target = Buffer.alloc(before.length);
      await reader.readAt(target, 0);
      return target;
    };
    await change(opened, folder, NAME, { at: 100, bytes: bytesOf(2000, 2) });
    expect(await read()).toEqual(before);
    await change(opened, folder, NAME, { size: THRESHOLD + 10 });
    await change(opened, folder, NAME, { at: THRESHOLD + 10, bytes: bytesOf(50, 4) });
    expect(await read()).toEqual(before);
    await opened.disk.unlink(join(folder, 'data', NAME));
    await tierOf(opened).records.commit();
    expect(await read()).toEqual(before);
    expect(await contentOf(opened, folder, NAME)).toBeUndefined();
    await reader.close();
    await until(() => servers.every((server) => partsOf(server).length === 0));
    await opened.close();
  });

  it('grows out of a row, moves out of one and comes back', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const tier = tierOf(opened);
    await store(opened, folder, NAME, bytesOf(3000));
    await store(opened, folder, `${NAME}-m`, Buffer.from('a\x02b'));
    expect(tier.records.find(NAME)).toMatchObject({ place: 0 });
    await change(opened, folder, NAME, { at: 3000, bytes: bytesOf(5000, 2) });
    const grown = Buffer.concat([bytesOf(3000), bytesOf(5000, 2)]);
    expect(tier.records.find(NAME)).toMatchObject({ place: 2, moves: 1, size: 8000 });
    expect(await contentOf(opened, folder, NAME)).toEqual(grown);
    await change(opened, folder, NAME, { size: 2000 });
    expect(await tier.moveToRow(NAME, THRESHOLD)).toBe('moved');
    expect(tier.records.find(NAME)).toMatchObject({ place: 0, moves: 2 });
    expect(await tier.moveToFile(NAME)).toBe('moved');
    expect(tier.records.find(NAME)).toMatchObject({ place: 2, moves: 3 });
    expect(await tier.moveToRow(NAME, 1999)).toBe('refused');
    expect(await contentOf(opened, folder, NAME)).toEqual(bytesOf(3000).subarray(0, 2000));
    expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(Buffer.from('a\x02b'));
    expect(onDisk(folder)).toBe(false);
    await opened.close();
  });

  it('renames it, replaces it, and takes the place of a file on this disk', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const path = (name: string) => join(folder, 'data', name);
    await store(opened, folder, NAME, bytesOf(9000));
    await opened.disk.rename(path(NAME), path('00/00/other'));
    await opened.disk.syncDirectory(join(folder, 'data', '00', '00'));
    expect(await contentOf(opened, folder, '00/00/other')).toEqual(bytesOf(9000));
    await store(opened, folder, '00/00/other', bytesOf(7000, 3));
    expect(await contentOf(opened, folder, '00/00/other')).toEqual(bytesOf(7000, 3));
    writeFileSync(path('00/00/plain'), 'as a file');
    writeFileSync(path('00/00/plain-m'), 'a\x02b');
    await store(opened, folder, '00/00/plain', bytesOf(8000, 4));
    expect(onDisk(folder, '00/00/plain')).toBe(false);
    expect(await contentOf(opened, folder, '00/00/plain')).toEqual(bytesOf(8000, 4));
    expect(await contentOf(opened, folder, '00/00/plain-m')).toEqual(Buffer.from('a\x02b'));
    await store(opened, folder, '00/00/other', bytesOf(10, 5));
    const left = tierOf(opened).records.find('00/00/plain')!.layout!.handle;
    await until(() => servers.every((server) => partsOf(server).every((part) => part === left)));
    await opened.close();
  });

  it('gives a retryable error while a server is dead, and the bytes when it is back', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const large = bytesOf(6 * STRIPE);
    await store(opened, folder, NAME, large);
    await servers[1]!.stop();
    await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject({ status: 11 });
    const growth = { at: large.length, bytes: bytesOf(4 * STRIPE, 9) };
    await expect(change(opened, folder, NAME, growth)).rejects.toMatchObject({ status: 11 });
    await servers[1]!.restart();
    await until(() =>
      contentOf(opened, folder, NAME).then(
        (bytes) => bytes!.equals(large),
        () => false,
      ),
    );
    await change(opened, folder, NAME, growth);
    expect(await contentOf(opened, folder, NAME)).toEqual(Buffer.concat([large, growth.bytes]));
    await opened.close();
  });

  it('puts a new file where servers live, and on this disk when none does', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const tier = tierOf(opened);
    await store(opened, folder, NAME, bytesOf(3000));
    await servers[0]!.stop();
    expect(await tier.moveToFile(NAME)).toBe('moved');
    const { record } = servers[1]!;
    expect(tier.records.find(NAME)).toMatchObject({ place: 2, layout: { servers: [record.id] } });
    await servers[1]!.stop();
    await store(opened, folder, '00/00/second', bytesOf(3000, 2));
    expect(await tier.moveToFile('00/00/second')).toBe('moved');
    expect(tier.records.find('00/00/second')).toMatchObject({ place: 1 });
    expect(await contentOf(opened, folder, '00/00/second')).toEqual(bytesOf(3000, 2));
    await opened.close();
  });

  it('never gives bytes that are not those of the record', async () => {
    const servers = await ioServers(1);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const tier = tierOf(opened);
    await store(opened, folder, NAME, bytesOf(6 * STRIPE));
    const { handle } = tier.records.find(NAME)!.layout!;
    const { owner } = tier.records;
    const part = join(servers[0]!.folder, 'parts', owner, handle.slice(0, 2), handle);
    const sound = readFileSync(part);
    const damaged = Buffer.from(sound);
    damaged[3 * STRIPE + 7]! ^= 1;
    for (const content of [damaged, sound.subarray(0, sound.length - 1), Buffer.alloc(0)]) {
      writeFileSync(part, content);
      await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject({ status: 5 });
    }
    // What is asked for of a damaged stripe may be sound itself; it is not given either.
    writeFileSync(part, damaged);
    const file = await opened.disk.openToRead(join(folder, 'data', NAME));
    await expect(file.readAt(Buffer.alloc(3), 3 * STRIPE)).rejects.toMatchObject({ status: 5 });
    expect(await file.readAt(Buffer.alloc(3), 2 * STRIPE)).toBe(3);
    await file.close();
    await opened.close();
  });

  it('deletes parts when their server is back, over a restart', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    await store(opened, folder, NAME, bytesOf(6 * STRIPE));
    await servers[0]!.stop();
    await opened.disk.unlink(join(folder, 'data', NAME));
    await opened.disk.syncDirectory(join(folder, 'data', '00', '00'));
    await until(() => partsOf(servers[1]!).length === 0);
    await until(() => tierOf(opened).records.waitingDeletions === 1);
    opened.abandon();
    await servers[0]!.restart();
    expect(partsOf(servers[0]!)).toHaveLength(1);
    const again = await openWith(folder, known(servers));
    tierOf(again).dataFiles!.clean();
    await until(() => partsOf(servers[0]!).length === 0);
    await until(() => tierOf(again).records.waitingDeletions === 0);
    await again.close();
  });

  it('leaves the data files of other storages alone', async () => {
    const servers = await ioServers(1);
    const folders = [temporaryFolder(), temporaryFolder()];
    const one = await openWith(folders[0]!, known(servers));
    const other = await openWith(folders[1]!, known(servers));
    await store(one, folders[0]!, NAME, bytesOf(9000));
    await store(other, folders[1]!, NAME, bytesOf(9000, 2));
    for (const each of [one, other]) tierOf(each).dataFiles!.clean();
    await one.disk.unlink(join(folders[0]!, 'data', NAME));
    await tierOf(one).records.commit();
    await until(() => partsOf(servers[0]!).length === 1);
    expect(await contentOf(other, folders[1]!, NAME)).toEqual(bytesOf(9000, 2));
    await one.close();
    await other.close();
  });

  it('does not take another server for the one it knows', async () => {
    const server = await ioServer();
    const stranger = await ioServer();
    const folder = temporaryFolder();
    const opened = await openWith(folder, known([server]));
    await store(opened, folder, NAME, bytesOf(9000));
    await opened.close();
    const { port } = stranger.record;
    const again = await openWith(
      folder,
      known([{ ...server, record: { ...server.record, port } }]),
    );
    await expect(contentOf(again, folder, NAME)).rejects.toMatchObject({ status: 11 });
    await again.close();
  });

  it('does not wait for ever for a server that hangs', async () => {
    const server = await ioServer();
    const folder = temporaryFolder();
    const opened = await openWith(folder, known([server]));
    await store(opened, folder, NAME, bytesOf(9000));
    await opened.close();
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => sockets.add(socket.on('error', () => {})));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const { port } = silent.address() as AddressInfo;
    const hanging = { ...server, record: { ...server.record, port } };
    const again = await openWith(folder, known([hanging], 50));
    await expect(contentOf(again, folder, NAME)).rejects.toMatchObject({ status: 11 });
    await again.close();
  });

  it('an upload that is given up leaves nothing', async () => {
    const servers = await ioServers(2);
    const folder = temporaryFolder();
    const opened = await openWith(folder, known(servers));
    const temporary = join(folder, 'data', '.tmp', 'given-up');
    const file = await opened.disk.create(temporary);
    await file.writeAt([bytesOf(9000)], 0);
    await file.sync();
    expect(partsOf(servers[0]!)).toHaveLength(1);
    await file.close();
    await opened.disk.unlink(temporary);
    await until(() => servers.every((server) => partsOf(server).length === 0));
    expect(readdirSync(join(folder, 'data', '.tmp'))).toEqual([]);
    await opened.close();
  });
});
