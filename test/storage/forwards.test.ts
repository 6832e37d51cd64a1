import type { ForwardReport } from '@stevedore/protocol';
import { Status } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { Cluster } from '../../packages/storage/dist/tracker/cluster.js';
import {
  Forwards,
  MAX_FORWARDS_PER_STORAGE,
} from '../../packages/storage/dist/tracker/forwards.js';
import { trackerSettings } from '../../packages/storage/dist/tracker/options.js';

/** What a tracker takes down of files that other groups' storages answer for. */

const NAME = `M00/00/00/${'a'.repeat(27)}123.txt`;
const ADDRESS = '127.0.0.1';
const NOW = 1_000_000;

function forwards() {
  const cluster = new Cluster(trackerSettings({}));
  for (const n of [1, 2, 3]) {
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
        trackerAddress: ADDRESS,
        storageId: '',
        trackers: [],
      },
      ADDRESS,
      {},
      NOW,
    );
    member.copyNothing();
    if (n < 3) member.heard(NOW);
  }
  const all = new Forwards(cluster);
  const link = {};
  const report = (changes: Partial<ForwardReport>, from: object = link, address = ADDRESS) =>
    all.report(
      { group: 'group1', id: ADDRESS, port: 23_001, begins: false, forwards: [], ...changes },
      address,
      from,
    );
  const find = (name = NAME) =>
    all.find('group1', cluster.member('group1', ADDRESS), name, NOW)?.port;
  return { all, cluster, link, report, find };
}

const to = (group: string, name = NAME) => ({ name, target: { group, id: ADDRESS } });

describe('forwards', () => {
  it('go with the connection that has told of them, and with what is told later', () => {
    const { all, link, report, find } = forwards();
    report({ begins: true, forwards: [to('group2')] });
    expect(find()).toBe(23_002);
    expect(find('another')).toBeUndefined();
    report({ forwards: [{ name: NAME, target: undefined }] });
    expect([find(), all.count]).toEqual([undefined, 0]);
    report({ forwards: [to('group2')] });
    // Another connection of the same storage begins anew; the end of the first one is nothing then.
    const next = {};
    report({ begins: true, forwards: [to('group2', 'another')] }, next);
    expect([find(), find('another')]).toEqual([undefined, 23_002]);
    all.leave(link);
    expect(find('another')).toBe(23_002);
    expect(() => report({ forwards: [to('group2')] })).toThrow(
      expect.objectContaining({ status: Status.busy }),
    );
    all.leave(next);
    expect([find('another'), all.count]).toEqual([undefined, 0]);
  });

  it('are those of the storage itself, to others that are there', () => {
    const { report, find } = forwards();
    const refused = (status: number) => expect.objectContaining({ status });
    expect(() => report({ begins: true }, {}, '127.0.0.9')).toThrow(refused(Status.accessDenied));
    expect(() => report({ begins: true, port: 1 })).toThrow(refused(Status.accessDenied));
    expect(() => report({ begins: true, group: 'group9' })).toThrow(refused(Status.notFound));
    for (const group of ['group1', 'group3', 'group9']) {
      report({ begins: true, forwards: [to(group)] });
      expect(find(), group).toBeUndefined();
    }
    report({ begins: true, forwards: [{ name: NAME, target: { group: 'group2', id: 'other' } }] });
    expect(find()).toBeUndefined();
  });

  it('are no more than a tracker can keep', () => {
    const { all, report, find } = forwards();
    report({ begins: true });
    for (let n = 0; n < MAX_FORWARDS_PER_STORAGE + 10; n += 1) {
      report({ forwards: [to('group2', `${NAME}${n}`)] });
    }
    expect(all.count).toBe(MAX_FORWARDS_PER_STORAGE);
    expect(find(`${NAME}0`)).toBe(23_002);
    expect(find(`${NAME}${MAX_FORWARDS_PER_STORAGE}`)).toBeUndefined();
    report({ begins: true });
    expect(all.count).toBe(0);
  });
});
