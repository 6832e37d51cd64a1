import { randomBytes } from 'node:crypto';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { byForm, byPage, byPathPrefix, open } from '@stevedore/client';
import type { UploadRules } from '@stevedore/middleware/http';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { type App, adapters } from '../../support/middleware/adapters.js';
import { until } from '../../support/staging.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

const directory = temporaryFolder(ofSuite);
const sizes = { smallFileLimit: '64KiB', trunkSize: '1MiB' } as const;
const store = await open({ directory, ...sizes, mergeMaxAge: '1h' });
afterAll(() => store.close());

/** A picture of one point, with more behind its end. */
const PNG = Buffer.concat([
  Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  ),
  randomBytes(3000),
]);

type FormFile = readonly [name: string, type: string, bytes: Buffer];

function form(...files: FormFile[]): FormData {
  const data = new FormData();
  for (const [name, type, bytes] of files) data.append('photo', new File([bytes], name, { type }));
  return data;
}

describe.each(adapters)('$name', ({ start, formsOnly = false }) => {
  async function app(policy: UploadRules = {}): Promise<App> {
    const running = await start(store, policy);
    onTestFinished(() => running.close());
    return running;
  }

  async function stored({ url, keysOf }: App, init: RequestInit): Promise<string[]> {
    const answer = await fetch(url, { method: 'POST', ...init });
    expect(answer.status).toBe(201);
    return keysOf(await answer.json());
  }

  const problemOf = async (answer: Response) => ({
    status: answer.status,
    code: ((await answer.json()) as { code: string }).code,
  });

  test('takes a form and gives its files back, with ranges and conditions', async () => {
    const running = await app();
    const files = form(
      ['ä "b".png', 'image/png', PNG],
      ['c.txt', 'text/plain', Buffer.from('hello')],
    );
    const [photo, text] = await stored(running, { body: files });
    const url = `${running.url}/${photo}`;
    const got = await fetch(url);
    expect(Buffer.from(await got.arrayBuffer()).equals(PNG)).toBe(true);
    expect(got.headers.get('content-type')).toBe('image/png');
    expect(got.headers.get('content-disposition')).toContain(
      "filename*=UTF-8''%C3%A4%20%22b%22.png",
    );
    expect(got.headers.get('x-content-type-options')).toBe('nosniff');
    expect((await store.stat(photo!)).name).toBe('ä "b".png');

    const ranged = await fetch(url, { headers: { range: 'bytes=2-5' } });
    expect([ranged.status, ranged.headers.get('content-range')]).toEqual([
      206,
      `bytes 2-5/${PNG.length}`,
    ]);
    expect(Buffer.from(await ranged.arrayBuffer()).equals(PNG.subarray(2, 6))).toBe(true);
    expect((await fetch(url, { headers: { range: 'bytes=99999-' } })).status).toBe(416);
    const etag = got.headers.get('etag')!;
    expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await fetch(url, { headers: { 'if-match': '"x"' } })).status).toBe(412);
    const head = await fetch(url, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(PNG.length)]);
    const kept = await fetch(`${running.url}/${text}/name.txt?download`);
    expect(kept.headers.get('content-disposition')).toMatch(/^attachment/);
    expect(await kept.text()).toBe('hello');

    expect((await fetch(`${running.url}/${text}`, { method: 'DELETE' })).status).toBe(204);
    expect(await problemOf(await fetch(`${running.url}/${text}`))).toEqual({
      status: 404,
      code: 'not_found',
    });
    expect(await problemOf(await fetch(`${running.url}/nonsense`))).toEqual({
      status: 400,
      code: 'invalid_key',
    });
  });

  test('takes large files through the disk and streams them', async () => {
    const running = await app();
    const bytes = randomBytes(3_000_000);
    const [key] = await stored(running, { body: form(['big.bin', 'application/x-big', bytes]) });
    const got = await fetch(`${running.url}/${key}`);
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true);
  });

  const rawBody = async () => {
    const running = await app();
    const headers = {
      'content-type': 'image/png',
      'x-filename': 'a.png',
      'idempotency-key': 'one',
    };
    const first = await stored(running, { body: PNG, headers });
    const second = await stored(running, { body: PNG, headers });
    expect(second).toEqual(first);
    expect(await store.stat(first[0]!)).toMatchObject({
      name: 'a.png',
      type: 'image/png',
      size: PNG.length,
    });
    const empty = await stored(running, { body: '', headers: { 'content-type': 'text/plain' } });
    expect((await store.stat(empty[0]!)).size).toBe(0);
  };
  if (!formsOnly) test('takes a raw body, and one that is sent again but once', rawBody);

  test('holds uploads to their policy', async () => {
    const running = await app({
      maxFileBytes: 5000,
      maxFiles: 2,
      types: ['image/*'],
      checkContent: true,
    });
    const post = (...files: FormFile[]) =>
      fetch(running.url, { method: 'POST', body: form(...files) });
    const before = living();
    const png = ['a.png', 'image/png', PNG] as const;
    const tooLarge = ['b.png', 'image/png', Buffer.concat([PNG, PNG])] as const;
    expect(await problemOf(await post(png, tooLarge))).toEqual({ status: 413, code: 'too_large' });
    const page = ['c.html', 'text/html', Buffer.from('<p>')] as const;
    expect(await problemOf(await post(png, page))).toEqual({
      status: 415,
      code: 'type_not_allowed',
    });
    const lie = ['d.png', 'image/png', Buffer.from('<script>alert(1)</script>')] as const;
    expect(await problemOf(await post(lie))).toEqual({ status: 415, code: 'type_mismatch' });
    expect(await problemOf(await post(png, png, png))).toEqual({
      status: 413,
      code: 'too_many_files',
    });
    // All or none, whatever was taken before the refusal.
    await until(() => living() === before);
    const keys = await stored(running, { body: form(png, png) });
    expect(living()).toBe(before + keys.length);
  });

  test('gives files the group, the end and the durability of the policy', async () => {
    const ttlMs = 3_600_000;
    const running = await app({ group: 'of the app', ttlMs, durability: 'os' });
    const headers = { 'x-affinity-group': 'of the client' };
    const startedAt = Date.now();
    const [key] = await stored(running, { body: form(['a.png', 'image/png', PNG]), headers });
    const info = await store.stat(key!);
    expect(info.group).toBe('of the app');
    expect(info.expiresAt!.getTime()).toBeGreaterThanOrEqual(startedAt + ttlMs);
    expect(info.expiresAt!.getTime()).toBeLessThanOrEqual(Date.now() + ttlMs);
  });

  test.each([
    ['page', byPage(), 'page shop.example/cart'],
    ['path', byPathPrefix(1), 'path /photos'],
    ['form', byForm(), expect.stringMatching(/^form .{8,}/)],
    [
      'function',
      ({ headers }: { headers: object }) => `${(headers as Record<string, string>)['x-user']}'s`,
      "anna's",
    ],
  ] as const)('groups the files of a request by %s', async (_, group, expected) => {
    const running = await app({ group });
    const headers = { referer: 'https://shop.example/cart?id=7', 'x-user': 'anna' };
    const body = () => form(['a.png', 'image/png', PNG], ['b.png', 'image/png', PNG]);
    const keys = await stored(running, { body: body(), headers });
    const groups = await Promise.all(keys.map(async (key) => (await store.stat(key)).group));
    expect(groups).toEqual([expected, expected]);
    expect(groups[0]).toBe(groups[1]);
  });

  test('keeps nothing when the client goes before the end', async () => {
    const running = await app();
    const { port } = new URL(running.url);
    const before = living();
    const spooled = readdirSync(SPOOL);
    const boundary = 'xyz';
    const part = (name: string) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="photo"; filename="${name}"\r\nContent-Type: image/png\r\n\r\n`;
    const head = `POST /photos HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\n\r\n`;
    // One small file is whole, the large one after it is on its way to the disk.
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(head);
    socket.write(`${part('a.png')}small\r\n${part('b.png')}`);
    socket.write(randomBytes(600_000));
    await until(() => openSpools(spooled) > 0);
    socket.destroy();
    await until(() => openSpools(spooled) === 0 && store.stats().uploadsInFlight === 0);
    await until(() => living() === before);
    expect(readdirSync(SPOOL).filter((name) => !spooled.includes(name))).toEqual([]);
  });
});

const SPOOL = join(directory, 'spool');

/** Files that were acknowledged and not deleted again. */
function living(): number {
  const { acknowledgedFiles, deletedFiles } = store.stats();
  return acknowledgedFiles - deletedFiles;
}

/** Files in the spool that this process has open, but for those of earlier tests. */
function openSpools(known: readonly string[]): number {
  const names = readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${name}`);
      return path.startsWith(SPOOL) ? [path.slice(SPOOL.length + 1)] : [];
    } catch {
      return [];
    }
  });
  return names.filter((name) => !known.includes(name)).length;
}
