import { mkdir, rename, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '@stevedore/staging';
import { describe, expect, onTestFinished, test } from 'vitest';
import { folder, run } from '../../support/cli/run.js';
import { guarded, newKey } from '../../support/gateway/guarded.js';
import { running } from '../../support/gateway/harness.js';
import { serving } from '../../support/serving.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A second `put` of the same files, and one that nothing is left to do for. */

interface Printed {
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly crc32: string;
  readonly skipped?: boolean;
}

async function put(cwd: string, url: string, ...flags: string[]) {
  const result = await run(['put', 'd', '--json', ...flags], { cwd, env: { STEVEDORE_URL: url } });
  const receipts = result.stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Printed)
    .sort((a, b) => a.name.localeCompare(b.name));
  return { ...result, receipts };
}

const skippedOf = (receipts: readonly Printed[]) =>
  receipts.filter(({ skipped }) => skipped).map(({ name }) => name);

describe('a second put', () => {
  test('skips what is there already and prints the same receipts', async () => {
    const { store, url } = await running();
    const cwd = await folder(3);
    const first = await put(cwd, url);
    const second = await put(cwd, `${url}/`);
    expect(second).toMatchObject({ code: 0, stderr: '3 files there already\n' });
    expect(second.receipts).toMatchObject(
      first.receipts.map((receipt) => ({ ...receipt, skipped: true })),
    );
    expect(store.files.size).toBe(3);
    const text = await run(['put', 'd'], { cwd, env: { STEVEDORE_URL: url } });
    expect(text.stdout.trim().split('\n').sort()).toEqual(
      first.receipts.map(({ key, size, name }) => `${key}  ${size}  ${name}`).sort(),
    );
  });

  test('sends what has changed, what is gone and what is to be stored differently', async () => {
    const { store, url } = await running();
    const cwd = await folder(5);
    const first = await put(cwd, url);
    const [, longer, touched, replaced, gone] = first.receipts;
    const path = (name: string | undefined) => join(cwd, name!);
    await writeFile(path(longer?.name), 'longer than before');
    await utimes(path(touched?.name), 1, 1);
    const { atime, mtime } = await stat(path(replaced?.name));
    await writeFile(path('d/other'), 'FILE 3');
    await utimes(path('d/other'), atime, mtime);
    await rename(path('d/other'), path(replaced?.name));
    await store.delete(gone!.key);
    const second = await put(cwd, url);
    expect(skippedOf(second.receipts)).toEqual(['d/0']);
    expect(second.stderr).toBe('stored 4 files, 36 B; 1 file there already\n');
    expect(skippedOf((await put(cwd, url, '--group', 'g')).receipts)).toEqual([]);
    expect((await put(cwd, url, '--group', 'g')).stderr).toBe('5 files there already\n');
  });

  test('asks another gateway for nothing', async () => {
    const [one, two] = [await running(), await running()];
    const cwd = await folder(2);
    await put(cwd, one.url);
    expect((await put(cwd, two.url)).stderr).toBe('stored 2 files, 12 B\n');
    expect((await put(cwd, one.url)).stderr).toBe('2 files there already\n');
  });

  test('needs no more than its API key does, and nothing on this disk', async () => {
    const { key, text } = newKey({ scopes: ['write'] });
    const { store, url } = await guarded([key]);
    const cwd = await folder(2);
    const env = { STEVEDORE_URL: url, STEVEDORE_API_KEY: text, HOME: '/', XDG_STATE_HOME: '/' };
    await run(['put', 'd'], { cwd, env });
    const { code, stderr } = await run(['put', 'd'], { cwd, env });
    expect([code, stderr, store.files.size]).toEqual([0, '2 files there already\n', 2]);
  });

  test('sends a file of which the gateway has other bytes under the same mark', async () => {
    const { store, url } = await running();
    const cwd = await folder(1);
    const path = join(cwd, 'd', '0');
    await utimes(path, 1, 1);
    await put(cwd, url);
    await writeFile(path, 'FILE 0');
    await utimes(path, 1, 1);
    const { code, receipts } = await put(cwd, url);
    expect([code, skippedOf(receipts)]).toEqual([0, []]);
    expect([...store.files.values()].map(({ bytes }) => String(bytes))).toEqual([
      'file 0',
      'FILE 0',
    ]);
  });
});

describe('a put that cannot go on', () => {
  test('is one line and a count where no gateway answers', async () => {
    const cwd = await folder(300);
    const { code, stdout, stderr } = await put(cwd, 'http://127.0.0.1:1');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^d\/\d+: nothing answers at 127\.0\.0\.1:1; is the gateway running\?\n300 files not sent: the same command goes on from here\n$/,
    );
  });

  test('is one line where the gateway takes no more, and the next goes on from there', async () => {
    const { store, url } = await running();
    const cwd = await folder(20);
    await put(cwd, url);
    await writeFile(join(cwd, 'd', 'more'), 'more');
    store.failure = new StoreError('container_full', 'inside');
    const full = await put(cwd, url, '--group', 'g');
    expect(full.stderr).toMatch(/^\S+: The container is full\. .*\n21 files not sent.*\n$/);
    store.failure = undefined;
    expect((await put(cwd, url)).stderr).toBe('stored 1 file, 4 B; 20 files there already\n');
  });

  test('is one line where the API key is wrong, or what answers is no gateway', async () => {
    const { url } = await guarded([newKey().key]);
    const cwd = await folder(20);
    const unknown = await put(cwd, url);
    expect(unknown.stderr.split('\n')).toHaveLength(3);
    const other = await serving((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>');
    });
    const { code, stderr } = await put(cwd, other);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^d\/\d+: what answers at \S+ is not a gateway of Stevedore\n20 files not sent/,
    );
  });

  test('waits where it may come again in a moment', async () => {
    const { key, text } = newKey({ requestsPerSecond: 5 });
    const { store, url, clock } = await guarded([key]);
    const cwd = await folder(8);
    const timer = setInterval(() => {
      clock.now += 1000;
    }, 200);
    onTestFinished(() => clearInterval(timer));
    const env = { STEVEDORE_URL: url, STEVEDORE_API_KEY: text };
    const { code, stderr } = await run(['put', 'd'], { cwd, env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'stored 8 files, 48 B\n' });
    expect(store.files.size).toBe(8);
  });
});

test('crc32 is the same 8 digits in the receipt, in what is known and of a skipped file', async () => {
  const { url } = await running();
  const cwd = temporaryFolder();
  await mkdir(join(cwd, 'd'));
  // Its CRC-32 begins with three zeros.
  await writeFile(join(cwd, 'd', 'a'), 'file 328');
  const stored = await put(cwd, url);
  const skipped = await put(cwd, url);
  const args = ['stat', stored.receipts[0]!.key, '--json', '--url', url];
  const known = JSON.parse((await run(args)).stdout) as Printed;
  const shown = [stored.receipts[0]!, skipped.receipts[0]!, known];
  expect(shown.map(({ crc32 }) => crc32)).toEqual(Array(3).fill('00015067'));
});

test('rm of many keys ends at the first where no gateway answers', async () => {
  const keys = ['A'.repeat(22), 'B'.repeat(22)];
  const { code, stderr } = await run(['rm', ...keys, '--url', 'http://127.0.0.1:1']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^A{22}: nothing answers at 127\.0\.0\.1:1; is the gateway running\?\n$/);
});
