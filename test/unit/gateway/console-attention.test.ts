import type { StoreStats } from '@stevedore/client';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { expect, test } from 'vitest';
import { type AttentionFacts, attention } from '../../../gateway/dist/console/attention.js';
import { judgeAccess } from '../../../gateway/dist/doctor/access.js';
import { MemoryStore } from '../../support/gateway/memory-store.js';

const NOW = Date.parse('2026-01-02T03:04:05Z');
const MINUTE_MS = 60_000;
const quiet = new MemoryStore().stats();
const room = { ...quiet.room, limitBytes: 20 * 2 ** 30, freeBytes: 50 * 2 ** 30, minFreeBytes: 1 };
const member = {
  group: 'group1',
  address: '10.0.0.7:23000',
  version: '6.12',
  active: true,
  freeBytes: 2 ** 40,
  totalBytes: 2 ** 41,
  lastHeartbeatAt: new Date(NOW - 20_000),
};
const calm: AttentionFacts = {
  now: NOW,
  ready: { ready: true, accepting: true, trackerReachable: true, problems: [] },
  stats: { ...quiet, room },
  trackers: ['10.0.0.1:22122'],
  cluster: [member],
  migrations: [],
  waitingSince: undefined,
  mergeMaxAgeMs: MINUTE_MS,
  access: judgeAccess({ host: '127.0.0.1', apiKeys: '', urlSecret: [] }),
  trouble: undefined,
};

const found = (facts: Partial<AttentionFacts>) =>
  attention({ ...calm, ...facts }).map(({ verdict, what }) => `${verdict}: ${what}`);
const withStats = (stats: Partial<StoreStats>) => found({ stats: { ...calm.stats, ...stats } });
const withRoom = (changes: Partial<StoreStats['room']>, stats: Partial<StoreStats> = {}) =>
  withStats({ ...stats, room: { ...room, ...changes } });

test('nothing needs attention while all is well', () => {
  expect(attention(calm)).toEqual([]);
  const busy = { stagedFiles: 1000, stagedBytes: 2 ** 30, unconfirmedTrunks: 3 };
  expect(withStats(busy)).toEqual([]);
  expect(found({ waitingSince: NOW - MINUTE_MS })).toEqual([]);
  // Read copies fill the container and give way by themselves.
  expect(withRoom({ usedBytes: 19 * 2 ** 30 })).toEqual([]);
});

test('FastDFS that is away is said once, with what to do', () => {
  const ready = { ...calm.ready, ready: false, trackerReachable: false };
  const trouble = { at: NOW, message: 'refused' };
  const facts = { ready, trouble, waitingSince: 0, cluster: undefined };
  expect(attention({ ...calm, ...facts })).toEqual([
    {
      what: 'FastDFS is away',
      verdict: 'problem',
      detail:
        'no tracker answers (10.0.0.1:22122); uploads continue on this disk, which has 0 B staged',
      advice: 'start a tracker, or check the network to it',
    },
  ]);
});

test('a storage that takes no trunks is named with its answer', () => {
  const problems = ['trunks are not stored: upload: the server answered ENOSPC (no space left)'];
  expect(found({ ready: { ...calm.ready, problems } })).toEqual([
    'warning: FastDFS takes no trunks',
  ]);
});

test('a container that fills up or is full, and a full disk, are named', () => {
  const full = { usedBytes: 17 * 2 ** 30 };
  const staged = { stagedBytes: 16 * 2 ** 30, stagedFiles: 1 };
  expect(withRoom(full, staged)).toEqual(['warning: The container fills up']);
  expect(withRoom(full, { unconfirmedTrunks: 9 })).toEqual(['warning: The container fills up']);
  expect(withRoom({ freeBytes: 2 ** 29 })).toEqual(['warning: The disk is nearly full']);
  const ready = { ...calm.ready, ready: false, accepting: false, problems: ['the disk is full'] };
  expect(found({ ready })).toEqual(['problem: Uploads are refused']);
});

test('merging that is behind, damage and background errors are named', () => {
  expect(found({ waitingSince: NOW - 12 * MINUTE_MS })).toEqual(['warning: Merging is behind']);
  expect(found({ waitingSince: NOW - 12 * MINUTE_MS, mergeMaxAgeMs: 60 * MINUTE_MS })).toEqual([]);
  const damage = { ...quiet.damage, quarantined: 2 };
  expect(withStats({ damage, unpackableFiles: 1 })).toEqual([
    'problem: Damage was found',
    'problem: Staged files are damaged',
  ]);
  expect(withStats({ missingInFastdfs: 1 })).toEqual(['problem: FastDFS has lost files']);
  expect(found({ trouble: { at: NOW - 1000, message: 'x' } })).toEqual([
    'warning: A background error',
  ]);
  expect(found({ trouble: { at: NOW - 10 * MINUTE_MS, message: 'x' } })).toEqual([]);
});

test('storages, clocks and load are judged', () => {
  const away = { ...member, address: '10.0.0.8:23000', active: false };
  const small = { ...member, address: '10.0.0.9:23000', freeBytes: 2 ** 20 };
  expect(found({ cluster: [member, away, small] })).toEqual([
    'warning: storage 10.0.0.8:23000',
    'warning: storage 10.0.0.9:23000',
  ]);
  const early = { ...member, lastHeartbeatAt: new Date(NOW + 60_000) };
  expect(found({ cluster: [early] })).toEqual(['warning: clock of tracker 10.0.0.1:22122']);
  const load = (forecastBytes: number) => ({ loadBytes: 1, forecastBytes });
  const status = (forecast: number) =>
    ({
      capacityBytes: 100,
      load: { smallFile: load(forecast), metadata: load(20) },
    }) as unknown as MigrationStatus;
  expect(found({ migrations: [{ storage: 'a:1', status: status(70) }] })).toEqual([]);
  expect(found({ migrations: [{ storage: 'a:1', status: status(90) }] })).toEqual([
    'warning: storage a:1',
  ]);
});

test('workers, partner, map and open access are named, problems first', () => {
  const access = judgeAccess({ host: '0.0.0.0', apiKeys: '', urlSecret: [] });
  const copies = { partner: 'b', state: 'away', copiedToFastdfs: 1, refused: 0, lagBytes: 9 };
  const ready = { ...calm.ready, problems: ['worker 2 is not running'] };
  const stats = {
    ...calm.stats,
    copies: copies as StoreStats['copies'],
    map: { pending: 3, isMapAvailable: false, silent: [] },
    damage: { ...quiet.damage, quarantined: 1 },
  } as StoreStats;
  expect(found({ access, ready, stats })).toEqual([
    'problem: Damage was found',
    'warning: A worker is away',
    'warning: No partner keeps second copies',
    'warning: The map is away',
    'warning: access',
  ]);
});

test('a gateway that is silent is named, with who has its staged files and what to do', () => {
  const silent = [
    { origin: 4711, url: 'http://10.0.0.5:8080', stagedFiles: 12, holder: 815 },
    { origin: 4712, url: null, stagedFiles: 3, holder: undefined },
  ];
  const stats = { ...calm.stats, map: { pending: 0, isMapAvailable: true, silent } };
  const [first, second] = attention({ ...calm, stats });
  expect(first).toMatchObject({ verdict: 'warning', what: 'Gateway 4711 is silent' });
  expect(first?.detail).toContain('12 files staged there are read at origin 815');
  expect(first?.advice).toContain('stevedore adopt 4711');
  expect(second?.detail).toContain('3 files staged there have no other copy');
});
