import { describe, expect, it, vi } from 'vitest';
import { silence } from '../../support/cluster/index.js';
import { fakeClock } from '../../support/fake-clock.js';
import { clientOf, failure, goodServer, until } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';
import { clusterSetup } from '../../support/test-cluster.js';

describe('the connections of all pools together', () => {
  it('never are more than maxConnections, and every call is served', async () => {
    const maxConnections = 5;
    const { client, cluster } = await clusterSetup({ maxConnections }, { storages: 4 });
    let most = 0;
    const timer = setInterval(() => {
      most = Math.max(most, cluster.connections);
      expect(client.stats().open).toBeLessThanOrEqual(maxConnections);
    }, 1);
    const ids = await Promise.all(Array.from({ length: 150 }, () => client.upload(HELLO)));
    const read = await Promise.all(ids.map((id) => client.downloadBytes(id)));
    clearInterval(timer);
    expect(read.every((bytes) => bytes.equals(HELLO))).toBe(true);
    expect(most).toBeGreaterThan(1);
    expect(client.stats()).toMatchObject({ leased: 0, queued: 0 });
    expect(client.stats().open).toBeLessThanOrEqual(maxConnections);
  });

  it('may be one: it moves from server to server', async () => {
    const { client } = await clusterSetup({ maxConnections: 1 }, { storages: 2 });
    const ids = await Promise.all(Array.from({ length: 10 }, () => client.upload(HELLO)));
    await Promise.all(ids.map((id) => client.delete(id)));
    expect(client.stats()).toMatchObject({ open: 1, idle: 1, leased: 0, queued: 0 });
  });

  it('are passed to the call that waits longest, not kept by a busy server', async () => {
    const storage = await goodServer();
    const tracker = await goodServer();
    tracker.storage = { host: '127.0.0.1', port: storage.server.port };
    const client = clientOf(tracker.address, { maxConnections: 1, leaseTimeoutMs: 5_000 });
    // Calls to the tracker alone, one always waiting, would keep the only connection.
    let stop = false;
    const busy = Array.from({ length: 4 }, async () => {
      while (!stop) await client.ping();
    });
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
    stop = true;
    await Promise.all(busy);
  });

  it('are waited for no longer than leaseTimeoutMs', async () => {
    const storage = await goodServer();
    storage.answers.set(14, silence);
    const tracker = await goodServer();
    tracker.storage = { host: '127.0.0.1', port: storage.server.port };
    const client = clientOf(tracker.address, { maxConnections: 1, leaseTimeoutMs: 5_000 });
    const held = failure(client.downloadBytes(HELLO_ID));
    await until(() => storage.count(14) === 1);
    fakeClock();
    const late = failure(client.ping());
    await vi.advanceTimersByTimeAsync(4_999);
    expect(client.stats()).toMatchObject({ queued: 1 });
    await vi.advanceTimersByTimeAsync(1);
    expect((await late).code).toBe('pool_exhausted');
    expect(client.stats()).toMatchObject({ leased: 1, queued: 0 });
    await client.close();
    expect((await held).code).toBe('closed');
  });

  it('that lie idle make room for another server', async () => {
    const { client, cluster } = await clusterSetup({ maxConnections: 2 }, { storages: 3 });
    for (let round = 0; round < 6; round++) await client.upload(HELLO);
    expect(await cluster.names()).toHaveLength(6);
    expect(client.stats().open).toBe(2);
  });
});
