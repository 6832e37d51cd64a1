import { rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  presignedUpload,
  signedDownload,
  signQuery,
  verifyQuery,
} from '@stevedore/middleware/core';
import { makeToken } from '@stevedore/protocol';
import { describe, expect, test } from 'vitest';
import { Access } from '../../gateway/dist/access/access.js';
import {
  type ApiKey,
  formatKeyFile,
  makeApiKey,
  parseKeyFile,
} from '../../gateway/dist/access/api-key.js';
import { readKeyFile, writeKeyFile } from '../../gateway/dist/access/key-file.js';
import { KeyRing } from '../../gateway/dist/access/key-ring.js';
import { temporaryFolder } from '../support/temporary.js';
import { type Running, running } from './harness.js';

const SECRET = 'a secret of the tests';
const OLD_SECRET = 'the secret before it';
const NOW = Date.parse('2026-03-04T05:06:07Z');

interface Guarded extends Running {
  readonly path: string;
  readonly ring: KeyRing;
  readonly errors: unknown[];
  readonly clock: { now: number };
}

function newKey(about: Partial<ApiKey> = {}): { key: ApiKey; text: string } {
  const scopes = about.scopes ?? (['read', 'write', 'delete'] as const);
  return makeApiKey({ name: 'test', ...about, scopes }, new Date(NOW));
}

async function guarded(keys: readonly ApiKey[], urlSecrets: string[] = []): Promise<Guarded> {
  const path = join(temporaryFolder(), 'keys.json');
  await writeKeyFile(path, keys);
  const clock = { now: NOW };
  const now = () => clock.now;
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const ring = await KeyRing.open({ path, now, onError, lookIntervalMs: 3_600_000 });
  const gateway = await running({ access: new Access({ keys: ring, urlSecrets, now }) });
  return { ...gateway, path, ring, errors, clock };
}

async function call(
  { url }: Running,
  method: string,
  path: string,
  key?: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; code: unknown; headers: Headers; key: string }> {
  const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(url + path, {
    method,
    headers: { ...authorization, ...headers },
    ...(method === 'POST' ? { body: 'x' } : {}),
  });
  const text = await response.text();
  const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
  return {
    status: response.status,
    code: json.code,
    headers: response.headers,
    key: String(json.key),
  };
}

