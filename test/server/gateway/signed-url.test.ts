import {
  presignedUpload,
  queryOf,
  signedDownload,
  signQuery,
  verifyQuery,
} from '@stevedore/middleware/core';
import { describe, expect, test } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import { call, guarded, NOW, newKey, OLD_SECRET, SECRET } from '../../support/gateway/guarded.js';
import {
  BOUNDARY,
  FORM_END,
  part,
  post,
  RawConnection,
  type Running,
  running,
} from '../../support/gateway/harness.js';

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
      `${url}&__proto__=x`,
      `${url}&constructor=x`,
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

  test('has no fragment: nothing behind it is read as a query', async () => {
    const gateway = await guarded([], [SECRET]);
    const { key } = await gateway.store.put('x');
    const [path, query] = signedDownload(SECRET, key, hour).split('?');
    for (const target of [`${path}#__proto__=?download&${query}`, `${path}?${query}#`, '/#']) {
      const connection = new RawConnection(gateway.port);
      await connection.send(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      const { status, body } = await connection.answer();
      expect([status, JSON.parse(body).code], target).toEqual([400, 'bad_request']);
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
    for (const given of [`/any?${query}`, queryOf(`?${query}`)]) {
      const verified = verifyQuery([SECRET], 'GET', subject, given, NOW)!;
      expect({ ...verified.parameters, at: verified.expiresAt }).toEqual({
        ...parameters,
        at: expiresAt,
      });
    }
    expect(() => verifyQuery([SECRET], 'GET', subject, `?${query}&__proto__=1`, NOW)).toThrow();
    expect(() =>
      signQuery({ secret: 'short', method: 'GET', subject, expiresAt, parameters }),
    ).toThrow(RangeError);
  });
});

describe('a presigned upload', () => {
  const soon = new Date(NOW + 60_000);
  const upload = async (gateway: Running, path: string, body: string, type = 'text/plain') => {
    const { status, body: json } = await post(gateway, body, { 'content-type': type }, path);
    return { ...json, status } as { status: number; key: string; code: string };
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
    const [one, two] = [part('name="f"; filename=""', 'x'), part('name="f"; filename="b"', 'y')];
    const type = `multipart/form-data; boundary=${BOUNDARY}`;
    expect((await upload(gateway, url, one + two + FORM_END, type)).status).toBe(422);
    expect(gateway.store.files.size).toBe(1);
    const reusable = presignedUpload(SECRET, soon, { reusable: true });
    for (const body of ['a', 'b']) {
      expect((await upload(gateway, reusable, body)).status).toBe(201);
    }
    expect(gateway.store.files.size).toBe(3);
  });

  test('is one file even when that is gone', async () => {
    const gateway = await guarded([], [SECRET]);
    const url = presignedUpload(SECRET, soon);
    const { key } = await upload(gateway, url, 'x');
    await gateway.store.delete(key);
    expect((await upload(gateway, url, 'y')).code).toBe('signature_expired');
    // One that was made ahead of this process and is repeated counts as well.
    const repeated = presignedUpload(SECRET, soon);
    const before = await upload(gateway, repeated, 'x');
    const access = new Access({ urlSecrets: [SECRET], now: () => NOW });
    const restarted = await running({ access });
    for (const [name, entry] of gateway.store.files) restarted.store.files.set(name, entry);
    expect((await upload(restarted, repeated, 'x')).key).toBe(before.key);
    await restarted.store.delete(before.key);
    expect((await upload(restarted, repeated, 'x')).code).toBe('signature_expired');
    // What was refused was not used.
    const limited = presignedUpload(SECRET, soon, { maxBytes: 1 });
    expect((await upload(gateway, limited, '12')).code).toBe('too_large');
    expect((await upload(gateway, limited, '1')).status).toBe(201);
  });

  test('has idempotency keys of its own', async () => {
    const gateway = await guarded([], [SECRET]);
    const send = async (path: string) =>
      (await post(gateway, 'x', { 'idempotency-key': '1' }, path)).body.key;
    const alices = presignedUpload(SECRET, soon, { reusable: true, group: 'alice' });
    const bobs = presignedUpload(SECRET, soon, { reusable: true, group: 'bob' });
    const first = await send(alices);
    expect(await send(alices)).toBe(first);
    expect(await send(bobs)).not.toBe(first);
  });

  test('is for the path that it names', async () => {
    const access = new Access({ urlSecrets: [SECRET], now: () => NOW });
    const policies = { current: { small: { maxFileBytes: 2 } } };
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
