import { SeededRandom } from '@stevedore/balance';
import {
  type MetadataServerList,
  type MetadataServerLoad,
  metadataServerReport,
  Status,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { Cluster } from '../../packages/storage/dist/tracker/cluster.js';
import { MetadataServers } from '../../packages/storage/dist/tracker/metadata-servers.js';
import { trackerSettings } from '../../packages/storage/dist/tracker/options.js';
import { trackerOf } from './support.js';

const INTERVAL_MS = 1000;
const CAPACITY = 1000;

/** Groups of one storage each, all at one address and active. */
function clusterOf(groups: number) {
  const cluster = new Cluster(trackerSettings({}));
  const time = { ms: 1_000_000 };
  for (let n = 1; n <= groups; n += 1) {
    const { member } = cluster.join(
      {
        group: `group${n}`,
        port: 23_000 + n,
        storePathCount: 1,
        subdirectoriesPerPath: 256,
        uploadPriority: 10,
        joinedAtSeconds: 1,
        startedAtSeconds: 1,
        version: '6.12',
        initial: true,
        status: -1,
        trackerAddress: '127.0.0.1',
        storageId: '',
        trackers: [],
      },
      '127.0.0.1',
      {},
      time.ms,
    );
    member.copyNothing();
    member.heard(time.ms);
  }
  const servers = new MetadataServers(cluster);
  const report = (n: number, load: Partial<MetadataServerLoad> = {}): MetadataServerList =>
    servers.report(
      {
        group: `group${n}`,
        id: '127.0.0.1',
        port: 23_000 + n,
        intervalMs: INTERVAL_MS,
        capacityBytes: CAPACITY,
        metadataBytes: 100,
        smallFileBytes: 100,
        markPerMille: 1000,
        toMoveBytes: 0,
        ...load,
      },
      '127.0.0.1',
      time.ms,
    );
  return { cluster, servers, report, time };
}

describe('metadata servers at a tracker', () => {
  it('learn of each other, and one with files to move gets the tightest fit', () => {
    const { report } = clusterOf(4);
    expect(report(1)).toMatchObject({ lease: undefined, servers: [{ group: 'group1' }] });
    report(2, { metadataBytes: 600 });
    report(3, { metadataBytes: 0 });
    const { lease, servers } = report(4, { smallFileBytes: 1200, toMoveBytes: 250 });
    expect(servers.map(({ group, host }) => `${group} ${host}`)).toEqual(
      [1, 2, 3, 4].map((n) => `group${n} 127.0.0.1`),
    );
    // 300 of group2 take 250; 800 and 900 would as well.
    expect(lease).toEqual({ group: 'group2', id: '127.0.0.1', roomBytes: 250 });
  });

  it('are lent to one at a time, for an interval, and not while they have files to move themselves', () => {
    const { report, time } = clusterOf(4);
    // Nobody is there yet.
    expect(report(2, { toMoveBytes: 10, smallFileBytes: 2000 }).lease).toBeUndefined();
    report(1);
    const first = report(3, { toMoveBytes: 500 }).lease;
    expect(first?.group).toBe('group1');
    expect(report(4, { toMoveBytes: 500 }).lease).toBeUndefined();
    time.ms += INTERVAL_MS;
    expect(report(4, { toMoveBytes: 500 }).lease?.group).toBe('group1');
    expect(report(3, { toMoveBytes: 500 }).lease).toBeUndefined();
    report(2, { toMoveBytes: 10 });
    // Whoever has nothing to move any more gives its target back.
    report(4);
    expect(report(3, { toMoveBytes: 500 }).lease).toBeDefined();
  });

  it('are no targets when they are silent, away, or of the same group', () => {
    const { cluster, report, time } = clusterOf(3);
    report(1);
    time.ms += 3 * INTERVAL_MS + 1;
    expect(report(2, { toMoveBytes: 500 }).lease).toBeUndefined();
    report(1);
    cluster.member('group1', '127.0.0.1').changeStatus(6);
    expect(report(2, { toMoveBytes: 500 }).lease).toBeUndefined();
  });

  it('keep the guards whatever is reported in whatever order', () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const random = new SeededRandom(seed);
      const { report, time } = clusterOf(6);
      const leases = new Map<string, { target: string; untilMs: number }>();
      const loads = new Map<string, MetadataServerLoad>();
      for (let step = 0; step < 60; step += 1) {
        time.ms += random.below(400);
        const n = 1 + random.below(6);
        const toMoveBytes = random.next() < 0.5 ? 1 + random.below(2000) : 0;
        const load = {
          metadataBytes: random.below(900),
          smallFileBytes: random.below(900),
          toMoveBytes,
        };
        const { lease, servers } = report(n, load);
        for (const server of servers) loads.set(server.group, server);
        const source = `group${n}`;
        leases.delete(source);
        if (!lease) continue;
        expect(toMoveBytes).toBeGreaterThan(0);
        expect(lease.group).not.toBe(source);
        expect(lease.roomBytes).toBeLessThanOrEqual(toMoveBytes);
        const target = loads.get(lease.group)!;
        expect(target.toMoveBytes).toBe(0);
        const free = CAPACITY - target.metadataBytes - target.smallFileBytes;
        expect(lease.roomBytes).toBeLessThanOrEqual(free);
        for (const { target: taken, untilMs } of leases.values()) {
          if (untilMs > time.ms) expect(taken).not.toBe(lease.group);
        }
        leases.set(source, { target: lease.group, untilMs: time.ms + INTERVAL_MS });
      }
    }
  });

  it('must be who they say they are', async () => {
    const { servers, report } = clusterOf(1);
    expect(() => report(1, { port: 9 })).toThrow(expect.objectContaining({ status: 13 }));
    expect(() => report(2)).toThrow(expect.objectContaining({ status: Status.notFound }));
    const load = report(1).servers[0]!;
    expect(() => servers.report(load, '10.0.0.9', 0)).toThrow(
      expect.objectContaining({ status: Status.accessDenied }),
    );
    const tracker = await trackerOf();
    const client = await tracker.connect();
    expect((await client.ask(metadataServerReport, load)).status).toBe(Status.notFound);
  });
});
