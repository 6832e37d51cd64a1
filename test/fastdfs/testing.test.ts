import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  byteByByte,
  garbage,
  longReply,
  shortReply,
  splitAt,
  startTestCluster,
  wrongCommand,
} from '@stevedore/bench/cluster';
import { downloadFile, uploadFile } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { failure, until } from '../support/fastdfs.js';
import { HELLO } from '../support/good-server.js';
import { clusterSetup } from '../support/test-cluster.js';

const README = readFileSync(join(import.meta.dirname, '../../packages/fastdfs/README.md'), 'utf8');

describe('the example of the README', () => {
  it('runs', async () => {
    const section = README.split('## Testing')[1]!;
    const [, code] = /```js\n(.*?)```/s.exec(section)!;
    expect(
      code!
        .trim()
        .split('\n')
        .filter((line) => line !== '').length,
    ).toBe(7);
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', code!],
      { cwd: join(import.meta.dirname, '..'), timeout: 30_000 },
    );
    expect(stdout.trim()).toBe('hello');
  });
});

describe('the README', () => {
  it('lists every option', async () => {
    const options = readFileSync(
      join(import.meta.dirname, '../../packages/fastdfs/src/options.ts'),
      'utf8',
    );
    const [, body] = /export interface FastdfsOptions \{(.*?)\n\}/s.exec(options)!;
    const inCode = [...body!.matchAll(/^ {2}readonly (\w+)/gm)].map(([, name]) => name);
    const section = README.split('## Options')[1]!.split('\n## ')[0]!;
    const documented = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
    expect(documented).toEqual(inCode);
  });

  it('lists every method', () => {
    const source = readFileSync(
      join(import.meta.dirname, '../../packages/fastdfs/src/client.ts'),
      'utf8',
    );
    const inCode = [...source.matchAll(/^ {2}([a-z]\w+)\(/gm)].map(([, name]) => name!);
    const section = README.split('## Methods')[1]!.split('\n## ')[0]!;
    const missing = inCode.filter((name) => !section.includes(`\`${name}(`));
    expect(missing.filter((name) => name !== 'constructor')).toEqual([]);
  });
});

describe('a cluster of the tests', () => {
  it('spreads uploads over its storages', async () => {
    const { client, cluster } = await clusterSetup({}, { storages: 3 });
    for (let round = 0; round < 6; round++) await client.upload(HELLO);
    expect(cluster.storages.map((each) => each.count(uploadFile.code))).toEqual([2, 2, 2]);
    expect(await cluster.names()).toHaveLength(6);
  });

  it('misbehaves until it is told to behave', async () => {
    const { client, cluster } = await clusterSetup();
    const id = await client.upload(HELLO);
    const [storage] = cluster.storages;
    for (const how of [shortReply, longReply, wrongCommand, garbage]) {
      storage!.misbehave(downloadFile.code, how);
      expect(how.codes).toContain((await failure(client.downloadBytes(id))).code);
    }
    cluster.behave();
    expect(await client.downloadBytes(id)).toEqual(HELLO);
  });

  it('answers in pieces, which change nothing', async () => {
    const { client, cluster } = await clusterSetup();
    const id = await client.upload(HELLO);
    const accepted = cluster.storages[0]!.accepted;
    for (const answer of [byteByByte, ...Array.from({ length: 22 }, (_, at) => splitAt(at + 1))]) {
      cluster.storages[0]!.misbehave(downloadFile.code, answer);
      expect(await client.downloadBytes(id)).toEqual(HELLO);
    }
    expect(cluster.storages[0]!.accepted).toBe(accepted);
  });

  it('takes large bodies, and requests in pieces', async () => {
    const { client, cluster } = await clusterSetup();
    const whole = Buffer.alloc(40 * 1024 * 1024, 'large ');
    const id = await client.upload(whole);
    expect((await client.downloadBytes(id)).equals(whole)).toBe(true);
    expect(cluster.connections).toBe(2);
    await client.close();
    await until(() => cluster.connections === 0);
  });

  it('refuses what it cannot be', async () => {
    await expect(startTestCluster({ storages: 0 })).rejects.toThrow(RangeError);
    await expect(startTestCluster({ group: 'no group' })).rejects.toThrow(RangeError);
  });
});