describe('an API key', () => {
  test('is what uploads and deletes need; reads need the key of the file alone', async () => {
    const { key, text } = newKey();
    const gateway = await guarded([key]);
    const refused = await call(gateway, 'POST', '/files');
    expect([refused.status, refused.code]).toEqual([401, 'unauthorized']);
    expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer/);
    const stored = await call(gateway, 'POST', '/files', text);
    expect(stored.status).toBe(201);
    const own = await call(gateway, 'POST', '/files', undefined, { 'x-api-key': text });
    expect(own.status).toBe(201);
    const path = `/files/${stored.key}`;
    expect((await call(gateway, 'GET', path)).status).toBe(200);
    expect((await call(gateway, 'GET', `${path}/info`)).status).toBe(401);
    expect((await call(gateway, 'GET', `${path}/info`, text)).status).toBe(200);
    expect((await call(gateway, 'DELETE', path)).status).toBe(401);
    expect((await call(gateway, 'DELETE', path, text)).status).toBe(204);
    expect(gateway.store.files.size).toBe(1);
  });

  test('that is not quite right is none', async () => {
    const { key, text } = newKey();
    const gateway = await guarded([key]);
    const other = newKey().text;
    const wrong = [
      '',
      'x',
      `${text}x`,
      text.slice(0, -1),
      `${text.slice(0, -1)}${text.endsWith('A') ? 'B' : 'A'}`,
      other,
      `stv_${key.id}_${other.slice(-43)}`,
      key.hash,
      `stv_${key.id}_${key.hash}`,
    ];
    for (const presented of wrong) {
      expect((await call(gateway, 'POST', '/files', presented)).status, presented).toBe(401);
    }
    expect(gateway.store.files.size).toBe(0);
  });

  test('does what its scopes say, until it ends', async () => {
    const reader = newKey({ scopes: ['read'] });
    const writer = newKey({
      scopes: ['write'],
      expiresAt: new Date(NOW + 1000).toISOString(),
    });
    const gateway = await guarded([reader.key, writer.key]);
    expect((await call(gateway, 'POST', '/files', reader.text)).code).toBe('forbidden');
    const { key } = await call(gateway, 'POST', '/files', writer.text);
    expect((await call(gateway, 'DELETE', `/files/${key}`, writer.text)).status).toBe(403);
    gateway.clock.now += 1000;
    expect((await call(gateway, 'POST', '/files', writer.text)).status).toBe(401);
  });

  test('comes and goes without a restart; a damaged file changes nothing', async () => {
    const first = newKey();
    const second = newKey();
    const gateway = await guarded([first.key]);
    const statuses = async () => [
      (await call(gateway, 'POST', '/files', first.text)).status,
      (await call(gateway, 'POST', '/files', second.text)).status,
    ];
    expect(await statuses()).toEqual([201, 401]);
    await writeKeyFile(gateway.path, [first.key, second.key]);
    await gateway.ring.look();
    expect(await statuses()).toEqual([201, 201]);
    await writeKeyFile(gateway.path, [second.key]);
    await gateway.ring.look();
    expect(await statuses()).toEqual([401, 201]);
    for (const damage of ['{', '{"keys": [{}]}', '[]']) {
      writeFileSync(gateway.path, damage);
      await gateway.ring.look();
    }
    rmSync(gateway.path);
    await gateway.ring.look();
    expect(await statuses()).toEqual([401, 201]);
    expect(gateway.errors.length).toBe(1);
  });

  test('is kept as a hash, in a file for its owner alone', async () => {
    const { key, text } = newKey();
    const path = join(temporaryFolder(), 'keys.json');
    await writeKeyFile(path, [key]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(formatKeyFile([key])).not.toContain(text.slice(-43));
    expect(await readKeyFile(path)).toEqual([key]);
    expect(() => parseKeyFile(formatKeyFile([key, key]), 'f')).toThrow(/twice/);
    await expect(
      KeyRing.open({ path: `${path}.none`, now: Date.now, onError: () => {} }),
    ).rejects.toMatchObject({ code: 'invalid_option' });
  });

  test('may have a rate, with a burst of one second', async () => {
    const { key, text } = newKey({ requestsPerSecond: 2 });
    const gateway = await guarded([key]);
    const statuses = async (count: number) => {
      const found: number[] = [];
      for (let index = 0; index < count; index += 1) {
        found.push((await call(gateway, 'POST', '/files', text)).status);
      }
      return found;
    };
    expect(await statuses(3)).toEqual([201, 201, 429]);
    gateway.clock.now += 500;
    expect(await statuses(2)).toEqual([201, 429]);
    const refused = await call(gateway, 'POST', '/files', text);
    expect([refused.code, refused.headers.get('retry-after')]).toEqual(['rate_limited', '1']);
    gateway.clock.now += 3_600_000;
    expect(await statuses(3)).toEqual([201, 201, 429]);
  });

  test('may have bytes for a day', async () => {
    const { key, text } = newKey({ bytesPerDay: 3 });
    const gateway = await guarded([key]);
    const upload = async (body: string) => {
      const headers = { authorization: `Bearer ${text}` };
      return fetch(`${gateway.url}/files`, { method: 'POST', headers, body });
    };
    expect((await upload('xx')).status).toBe(201);
    // Longer than what is left, and nothing of it is counted.
    expect((await upload('xx')).status).toBe(413);
    expect((await upload('x')).status).toBe(201);
    const over = await upload('x');
    expect(over.status).toBe(429);
    expect(await over.json()).toMatchObject({ code: 'quota_exceeded' });
    const untilMidnight = 86_400 - (5 * 3600 + 6 * 60 + 7);
    expect(over.headers.get('retry-after')).toBe(String(untilMidnight));
    gateway.clock.now += untilMidnight * 1000;
    expect((await upload('xxx')).status).toBe(201);
  });

  test('keeps its idempotency keys from those of others', async () => {
    const [one, other] = [newKey(), newKey()];
    const gateway = await guarded([one.key, other.key]);
    const headers = { 'idempotency-key': 'same' };
    const first = await call(gateway, 'POST', '/files', one.text, headers);
    const second = await call(gateway, 'POST', '/files', other.text, headers);
    expect(second.key).not.toBe(first.key);
    expect((await call(gateway, 'POST', '/files', one.text, headers)).key).toBe(first.key);
  });
});

