import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterFinding } from '@stevedore/client/internal';
import { describe, expect, test } from 'vitest';
import { makeApiKey, writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import {
  checkAccessFiles,
  checkConfigFile,
  judgeAccess,
} from '../../../gateway/dist/doctor/access.js';
import { judgeCluster } from '../../../gateway/dist/doctor/cluster.js';
import { judgeDeployment } from '../../../gateway/dist/doctor/deployment.js';
import {
  checkRights,
  judgeLock,
  judgeRights,
  judgeRoom,
  judgeSync,
} from '../../../gateway/dist/doctor/disk.js';
import { attempt, type Finding } from '../../../gateway/dist/doctor/finding.js';
import { judgeHandles, judgeNode, judgePort } from '../../../gateway/dist/doctor/system.js';

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
    expect(judgeLock(undefined).verdict).toBe('ok');
    expect(judgeLock(new Error('read-only')).verdict).toBe('problem');
  });

  test('the machine: Node, handles, ports', () => {
    expect(judgeNode('v20.18.9').verdict).toBe('problem');
    expect(judgeNode('v20.19.0').verdict).toBe('ok');
    expect(judgeNode('v24.0.0').verdict).toBe('ok');
    expect(judgeNode('v27.0.0').verdict).toBe('warning');
    const handles = { softLimit: 65_536, hardLimit: 65_536, inUse: 100, maximum: 1000 };
    expect(verdicts(judgeHandles(handles, 10_000))).toEqual(['file handles: ok']);
    const few = judgeHandles({ ...handles, softLimit: 1024, hardLimit: 4096, inUse: 900 }, 10_000);
    expect(verdicts(few)).toEqual([
      'file handles: warning',
      'file handles of the machine: warning',
    ]);
    expect(few[0]!.advice).toContain('beyond 4096');
    expect(few[0]!.advice).not.toContain('ulimit');
    const [raisable] = judgeHandles({ ...handles, softLimit: 1024 }, 10_000);
    expect(raisable!.advice).toContain('ulimit -n 65536');
    expect(judgePort('port', 'a:1', undefined, false).verdict).toBe('ok');
    expect(judgePort('port', 'a:1', 'EADDRINUSE', true).verdict).toBe('ok');
    expect(judgePort('port', 'a:1', 'EADDRINUSE', false).verdict).toBe('problem');
    expect(judgePort('port', 'a:1', 'EACCES', true).advice).toContain('1024');
    expect(judgePort('port', 'a:1', 'EADDRNOTAVAIL', false).advice).toContain('set host');
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

  test('who may: open, with keys, with files that are not in order', async () => {
    const open = { host: '0.0.0.0', apiKeys: '', urlSecret: [] };
    expect(judgeAccess(open).verdict).toBe('warning');
    expect(judgeAccess({ ...open, host: '127.0.0.1' }).verdict).toBe('ok');
    expect(judgeAccess({ ...open, apiKeys: 'keys.json' }).detail).toContain('need an API key');
    const folder = temporaryFolder();
    const policies = join(folder, 'policies.json');
    const keys = join(folder, 'keys.json');
    writeFileSync(policies, '{ "default": { "types": ["image/*"] } }');
    await writeKeyFile(keys, []);
    const files = { apiKeys: keys, policies, clusterSecretFile: '' };
    expect(verdicts(await checkAccessFiles(files))).toEqual(['API keys: warning', 'policies: ok']);
    writeFileSync(policies, '{ "default": { "nonsense": 1 } }');
    writeFileSync(keys, '{');
    const findings = await checkAccessFiles(files);
    expect(verdicts(findings)).toEqual(['API keys: problem', 'policies: problem']);
    const missing = { apiKeys: join(folder, 'none.json'), policies: '', clusterSecretFile: '' };
    expect(verdicts(await checkAccessFiles(missing))).toEqual(['API keys: problem']);
    const none = { apiKeys: '', policies: '', clusterSecretFile: '' };
    expect(await checkAccessFiles(none)).toEqual([]);
    const secret = join(folder, 'secret');
    const withSecret = { ...none, clusterSecretFile: secret };
    writeFileSync(secret, 'short');
    expect(verdicts(await checkAccessFiles(withSecret))).toEqual(['cluster secret: problem']);
    writeFileSync(secret, 'long enough, one may hope');
    chmodSync(secret, 0o644);
    expect(verdicts(await checkAccessFiles(withSecret))).toEqual(['cluster secret: warning']);
    chmodSync(secret, 0o600);
    expect(verdicts(await checkAccessFiles(withSecret))).toEqual(['cluster secret: ok']);
  });

  test('who may: files of keys and secrets that others may read', async () => {
    const folder = temporaryFolder();
    const keys = join(folder, 'keys.json');
    const { key } = makeApiKey({ name: 'web', scopes: ['write'] }, new Date());
    await writeKeyFile(keys, [key]);
    const files = { apiKeys: keys, policies: '', clusterSecretFile: '' };
    expect(verdicts(await checkAccessFiles(files))).toEqual(['API keys: ok']);
    chmodSync(keys, 0o644);
    const [readable] = await checkAccessFiles(files);
    expect(readable).toMatchObject({ verdict: 'warning', advice: `chmod 600 ${keys}` });
    chmodSync(keys, 0o666);
    expect((await checkAccessFiles(files))[0]!.detail).toContain('may change');

    const config = join(folder, 'stevedore.config.json');
    writeFileSync(config, '{}');
    chmodSync(config, 0o644);
    expect(await checkConfigFile(config, { port: 1 })).toEqual([]);
    const secret = { urlSecret: 'long enough, one may hope' };
    expect(verdicts(await checkConfigFile(config, secret))).toEqual(['options file: warning']);
    chmodSync(config, 0o600);
    expect(verdicts(await checkConfigFile(config, secret))).toEqual(['options file: ok']);
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

  test('a check that fails: it says so and stops no other', async () => {
    const found = await attempt('x', async () => {
      throw new Error('broken');
    });
    expect(found).toMatchObject([
      { what: 'x', verdict: 'warning', detail: expect.stringMatching(/broken/) },
    ]);
  });
});
