import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterFinding } from '@stevedore/client/internal';
import { describe, expect, test } from 'vitest';
import { makeApiKey, writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { checkSecretFiles, judgeAccess } from '../../../gateway/dist/doctor/access.js';
import { judgeCluster } from '../../../gateway/dist/doctor/cluster.js';
import { judgeDeployment } from '../../../gateway/dist/doctor/deployment.js';
import {
  checkRights,
  judgeRights,
  judgeRoom,
  judgeSync,
} from '../../../gateway/dist/doctor/disk.js';
import type { Finding } from '../../../gateway/dist/doctor/finding.js';
import { temporaryFolder } from '../../support/temporary.js';

const verdicts = (findings: readonly Finding[]) =>
  findings.map(({ what, verdict }) => `${what}: ${verdict}`);

describe('what the doctor makes of', () => {
  test('a disk: slow, unbelievable, in memory, full, out of inodes', () => {
    expect(judgeSync([1, 2, 300], 'sync').verdict).toBe('ok');
    expect(judgeSync([19, 25, 25, 1], 'sync').verdict).toBe('warning');
    expect(judgeSync([0.001, 0.002, 0.004], 'sync').advice).toContain('real disk');
    expect(judgeSync([1], 'os').advice).toContain('power failure');
    const need = { containerSize: 10 * 2 ** 30 };
    const disk = {
      freeBytes: 100 * 2 ** 30,
      freeInodes: 1e6,
      inodes: 1e7,
      type: 0xef53,
      usedBytes: 0,
    };
    expect(verdicts(judgeRoom(disk, need))).toEqual(['room: ok']);
    expect(verdicts(judgeRoom({ ...disk, freeBytes: 2 ** 30 }, need))).toEqual(['room: warning']);
    const partlyUsed = { ...disk, freeBytes: 5 * 2 ** 30, usedBytes: 6 * 2 ** 30 };
    expect(verdicts(judgeRoom(partlyUsed, need))).toEqual(['room: ok']);
    expect(verdicts(judgeRoom({ ...disk, freeBytes: 2 ** 20 }, need))).toEqual(['room: problem']);
    expect(verdicts(judgeRoom({ ...disk, freeInodes: 5, type: 0x01021994 }, need))).toEqual([
      'room: ok',
      'inodes: warning',
      'disk: problem',
    ]);
  });

  test('a deployment: its map, and who reaches whom', () => {
    const options = { peerUrl: 'http://here:1', partner: '', stagedCopies: 2 } as const;
    const there = { url: 'http://there:1' };
    const judge = (reach: object[], own: object = {}) =>
      verdicts(
        judgeDeployment(
          { gateways: reach.length, reach: reach.map((each) => ({ ...there, ...each })) },
          { ...options, ...own },
          true,
        ),
      );
    const base = ['map: ok', 'peer URL: ok'];
    const of = (verdict: string) => `gateway ${there.url}: ${verdict}`;
    expect(judge([{}])).toEqual([...base, of('ok'), 'partner: ok']);
    expect(judge([{ to: 'refused' }])).toEqual([...base, of('problem'), 'partner: warning']);
    expect(judge([{ back: 'refused' }])).toEqual([...base, of('problem'), 'partner: ok']);
    const elsewhere = judge([{}], { partner: 'http://third:1', peerUrl: '' });
    expect(elsewhere).toEqual(['map: ok', 'peer URL: warning', of('ok'), 'partner: warning']);
    const dead = judgeDeployment({ error: 'away', gateways: 0, reach: [] }, options, false);
    expect(verdicts(dead)).toEqual(['map: problem']);
  });

  test('who may: open, with keys', () => {
    const open = { host: '0.0.0.0', apiKeys: '', urlSecret: [] };
    expect(judgeAccess(open).verdict).toBe('warning');
    expect(judgeAccess({ ...open, host: '127.0.0.1' }).verdict).toBe('ok');
    expect(judgeAccess({ ...open, apiKeys: 'keys.json' }).detail).toContain('need an API key');
  });

  test('files of keys and secrets that are away, or that others may read', async () => {
    const folder = temporaryFolder();
    const apiKeys = join(folder, 'keys.json');
    const clusterSecretFile = join(folder, 'secret');
    const config = join(folder, 'stevedore.config.json');
    const secret = { urlSecret: 'long enough, one may hope' };
    const check = (own: Record<string, unknown> = secret) =>
      checkSecretFiles({ apiKeys, clusterSecretFile }, config, own);
    for (const path of [clusterSecretFile, config]) writeFileSync(path, '{}', { mode: 0o600 });
    expect(verdicts(await check())).toEqual([
      'API keys: problem',
      'cluster secret: ok',
      'options file: ok',
    ]);
    const { key } = makeApiKey({ name: 'web', scopes: ['write'] }, new Date());
    await writeKeyFile(apiKeys, [key]);
    for (const path of [clusterSecretFile, config]) chmodSync(path, 0o644);
    expect(verdicts(await check())).toEqual([
      'API keys: ok',
      'cluster secret: warning',
      'options file: warning',
    ]);
    expect(verdicts(await check({ port: 1 }))).toHaveLength(2);
    chmodSync(apiKeys, 0o666);
    expect((await check())[0]).toMatchObject({
      detail: `other users may change ${apiKeys}`,
      advice: `chmod 600 ${apiKeys}`,
    });
    expect(await checkSecretFiles({ apiKeys: '', clusterSecretFile: '' }, config, {})).toEqual([]);
  });

  test('a directory: on a full disk, a file, one that may not be written', async () => {
    const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
    expect(judgeRights('/x', full).advice).toContain('make room');
    const denied = Object.assign(new Error('denied'), { code: 'EACCES' });
    expect(judgeRights('/x', denied).advice).toContain('the right to write');
    const file = join(temporaryFolder(), 'file');
    writeFileSync(file, '');
    expect(await checkRights(file)).toMatchObject({
      verdict: 'problem',
      advice: 'name another directory',
    });
  });

  test('a cluster: trackers away, storages not active, clocks', () => {
    const now = Date.parse('2026-01-02T03:04:05Z');
    const storage = {
      group: 'group1',
      address: '10.0.0.7:23000',
      version: '6.12',
      active: true,
      freeBytes: 2 ** 40,
      totalBytes: 2 ** 41,
      lastHeartbeatAt: new Date(now - 20_000),
    };
    const tracker = {
      address: '10.0.0.1:22122',
      error: undefined,
      roundTripMs: 1,
      storages: [storage],
    };
    const probe = {
      error: undefined,
      durationMs: 20,
      storageTime: new Date(now - 900),
      from: new Date(now),
      until: new Date(now + 5),
    };
    const judge = (finding: ClusterFinding) => verdicts(judgeCluster(finding, now));
    expect(judge({ trackers: [tracker], probe })).toEqual([
      'tracker 10.0.0.1:22122: ok',
      'storage 10.0.0.7:23000: ok',
      'storing: ok',
      'clock of the storage: ok',
    ]);
    const away = { ...tracker, address: '10.0.0.2:22122', error: 'connect ECONNREFUSED' };
    expect(judge({ trackers: [tracker, away], probe })).toContain(
      'tracker 10.0.0.2:22122: warning',
    );
    expect(judge({ trackers: [away] })).toEqual(['tracker 10.0.0.2:22122: problem']);
    const down = { ...tracker, storages: [{ ...storage, active: false }] };
    expect(
      judge({ trackers: [down], probe: { ...probe, error: 'no storage', storageTime: undefined } }),
    ).toEqual([
      'tracker 10.0.0.1:22122: problem',
      'storage 10.0.0.7:23000: warning',
      'storing: problem',
    ]);
    const full = { ...tracker, storages: [{ ...storage, freeBytes: 1000 }] };
    expect(judge({ trackers: [full], probe })).toContain('storage 10.0.0.7:23000: warning');
    for (const [seconds, word] of [
      [-3600, 'behind'],
      [3600, 'ahead of'],
    ] as const) {
      const off = new Date(now + seconds * 1000);
      const findings = judgeCluster(
        {
          trackers: [{ ...tracker, storages: [{ ...storage, lastHeartbeatAt: off }] }],
          probe: { ...probe, storageTime: off },
        },
        now,
      );
      const clocks = findings.filter(({ what }) => what.startsWith('clock'));
      expect(verdicts(clocks)).toEqual([
        'clock of tracker 10.0.0.1:22122: warning',
        'clock of the storage: warning',
      ]);
      for (const { detail } of clocks) expect(detail).toMatch(new RegExp(`3[56]\\d\\d s ${word}`));
    }
  });
});