describe('a signed URL', () => {
  const hour = new Date(NOW + 3_600_000);

  test('is what reads need then, or an API key', async () => {
    const { key, text } = newKey();
    const gateway = await guarded([key], [SECRET]);
    const { key: file } = await call(gateway, 'POST', '/files', text);
    expect((await call(gateway, 'GET', `/files/${file}`)).code).toBe('unauthorized');
    const byKey = await call(gateway, 'GET', `/files/${file}`, text);
    expect(byKey.headers.get('cache-control')).toMatch(/^private, /);
    const url = signedDownload(SECRET, file, hour);
    const signed = await call(gateway, 'GET', url);
    expect(signed.status).toBe(200);
    expect(signed.headers.get('cache-control')).toBe('private, max-age=3600, immutable');
    expect((await call(gateway, 'HEAD', url)).status).toBe(200);
    expect((await call(gateway, 'GET', url.replace('?', '/photo.jpg?'))).status).toBe(200);
    expect((await call(gateway, 'GET', url.replace('?', '/info?'))).status).toBe(401);
    expect((await call(gateway, 'DELETE', url)).status).toBe(401);
  });

  test('is good for what it says and for nothing else', async () => {
    const { key, text } = newKey();
    const gateway = await guarded([key], [SECRET]);
    const { key: file } = await call(gateway, 'POST', '/files', text);
    const { key: other } = await call(gateway, 'POST', '/files', text);
    const url = signedDownload(SECRET, file, hour, { download: '1' });
    expect((await call(gateway, 'GET', url)).headers.get('content-disposition')).toMatch(
      /^attachment/,
    );
    const expires = /expires=(\d+)/.exec(url)![1]!;
    const tampered = [
      url.replace(file, other),
      url.replace(expires, String(Number(expires) + 1)),
      url.replace('download=1&', ''),
      url.replace('download=1', 'download=2'),
      `${url}&filename=x`,
      `${url}&download=1`,
      `${url}&signature=x`,
      url.replace(/signature=.*/, 'signature='),
      url.replace(/signature=./, 'signature=*'),
      url.replace(/expires=\d+&/, ''),
      signedDownload('another secret, as long', file, hour),
      `/files/${file}?${signQuery({ secret: SECRET, method: 'POST', subject: file, expiresAt: hour })}`,
    ];
    for (const path of tampered) {
      const refused = await call(gateway, 'GET', path);
      expect([refused.status, refused.code], path).toEqual([403, 'signature_invalid']);
    }
  });

  test('ends, a minute late at the latest', async () => {
    const gateway = await guarded([], [SECRET]);
    const { key } = await gateway.store.put('x');
    const url = signedDownload(SECRET, key, new Date(NOW + 10_000));
    gateway.clock.now += 70_000;
    const late = await call(gateway, 'GET', url);
    expect([late.status, late.headers.get('cache-control')]).toEqual([
      200,
      'private, max-age=0, immutable',
    ]);
    gateway.clock.now += 1;
    expect((await call(gateway, 'GET', url)).code).toBe('signature_expired');
  });

  test('outlives the change of the secret for as long as the old one is known', async () => {
    const gateway = await guarded([], [SECRET, OLD_SECRET]);
    const { key } = await gateway.store.put('x');
    expect((await call(gateway, 'GET', signedDownload(OLD_SECRET, key, hour))).status).toBe(200);
    expect((await call(gateway, 'GET', signedDownload(SECRET, key, hour))).status).toBe(200);
  });

  test('has this very form, so that other languages can make one', () => {
    const expiresAt = new Date(1_800_000_000_000);
    const subject = 'AZzzzzzzzzzzzzzzzzzzzA';
    const parameters = { 'b c': 'ü&', a: '1' };
    const query = signQuery({ secret: SECRET, method: 'GET', subject, expiresAt, parameters });
    expect(query).toMatch(/^a=1&b%20c=%C3%BC%26&expires=1800000000&signature=[A-Za-z0-9_-]{43}$/);
    const values = Object.fromEntries(new URLSearchParams(query));
    expect(verifyQuery([SECRET], 'GET', subject, values, NOW)).toEqual({ expiresAt, parameters });
    expect(() =>
      signQuery({ secret: 'short', method: 'GET', subject, expiresAt, parameters }),
    ).toThrow(RangeError);
  });
});

