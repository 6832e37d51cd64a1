import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkPolicy, narrowPolicy, type UploadPolicy } from '@stevedore/middleware/core';
import { describe, expect, test, vi } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import {
  KeyRing,
  makeApiKey,
  SCOPES,
  writeKeyFile,
} from '../../../gateway/dist/access/api-keys.js';
import { PolicyFile, parsePolicies } from '../../../gateway/dist/access/policies.js';
import {
  BOUNDARY,
  FORM_END,
  part,
  post,
  postParts,
  type Running,
  running,
} from '../../support/gateway/harness.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

const PNG = Buffer.concat([
  Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex'),
  Buffer.alloc(9000, 7),
]);
const HTML = '<!doctype html><script>alert(1)</script>'.padEnd(9000, ' ');

function under(policy: UploadPolicy): Promise<Running> {
  return running({ policies: { current: { default: policy } } });
}

describe('a policy of a route', () => {
  test('bounds one file, raw, in a form and of unknown length', async () => {
    const gateway = await under({ maxFileBytes: 1000 });
    expect((await post(gateway, 'x'.repeat(1000))).status).toBe(201);
    expect((await post(gateway, 'x'.repeat(1001))).body.code).toBe('too_large');
    const form = await postParts(gateway, part('name="f"; filename="a"', 'x'.repeat(1001)));
    expect(form.body.code).toBe('too_large');
    expect(gateway.store.files.size).toBe(1);
  });

  test('bounds the files of a form: all or none', async () => {
    const gateway = await under({ maxFiles: 2 });
    const file = part('name="f"; filename="a"', 'x');
    expect((await postParts(gateway, file + file)).status).toBe(201);
    expect((await postParts(gateway, file + file + file)).body.code).toBe('too_many_files');
    expect(gateway.store.files.size).toBe(2);
  });

  test('takes declared types alone, before it reads a byte', async () => {
    const gateway = await under({ types: ['image/*', 'text/plain'] });
    const status = async (type: string) =>
      (await post(gateway, 'x', { 'content-type': type })).status;
    expect(await status('image/png')).toBe(201);
    expect(await status('IMAGE/JPEG; q=1')).toBe(201);
    expect(await status('text/plain; charset=utf-8')).toBe(201);
    const others = ['text/html', 'imagex/png', 'image', 'image/', 'application/octet-stream'];
    const alike = ['text/html; image/png', 'text/html;x=image/png', 'text/html, image/png'];
    for (const type of [...others, ...alike, 'image/png, text/html', 'image/png\t/html']) {
      expect(await status(type), type).toBe(415);
    }
    const typed = (type: string) =>
      part('name="f"; filename="a"', 'x', `Content-Type: ${type}\r\n`);
    expect((await postParts(gateway, typed('image/png'))).status).toBe(201);
    const mixed = await postParts(gateway, typed('image/png') + typed('text/html'));
    expect(mixed.body.code).toBe('type_not_allowed');
    expect(gateway.store.files.size).toBe(4);
  });

  test.each([
    ['image/png', PNG, 201],
    ['image/png', HTML, 415],
    ['image/jpeg', PNG, 415],
    ['image/jpg', Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex'), 201],
    ['text/plain', HTML, 201],
    ['text/plain', PNG, 415],
    ['text/csv', Buffer.from('a,b\0c'), 415],
    ['application/json', Buffer.from('{"a": 1}'), 201],
    ['application/pdf', Buffer.from('%PDF-1.7\n'), 201],
    ['application/pdf', Buffer.from('MZ'.padEnd(600, '\0')), 415],
    ['application/octet-stream', PNG, 201],
    ['application/x-own', Buffer.from('anything'), 201],
    ['image/svg+xml', Buffer.from('<?xml version="1.0"?><svg/>'), 201],
    ['image/svg+xml', PNG, 415],
    ['image/png', Buffer.alloc(0), 201],
  ] as const)('holds the first bytes of %s against the type', async (type, bytes, status) => {
    const gateway = await under({ checkContent: true });
    const answer = await post(gateway, Buffer.from(bytes), { 'content-type': type });
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    const content = Buffer.from(bytes).toString('latin1');
    const typed = part('name="f"; filename="a"', content, `Content-Type: ${type}\r\n`);
    const form = await postParts(gateway, typed);
    // A form of text in a test cannot carry bytes over 127 as they are.
    if (!Buffer.from(bytes).some((byte) => byte > 127)) expect(form.status).toBe(status);
    if (status === 415) expect(gateway.store.files.size).toBe(0);
  });

  test('holds the first bytes of a long body against the type, however it is cut', async () => {
    const gateway = await under({ checkContent: true });
    const long = Buffer.concat([PNG, Buffer.alloc(200_000, 1)]);
    for (const [type, status] of [
      ['image/png', 201],
      ['image/gif', 415],
    ] as const) {
      const pieces = [long.subarray(0, 3), long.subarray(3, 5000), long.subarray(5000)];
      const answer = await post(gateway, ReadableStream.from(pieces), { 'content-type': type });
      expect(answer.status).toBe(status);
    }
    const [stored] = [...gateway.store.files.values()];
    expect(gateway.store.files.size).toBe(1);
    expect(stored?.bytes.equals(long)).toBe(true);
  });

  test('says the group, the durability and how long files live', async () => {
    const gateway = await under({ group: 'g', durability: 'os', ttlMs: 60_000 });
    const now = Date.now();
    const { body } = await post(gateway, 'x', { 'x-affinity-group': 'other' });
    const { info } = gateway.store.files.get(String(body.key))!;
    expect(info.group).toBe('g');
    expect(gateway.store.durabilities).toEqual(['os']);
    expect(Date.parse(String(body.expiresAt))).toBeGreaterThanOrEqual(now + 60_000);
    const form = await postParts(
      gateway,
      part('name="group"', 'other') + part('name="f"; filename="a"', 'x'),
    );
    expect(gateway.store.files.get(String(form.body.key))?.info.group).toBe('g');
    const shorter = await post(gateway, 'x', { 'x-expires-in': '30' });
    expect(Date.parse(String(shorter.body.expiresAt))).toBeLessThan(now + 59_000);
    for (const value of ['61', '0', '-1', '1.5', 'x', '']) {
      const refused = await post(gateway, 'x', { 'x-expires-in': value });
      expect(refused.body.code, value).toBe('invalid_expiry');
    }
    const any = await running();
    const until = (at: string) => post(any, 'x', { 'x-expires-at': at });
    for (const at of ['2999-02-31T00:00:00Z', '1/31/2999', '2999', '2999-01-31T12:00:00', '1']) {
      expect((await until(at)).body.code, at).toBe('invalid_expiry');
    }
    const kept = await until('2999-01-31T12:00:00+02:00');
    expect(kept.body.expiresAt).toBe('2999-01-31T10:00:00.000Z');
  });

  test('with another name is a path of its own', async () => {
    const gateway = await running({ policies: { current: { avatars: { maxFileBytes: 3 } } } });
    expect((await post(gateway, 'xxxx')).status).toBe(201);
    expect((await post(gateway, 'xxxx', {}, '/uploads/avatars')).status).toBe(413);
    expect((await post(gateway, 'xxx', {}, '/uploads/avatars')).status).toBe(201);
    for (const name of ['others', 'default', 'constructor', '__proto__']) {
      const refused = await post(gateway, 'xxx', {}, `/uploads/${name}`);
      expect([refused.status, refused.body.code], name).toEqual([404, 'route_not_found']);
    }
  });

  test('is made, replaced and removed while the gateway runs', async () => {
    const path = join(temporaryFolder(), 'policies.json');
    writeFileSync(path, '{ "icons": { "maxFileSize": "1KiB" } }');
    const made = makeApiKey({ name: 'boss', scopes: ['admin'] }, new Date());
    const none = makeApiKey({ name: 'shop', scopes: ['write', 'list'] }, new Date());
    const keys = `${path}.keys`;
    await writeKeyFile(keys, [made.key, none.key]);
    const onError = vi.fn();
    const gateway = await running({
      access: new Access({ keys: await KeyRing.open({ path: keys, now: Date.now, onError }) }),
      policies: await PolicyFile.open({ path, onError }),
    });
    const call = (method: string, to: string, { text } = made) =>
      fetch(`${gateway.url}/policies${to}`, {
        method,
        headers: { authorization: `Bearer ${text}` },
      });
    const status = async (name: string, content: string) =>
      (await post(gateway, content, { 'x-api-key': none.text }, `/uploads/${name}`)).status;

    expect((await call('PUT', '/avatars?max-file-size=3B', none)).status).toBe(403);
    expect(await status('avatars', 'xxx')).toBe(404);
    const set = '/avatars?max-file-size=3B&types=image/*,%20text/*&check-content=true&ttl=1d';
    expect((await call('PUT', set)).status).toBe(204);
    expect(await (await call('GET', '')).json()).toEqual({
      file: path,
      policies: {
        icons: { maxFileBytes: 1024 },
        avatars: {
          maxFileBytes: 3,
          types: ['image/*', 'text/*'],
          checkContent: true,
          ttlMs: 86_400_000,
        },
      },
    });
    expect(await status('avatars', 'xxxx')).toBe(413);
    expect(await status('avatars', 'xxx')).toBe(415);
    expect((await call('PUT', '/avatars?max-file-size=5B&group=')).status).toBe(204);
    expect(await status('avatars', 'xxxx')).toBe(201);
    for (const [to, said] of [
      ['/avatars?max-file-size=much', 'max-file-size'],
      ['/avatars?types=image', 'image'],
      ['/a.b?max-files=1', 'a.b'],
    ] as const) {
      const refused = await call('PUT', to);
      expect(refused.status, to).toBe(400);
      expect(await refused.text(), to).toContain(said.replace('max-file-size', 'maxFileSize'));
    }
    expect(await status('avatars', 'xxxx')).toBe(201);

    // By hand, too; what is malformed changes nothing.
    writeFileSync(path, '{ "avatars": { "maxFileSize": "1B" } }');
    await soon(async () => expect(await status('avatars', 'xxxx')).toBe(413));
    expect(await status('icons', 'x')).toBe(404);
    writeFileSync(path, '{ "avatars": ');
    await soon(async () => expect(onError).toHaveBeenCalledOnce());
    expect(await status('avatars', 'x')).toBe(201);
    expect((await call('DELETE', '/avatars')).status).toBe(400);
    writeFileSync(path, '{ "avatars": {} }');
    expect((await call('DELETE', '/avatars')).status).toBe(204);
    expect((await call('DELETE', '/avatars')).status).toBe(404);
    expect(await status('avatars', 'x')).toBe(404);
    expect(readFileSync(path, 'utf8')).toBe('{}\n');
    rmSync(path);
    const refused = await call('PUT', '/avatars?max-files=1');
    expect([refused.status, await refused.text()]).toEqual([
      403,
      expect.stringContaining(`cannot write ${path} (ENOENT)`),
    ]);
  });

  test('cannot be made without a file to keep it', async () => {
    const { key, text } = makeApiKey({ name: 'local-key', scopes: SCOPES }, new Date());
    const gateway = await running({ access: new Access({ localKey: key }) });
    const headers = { authorization: `Bearer ${text}` };
    const put = () => fetch(`${gateway.url}/policies/a?max-files=1`, { method: 'PUT', headers });
    expect((await put()).status).toBe(404);
    const shown = await fetch(`${gateway.url}/policies`, { headers });
    expect(await shown.json()).toEqual({ policies: {} });
    expect((await fetch(`${gateway.url}/policies`)).status).toBe(401);
  });

  test('that is none is refused at the start', () => {
    const wrong = [
      { maxFileBytes: 0 },
      { maxFiles: 1.5 },
      { types: ['image'] },
      { types: ['Image/png'] },
      { durability: 'some' },
      { group: '' },
      { checkContent: 'yes' },
      { size: 1 },
    ];
    for (const policy of wrong) {
      expect(() => checkPolicy(policy as UploadPolicy)).toThrow(/policy/);
    }
  });

  test('is read from a file, with sizes and durations', () => {
    const text = { a: { maxFileSize: '2MiB', types: ['image/*'], ttl: '1h', checkContent: true } };
    expect(parsePolicies(text, 'p.json')).toEqual({
      a: { maxFileBytes: 2 ** 21, types: ['image/*'], ttlMs: 3_600_000, checkContent: true },
    });
    for (const wrong of [[], null, { 'a/b': {} }, { a: { size: 1 } }, { a: { types: ['x'] } }]) {
      expect(() => parsePolicies(wrong, 'p.json')).toThrow();
    }
  });

  test('and a permission allow what both do', () => {
    const route: UploadPolicy = { maxFileBytes: 10, types: ['image/*'], checkContent: true };
    expect(narrowPolicy(route, { maxFileBytes: 20, types: ['image/png', 'text/*'] })).toEqual({
      maxFileBytes: 10,
      types: ['image/png'],
      checkContent: true,
    });
    expect(narrowPolicy({}, { ttlMs: 5, group: 'g' })).toEqual({ ttlMs: 5, group: 'g' });
    expect(narrowPolicy({ types: ['image/png'] }, { types: ['text/plain'] }).types).toEqual([]);
  });
});

describe('a checksum', () => {
  const body = Buffer.from('The quick brown fox'.repeat(10));
  const hash = (name: string) => createHash(name).update(body).digest('base64');
  const right: [string, string][] = [
    ['content-md5', hash('md5')],
    ['digest', `SHA-256=${hash('sha256')}`],
    ['digest', `unixsum=1, sha=${hash('sha1')},MD5=${hash('md5')}`],
    ['repr-digest', `sha-256=:${hash('sha256')}:`],
    ['content-digest', `unknown=:AAAA:, sha-512=:${hash('sha512')}:`],
  ];

  test.each(right)('in %s: %s is verified', async (name, value) => {
    const gateway = await running();
    expect((await post(gateway, body, { [name]: value })).status).toBe(201);
    const changed = Buffer.from(body);
    changed[7]! ^= 1;
    const refused = await post(gateway, changed, { [name]: value });
    expect([refused.status, refused.body.code]).toEqual([400, 'digest_mismatch']);
    expect(gateway.store.files.size).toBe(1);
  });

  test.each([
    ['content-md5', 'AAAA', 'invalid_digest'],
    ['content-md5', 'not base64!!', 'invalid_digest'],
    ['digest', 'SHA-256', 'invalid_digest'],
    ['digest', 'unixsum=1', 'unsupported_digest'],
    ['repr-digest', 'sha-256=abc', 'invalid_digest'],
    ['repr-digest', 'crc=:AAAA:', 'unsupported_digest'],
  ])('in %s: %s is refused', async (name, value, code) => {
    const gateway = await running();
    const answer = await post(gateway, body, { [name]: value });
    expect([answer.status, answer.body.code]).toEqual([400, code]);
    expect(gateway.store.files.size).toBe(0);
  });

  test('of a long body, of a form and of a part of it is verified', async () => {
    const gateway = await running();
    const long = Buffer.alloc(300_000, 'abc');
    const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest('base64');
    expect((await post(gateway, long, { 'content-md5': md5(long) })).status).toBe(201);
    expect((await post(gateway, long, { 'content-md5': md5(body) })).status).toBe(400);
    const type = `multipart/form-data; boundary=${BOUNDARY}`;
    const form = Buffer.from(part('name="f"; filename="a"', 'x') + FORM_END);
    const whole = { 'content-type': type, 'content-md5': md5(form) };
    expect((await post(gateway, form, whole)).status).toBe(201);
    expect((await post(gateway, form, { ...whole, 'content-md5': md5(body) })).status).toBe(400);
    const good = part('name="f"; filename="a"', 'x', `Content-MD5: ${md5(Buffer.from('x'))}\r\n`);
    const bad = part('name="f"; filename="b"', 'x', `Content-MD5: ${md5(body)}\r\n`);
    expect((await postParts(gateway, good)).status).toBe(201);
    const refused = await postParts(gateway, good + bad);
    expect([refused.status, refused.body.code]).toEqual([400, 'digest_mismatch']);
    expect(gateway.store.files.size).toBe(3);
    expect(gateway.store.uploadsInFlight).toBe(0);
  });
});
