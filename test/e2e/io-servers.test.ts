import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { FastdfsClient } from '@stevedore/fastdfs';
import { askMigration } from '@stevedore/storage';
import { expect, onTestFinished, test } from 'vitest';
import { Running, temporaryDirectory } from '../cli/run.js';
import { until } from '../storage/support.js';

/**
 * A tracker, a storage with a metadata tier and two I/O servers, each a process of its
 * own, as an operator starts them; and any of them killed.
 */

const KIB = 1024;

function portOf(address: string): string {
  return address.slice(address.lastIndexOf(':') + 1);
}

function ioServer(directory: string, tracker: string, port = '0'): Running {
  return new Running([
    ...['storage', '--role', 'io', '--store-paths', directory],
    ...['--trackers', tracker, '--port', port],
  ]);
}

function metadataServer(directory: string, tracker: string): Running {
  return new Running([
    ...['storage', '--metadata-tier', '--store-paths', directory, '--trackers', tracker],
    ...['--port', '0', '--bandwidth', '1GiB', '--stripe-size', '64KiB', '--cache-size', '0B'],
  ]);
}

async function killed({ process: child }: Running): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await exited;
}

function partsIn(directory: string): string[] {
  const entries = readdirSync(join(directory, 'parts'), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

test('files are striped over I/O servers, and outlive the kill of any process', async () => {
  const tracker = await new Running(['tracker', '--port', '0']).ready();
  const folders = [await temporaryDirectory(), await temporaryDirectory()];
  const servers = folders.map((folder) => ioServer(folder, tracker));
  const addresses = await Promise.all(servers.map((server) => server.ready()));
  const directory = await temporaryDirectory();
  let storage = metadataServer(directory, tracker);
  let address = await storage.ready();
  const active = async (count: number) => {
    const { ioServers } = await askMigration(address, 'status');
    return ioServers.filter(({ isActive }) => isActive).length === count;
  };
  await until(() => active(2));
  const client = new FastdfsClient({ trackers: [tracker], busyRetries: 0 });
  onTestFinished(() => client.close());
  const read = (id: string) => client.downloadBytes(id).catch((error: unknown) => error);
  const comesBack = async (id: string, bytes: Buffer) => {
    await until(async () => {
      const found = await read(id);
      if (!Buffer.isBuffer(found)) return false;
      // Wrong bytes are never to be had, however soon they are asked for.
      expect(found.equals(bytes)).toBe(true);
      return true;
    });
  };

  const large = randomBytes(700 * KIB + 13);
  const small = randomBytes(3 * KIB);
  let id = '';
  await until(async () => {
    id = await client.upload(large, { extension: 'bin' }).catch(() => '');
    return id !== '';
  });
  const smallId = await client.upload(small);
  const appender = await client.uploadAppender(small, { extension: 'log' });
  await client.append(appender, large);
  const appended = Buffer.concat([small, large]);
  expect(large.equals((await read(id)) as Buffer)).toBe(true);
  expect(appended.equals((await read(appender)) as Buffer)).toBe(true);
  for (const folder of folders) expect(partsIn(folder)).toHaveLength(2);

  // One of the two is killed: what needs it is a clear error, all else goes on.
  await killed(servers[1]!);
  for (const each of [id, appender]) expect(await read(each)).toMatchObject({ status: 11 });
  expect(await read(smallId)).toEqual(small);
  await client.setMetadata(id, { width: '100' });
  expect(await client.getMetadata(id)).toEqual({ width: '100' });
  await until(() => active(1));
  const meanwhile = await client.upload(large);
  expect(large.equals((await read(meanwhile)) as Buffer)).toBe(true);
  await client.delete(appender);
  expect(await read(appender)).toMatchObject({ code: 'not_found' });

  // It is back at another address, with its parts.
  servers[1] = ioServer(folders[1]!, tracker);
  await servers[1].ready();
  await comesBack(id, large);
  await until(() => partsIn(folders[1]!).length === 1);

  // The storage is killed, and then finds the servers without having to be told of them.
  await killed(storage);
  storage = metadataServer(directory, tracker);
  address = await storage.ready();
  for (const each of [id, meanwhile]) await comesBack(each, large);
  await comesBack(smallId, small);
  await client.delete(id);
  await client.delete(meanwhile);
  await until(() => folders.every((folder) => partsIn(folder).length === 0));
  expect(storage.stderr).toBe('');
  expect(portOf(addresses[0]!)).toBe(portOf(await servers[0]!.ready()));
});

test('an I/O server refuses what it has no use for, and shows that it is one', async () => {
  const directory = await temporaryDirectory();
  const wrong = new Running(['storage', '--role', 'io', '--store-paths', `${directory},/tmp/b`]);
  expect(await wrong.result()).toMatchObject({ code: 2 });
  const tier = new Running([
    'storage',
    '--role',
    'io',
    '--metadata-tier',
    '--store-paths',
    directory,
  ]);
  expect((await tier.result()).stderr).toContain('--metadata-tier');
  const server = new Running([
    'storage',
    '--role',
    'io',
    '--port',
    '0',
    '--store-paths',
    directory,
  ]);
  await server.ready();
  expect(server.stdout).toContain('I/O server in ');
});