describe('a presigned upload', () => {
  const soon = new Date(NOW + 60_000);
  const upload = async (gateway: Running, path: string, body: string, type = 'text/plain') => {
    const headers = { 'content-type': type };
    const response = await fetch(gateway.url + path, { method: 'POST', body, headers });
    const json = (await response.json()) as Record<string, unknown>;
    return { status: response.status, ...json } as { status: number; key: string; code: string };
  };

  test('stands for an API key, under its conditions', async () => {
    const gateway = await guarded([], [SECRET]);
    const url = () =>
      presignedUpload(SECRET, soon, {
        maxBytes: 5,
        type: 'image/*',
        group: 'g',
        ttlSeconds: 60,
      });
    expect((await upload(gateway, '/files', 'x')).status).toBe(401);
    expect((await upload(gateway, url(), '123456', 'image/png')).code).toBe('too_large');
    expect((await upload(gateway, url(), '1', 'text/html')).code).toBe('type_not_allowed');
    const { key, status } = await upload(gateway, url(), '12345', 'image/png');
    expect(status).toBe(201);
    const { info } = gateway.store.files.get(key)!;
    expect(info.group).toBe('g');
    expect(info.expiresAt?.getTime()).toBeGreaterThan(Date.now());
    expect((await upload(gateway, url().replace('max-bytes=5', 'max-bytes=6'), '1')).code).toBe(
      'signature_invalid',
    );
    gateway.clock.now += 200_000;
    expect((await upload(gateway, url(), '1', 'image/png')).code).toBe('signature_expired');
  });

  test('is one file, however often it is sent', async () => {
    const gateway = await guarded([], [SECRET]);
    const url = presignedUpload(SECRET, soon);
    const first = await upload(gateway, url, 'x');
    expect((await upload(gateway, url, 'x')).key).toBe(first.key);
    expect((await upload(gateway, url, 'another')).status).toBe(422);
    expect(gateway.store.files.size).toBe(1);
    const reusable = presignedUpload(SECRET, soon, { reusable: true });
    for (const body of ['a', 'b']) {
      expect((await upload(gateway, reusable, body)).status).toBe(201);
    }
    expect(gateway.store.files.size).toBe(3);
  });

  test('is for the path that it names', async () => {
    const access = new Access({ urlSecrets: [SECRET], now: () => NOW });
    const policies = { small: { maxFileBytes: 2 } };
    const gateway = await running({ access, policies });
    const url = presignedUpload(SECRET, soon, { policy: 'small', maxBytes: 100 });
    expect(url).toMatch(/^\/uploads\/small\?/);
    expect((await upload(gateway, url, '123')).code).toBe('too_large');
    expect((await upload(gateway, url, '12')).status).toBe(201);
    expect((await upload(gateway, url.replace('/uploads/small', '/files'), '1')).code).toBe(
      'signature_invalid',
    );
  });
});

