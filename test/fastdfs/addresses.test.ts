import { networkInterfaces } from 'node:os';
import { FastdfsClient, type FastdfsOptions } from '@stevedore/fastdfs';
import { uploadFile } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { clientOf, failure, goodServer } from '../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../support/good-server.js';
import { clusterSetup } from '../support/test-cluster.js';

const hasIpv6 = Object.values(networkInterfaces())
  .flat()
  .some((each) => each?.address === '::1');

/** A tracker that names a storage elsewhere, and the storage that is really meant. */
async function behindNat(host = '172.17.0.3', port = 23_000) {
  const server = await goodServer();
  server.storage = { host, port };
  return server;
}

describe('the address map', () => {
  it.each([
    [
      'ip and port to host and port',
      (port: number) => ({ '172.17.0.3:23000': `localhost:${port}` }),
    ],
    ['ip to host and port', (port: number) => ({ '172.17.0.3': `127.0.0.1:${port}` })],
    [
      'the longer key first',
      (port: number) => ({ '172.17.0.3': '127.0.0.1:1', '172.17.0.3:23000': `127.0.0.1:${port}` }),
    ],
  ])('translates %s', async (_, map) => {
    const server = await behindNat();
    const client = clientOf(server.address, { addressMap: map(server.server.port) });
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
  });

  it('keeps the port when it names none', async () => {
    const server = await goodServer();
    server.storage = { host: '172.17.0.3', port: server.server.port };
    const client = clientOf(server.address, { addressMap: { '172.17.0.3': 'localhost' } });
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });

  it('may be a function, which leaves alone what it does not know', async () => {
    const server = await behindNat();
    const asked: string[] = [];
    const addressMap = (address: string): string | undefined => {
      asked.push(address);
      return address === '172.17.0.3:23000' ? `127.0.0.1:${server.server.port}` : undefined;
    };
    const client = clientOf(server.address, { addressMap });
    await client.upload(HELLO);
    server.storage = undefined;
    await client.upload(HELLO);
    await client.upload(HELLO);
    expect(asked).toEqual(['172.17.0.3:23000', `127.0.0.1:${server.server.port}`]);
  });

  it('that answers nonsense ends the call', async () => {
    const server = await behindNat();
    const client = clientOf(server.address, { addressMap: () => 'http://nowhere' });
    expect(await failure(client.upload(HELLO))).toMatchObject({ code: 'invalid_argument' });
  });
});

describe('the list of allowed storages', () => {
  const elsewhere = ['10.0.0.0/8', '172.17.0.3', '172.17.0.4:23000', 'fd00::/8', 'storage-1'];

  it('keeps a tracker from leading the client elsewhere', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { allowedStorages: elsewhere });
    for (const call of [
      () => client.upload(HELLO),
      () => client.downloadBytes(HELLO_ID),
      () => client.delete(HELLO_ID),
      () => client.getMetadata(HELLO_ID),
    ]) {
      expect(await failure(call())).toMatchObject({
        code: 'address_not_allowed',
        address: server.address,
        retryable: false,
      });
    }
    for (const command of [11, 14, 12, 15]) expect(server.count(command)).toBe(0);
    await client.ping();
  });

  it.each([['127.0.0.0/8'], ['127.0.0.1'], ['127.0.0.1/32']])('lets %s through', async (entry) => {
    const server = await goodServer();
    const client = clientOf(server.address, { allowedStorages: [...elsewhere, entry] });
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });

  it('may name a port, and then means only that', async () => {
    const server = await goodServer();
    const allowed = clientOf(server.address, { allowedStorages: [server.address] });
    expect(await allowed.upload(HELLO)).toBe(HELLO_ID);
    const other = clientOf(server.address, { allowedStorages: ['127.0.0.1:1'] });
    expect((await failure(other.upload(HELLO))).code).toBe('address_not_allowed');
  });

  it('leaves out those not listed where there is a choice', async () => {
    const { cluster } = await clusterSetup({}, { storages: 3 });
    const [first, other, last] = cluster.storages;
    const allowedStorages = [first!.address, last!.address];
    const client = clientOf(cluster.trackers, { allowedStorages });
    // The tracker names one after the other, and begins with this one.
    await first!.close();
    await client.upload(HELLO);
    expect(last!.count(uploadFile.code)).toBe(1);
    expect(other!.accepted).toBe(0);
  });

  it('is asked about the address after the map', async () => {
    const server = await behindNat();
    const addressMap = { '172.17.0.3': `localhost:${server.server.port}` };
    const before = clientOf(server.address, { addressMap, allowedStorages: ['172.17.0.3'] });
    expect((await failure(before.upload(HELLO))).code).toBe('address_not_allowed');
    const after = clientOf(server.address, { addressMap, allowedStorages: ['localhost'] });
    expect(await after.upload(HELLO)).toBe(HELLO_ID);
  });

  it('is not passed by a name that means an allowed address', async () => {
    const server = await goodServer();
    server.wide = true;
    server.storage = { host: 'localhost', port: server.server.port };
    const client = clientOf(server.address, { allowedStorages: ['127.0.0.1', '::1'] });
    expect((await failure(client.upload(HELLO))).code).toBe('address_not_allowed');
  });

  it('knows an IPv6 address in each of its forms', async () => {
    const server = await goodServer();
    server.wide = true;
    server.storage = { host: 'fd00:0:0::7', port: 1 };
    const client = clientOf(server.address, { allowedStorages: ['fd00::7'], connectTimeoutMs: 50 });
    expect((await failure(client.upload(HELLO))).code).toBe('connect_failed');
  });
});

describe('address options', () => {
  it.each([
    [{ addressMap: { 'http://x': 'host' } }],
    [{ addressMap: { host: 'host:port' } }],
    [{ addressMap: { host: 5 } }],
    [{ addressMap: 'host' }],
    [{ allowedStorages: ['10.0.0.0/33'] }],
    [{ allowedStorages: ['name/8'] }],
    [{ allowedStorages: ['a b'] }],
    [{ allowedStorages: [5] }],
    [{ allowedStorages: '10.0.0.0/8' }],
    [{ spoolDirectory: '' }],
    [{ maxConnections: 0 }],
    [{ busyRetries: -1 }],
  ])('refuse %j', (more) => {
    const options = { trackers: ['host'], ...more } as unknown as FastdfsOptions;
    expect(() => new FastdfsClient(options)).toThrow(/options: /);
  });
});

describe.runIf(hasIpv6)('a cluster of IPv6 addresses', () => {
  it('serves every kind of call', async () => {
    const { client, cluster } = await clusterSetup({}, { host: '::1', storages: 2 });
    const id = await client.uploadAppender(HELLO);
    await client.append(id, HELLO);
    expect((await client.downloadBytes(id)).length).toBe(26);
    expect(await client.info(id)).toMatchObject({ size: 26 });
    expect((await client.locateAll(id)).map(({ address }) => address)).toEqual(['::1', '::1']);
    expect((await client.listStorages('group1')).length).toBe(2);
    await cluster.storages[0]!.close();
    expect((await client.downloadBytes(id)).length).toBe(26);
    expect(cluster.tracker.address).toMatch(/^\[::1\]:/);
  });
});
