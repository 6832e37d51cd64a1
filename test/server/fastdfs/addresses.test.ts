import { networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { HELLO } from '../../support/good-server.js';
import { clusterSetup } from '../../support/test-cluster.js';

const hasIpv6 = Object.values(networkInterfaces())
  .flat()
  .some((each) => each?.address === '::1');

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