describe('the anti-leech token of FastDFS paths', () => {
  const name = 'M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I123.jpg';
  const seconds = NOW / 1000;

  async function leeched(): Promise<Running & { clock: { now: number } }> {
    const clock = { now: NOW };
    const access = new Access({
      antiLeech: { secret: 'FastDFS1234567890', ttlMs: 600_000 },
      now: () => clock.now,
    });
    const gateway = await running({ access });
    const { key } = await gateway.store.put('slice', { name: 'n.jpg' });
    gateway.store.settle(key, `group1/${name}`);
    return { ...gateway, clock };
  }

  test('is checked as the nginx module does', async () => {
    const gateway = await leeched();
    const token = (ts: number) => makeToken(name, 'FastDFS1234567890', ts);
    const status = async (query: string) =>
      (await call(gateway, 'GET', `/group1/${name}${query}`)).status;
    const good = `?token=${token(seconds)}&ts=${seconds}`;
    expect(await status(good)).toBe(200);
    expect(await status(`?token=${token(0)}&ts=0`)).toBe(200);
    expect(await status(`?token=${token(seconds + 999)}&ts=${seconds + 999}`)).toBe(200);
    const wrong = [
      '',
      `?token=${token(seconds)}`,
      `?ts=${seconds}`,
      `?token=&ts=`,
      `?token=${token(seconds)}&ts=${seconds + 1}`,
      `?token=${token(seconds).slice(1)}&ts=${seconds}`,
      `?token=${token(seconds)}&token=${token(seconds)}&ts=${seconds}`,
      `?token=${token(seconds)}&ts=-1`,
    ];
    for (const query of wrong) expect(await status(query), query).toBe(400);
    gateway.clock.now += 600_001 + 1000;
    expect(await status(good)).toBe(400);
    expect(await status(`?token=${token(0)}&ts=0`)).toBe(200);
  });

  test('leaves `filename` to the client, for an attachment of that name', async () => {
    const gateway = await running();
    const { key } = await gateway.store.put('slice', { name: 'n.jpg' });
    gateway.store.settle(key, `group1/${name}`);
    const named = await call(gateway, 'GET', `/group1/${name}?filename=h%C3%A9.jpg`);
    expect(named.headers.get('content-disposition')).toBe(
      `attachment; filename="h_.jpg"; filename*=UTF-8''h%C3%A9.jpg`,
    );
    const split = await call(gateway, 'GET', `/group1/${name}?filename=a%0d%0aX-Evil:%201`);
    expect(split.headers.has('x-evil')).toBe(false);
  });
});

describe('CORS', () => {
  const origin = 'https://app.example';
  test('is for the origins that are named', async () => {
    const gateway = await running({ corsOrigins: [origin] });
    const ask = (from: string, method = 'OPTIONS') =>
      fetch(`${gateway.url}/files`, {
        method,
        headers: {
          origin: from,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'x-filename',
        },
        ...(method === 'POST' ? { body: 'x' } : {}),
      });
    const preflight = await ask(origin);
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe(origin);
    expect(preflight.headers.get('access-control-allow-headers')).toBe('x-filename');
    expect(preflight.headers.has('access-control-allow-credentials')).toBe(false);
    const posted = await ask(origin, 'POST');
    expect(posted.status).toBe(201);
    expect(posted.headers.get('access-control-allow-origin')).toBe(origin);
    expect(posted.headers.get('vary')).toBe('Origin');
    for (const from of ['https://evil.example', 'null', `${origin}.evil.example`]) {
      const refused = await ask(from);
      expect(refused.status).toBe(405);
      expect(refused.headers.has('access-control-allow-origin')).toBe(false);
      expect(refused.headers.get('vary')).toBe('Origin');
    }
  });

  test('is off by default', async () => {
    const gateway = await running();
    const response = await fetch(`${gateway.url}/health/live`, { headers: { origin } });
    expect(response.headers.has('access-control-allow-origin')).toBe(false);
  });
});

describe('types that a browser might run', () => {
  test('are shown in place where that is allowed, in a sandbox', async () => {
    const gateway = await running({ inlineTypes: ['image/svg+xml'] });
    for (const [type, kind] of [
      ['image/svg+xml; charset=utf-8', 'inline'],
      ['text/html', 'attachment'],
    ] as const) {
      const { key } = await gateway.store.put('<svg/>', { type });
      const { headers } = await fetch(`${gateway.url}/files/${key}`);
      expect(headers.get('content-disposition')).toBe(kind);
      expect(headers.get('content-security-policy')).toBe("sandbox; default-src 'none'");
    }
  });
});
