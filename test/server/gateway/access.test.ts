import { rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import {
  formatKeyFile,
  KeyRing,
  parseKeyFile,
  readKeyFile,
  SCOPES,
  writeKeyFile,
} from '../../../gateway/dist/access/api-keys.js';
import { call, guarded, NOW, newKey } from '../../support/gateway/guarded.js';
import { post, type Running, running } from '../../support/gateway/harness.js';
import { temporaryFolder } from '../../support/temporary.js';

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

  test.each([
    ['GET', '/files?group=g', 'list'],
    ['GET', '/groups', 'list'],
    ['POST', '/flush', 'admin'],
  ] as const)(
    'is needed for %s %s with the scope %s, of the gateway alone too',
    async (...what) => {
      const [method, path, scope] = what;
      const may = newKey({ scopes: [scope] });
      const mayNot = newKey({ scopes: SCOPES.filter((each) => each !== scope) });
      const gateway = await guarded([may.key, mayNot.key]);
      const own = await running({ access: new Access({ localKey: may.key }) });
      const statuses = [];
      for (const [at, text] of [
        ...[[gateway], [gateway, mayNot.text], [gateway, may.text]],
        ...[[own], [own, may.text]],
      ] as [Running, string?][]) {
        const headers: Record<string, string> = text === undefined ? {} : { 'x-api-key': text };
        statuses.push((await fetch(at.url + path, { method, headers })).status);
      }
      expect(statuses).toEqual([401, 403, 200, 401, 200]);
      const headers = { 'x-api-key': may.text };
      for (const query of method === 'POST' ? ['?timeout-ms=x', '?timeout-ms=3600001'] : []) {
        expect((await fetch(gateway.url + path + query, { method, headers })).status).toBe(400);
      }
    },
  );

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
    await expect.poll(statuses, { timeout: 20_000 }).toEqual([201, 201]);
    await writeKeyFile(gateway.path, [second.key]);
    await expect.poll(statuses, { timeout: 20_000 }).toEqual([401, 201]);
    writeFileSync(gateway.path, '{"keys": [{}]}');
    await expect.poll(() => gateway.errors.length, { timeout: 20_000 }).toBe(1);
    rmSync(gateway.path);
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
    const upload = (body: string) => post(gateway, body, { authorization: `Bearer ${text}` });
    expect((await upload('xx')).status).toBe(201);
    // Longer than what is left, and nothing of it is counted; and longer than all of a day.
    const untilMidnight = 86_400 - (5 * 3600 + 6 * 60 + 7);
    const longer = await upload('xx');
    expect([longer.status, longer.headers.get('retry-after')]).toEqual([429, `${untilMidnight}`]);
    expect((await upload('xxxx')).status).toBe(413);
    expect((await upload('x')).status).toBe(201);
    const over = await upload('x');
    expect(over.status).toBe(429);
    expect(over.body).toMatchObject({ code: 'quota_exceeded' });
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

  test('for all is said to all, so that what a cache has can be given to a page', async () => {
    const gateway = await running({ corsOrigins: ['*'] });
    const { key } = await call(gateway, 'POST', '/files');
    for (const headers of [{}, {}, { origin }] as Record<string, string>[]) {
      const response = await fetch(`${gateway.url}/files/${key}`, { headers });
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      expect(response.headers.get('access-control-expose-headers')).toContain('ETag');
      expect(response.headers.has('vary')).toBe(false);
    }
  });

  test('is off by default', async () => {
    const gateway = await running();
    const response = await fetch(`${gateway.url}/health/live`, { headers: { origin } });
    expect(response.headers.has('access-control-allow-origin')).toBe(false);
  });
});

test('types that a browser might run are shown in place where that is allowed, in a sandbox', async () => {
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
