import { crc32 } from 'node:zlib';
import { deferred } from '@stevedore/async';
import { uploadMark } from '@stevedore/middleware/core';
import { describe, expect, test } from 'vitest';
import {
  BOUNDARY,
  FORM_END,
  part,
  post,
  RawConnection,
  running,
} from '../../support/gateway/harness.js';

describe('an Idempotency-Key', () => {
  test('makes a repetition the same upload', async () => {
    const gateway = await running();
    const key = { 'idempotency-key': 'a-1' };
    const first = await post(gateway, 'one', key);
    const again = await post(gateway, 'one', { 'idempotency-key': '"a-1"' });
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body).toEqual(first.body);
    expect(first.headers.has('idempotency-replayed')).toBe(false);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(gateway.store.files.size).toBe(1);
    const other = await post(gateway, 'other', key);
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused']);
    const longer = await post(gateway, 'x'.repeat(300_000), key);
    expect(longer.status).toBe(422);
  });

  test('works for forms and for bodies of any length, which are not stored again', async () => {
    const gateway = await running();
    const type = `multipart/form-data; boundary=${BOUNDARY}`;
    const headers = { 'content-type': type, 'idempotency-key': 'form' };
    const form = part('name="f"; filename="a"', 'x') + part('name="f"; filename="b"', 'y');
    const first = await post(gateway, form + FORM_END, headers);
    expect((await post(gateway, form + FORM_END, headers)).body).toEqual(first.body);
    const long = Buffer.alloc(400_000, 1);
    const { received } = gateway.store;
    for (let count = 0; count < 2; count += 1) {
      expect((await post(gateway, long, { 'idempotency-key': 'long' })).status).toBe(201);
    }
    expect(gateway.store.received - received).toBe(long.length);
    expect(gateway.store.files.size).toBe(3);
  });

  test('is for the same bytes: others are not said to be stored', async () => {
    const gateway = await running();
    const first = Buffer.alloc(100_000, 1);
    const other = Buffer.from(first);
    other[99_999] = 2;
    const chunked = (bytes: Buffer) => ReadableStream.from([bytes]);
    const upload = async (name: string, sent: Buffer | ReadableStream) => {
      const { status, body } = await post(gateway, sent, { 'idempotency-key': name });
      return [status, body.code];
    };
    const stored = [201, undefined];
    const refused = [422, 'idempotency_key_reused'];
    for (const [name, one, another] of [
      ['short', Buffer.from('one'), Buffer.from('two')],
      ['long', first, other],
      ['chunked', first, other],
    ] as const) {
      const sent = (bytes: Buffer) => (name === 'chunked' ? chunked(bytes) : bytes);
      expect(await upload(name, sent(one)), name).toEqual(stored);
      expect(await upload(name, sent(another)), name).toEqual(refused);
      expect(await upload(name, sent(one)), name).toEqual(stored);
    }
    expect(await upload('chunked', chunked(Buffer.alloc(100_001)))).toEqual(refused);
    expect(await upload('chunked', chunked(Buffer.alloc(0)))).toEqual(refused);
    expect(await upload('empty', Buffer.alloc(0))).toEqual(stored);
    expect(await upload('empty', Buffer.alloc(0))).toEqual(stored);
    expect(await upload('empty', chunked(Buffer.from('x')))).toEqual(refused);
    expect(gateway.store.files.size).toBe(4);
    expect(gateway.store.uploadsInFlight).toBe(0);
  });

  test('is for the same form, in which a file that was deleted since is said to be so', async () => {
    const gateway = await running();
    const type = `multipart/form-data; boundary=${BOUNDARY}`;
    const headers = { 'content-type': type, 'idempotency-key': 'form' };
    const file = (content: string) => part('name="f"; filename="a"', content);
    const upload = (...parts: string[]) => post(gateway, parts.join('') + FORM_END, headers);
    const long = 'l'.repeat(300_000);
    const first = await upload(file('one'), part('name="x"', 'field'), file(long), file('3'));
    expect(first.status).toBe(201);
    const named = (name: string) => part(`name="f"; filename="${name}"`, 'one');
    for (const parts of [
      [file('one'), file(long), file('3'), file('more')],
      [file('more'), file('one'), file(long), file('3')],
      [file('one'), file('more'), file(long), file('3')],
      [named('other'), file(long), file('3')],
      [file('two'), file(long), file('3')],
      [file('one'), file(`${long.slice(1)}L`), file('3')],
      [file('one'), file(long)],
      [file('3'), file(long), file('one')],
    ]) {
      const other = await upload(...parts);
      expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused']);
    }
    const raw = await post(gateway, 'one', { 'idempotency-key': 'form' });
    expect(raw.status).toBe(422);
    const again = await upload(file('one'), file(long), file('3'));
    expect([again.status, again.body]).toEqual([201, first.body]);
    const receipts = first.body as unknown as { key: string }[];
    await gateway.store.delete(receipts[1]!.key);
    const left = await upload(file('one'), file(long), file('3'));
    const deleted = { state: 'deleted' };
    expect([left.status, left.body]).toEqual([201, [receipts[0], deleted, receipts[2]]]);
    expect((await upload(file('one'), file('3'))).status).toBe(422);
    await gateway.store.delete(receipts[0]!.key);
    const last = await upload(file('one'), file(long), file('3'));
    expect([last.status, last.body]).toEqual([201, [deleted, deleted, receipts[2]]]);
    const broken = await post(gateway, file('one'), headers);
    expect([broken.status, broken.body.code]).toEqual([400, 'malformed_multipart']);
    expect(gateway.store.files.size).toBe(1);
  });

  test('of a raw body is for that file alone, not for a form that begins with it', async () => {
    const gateway = await running();
    const key = { 'idempotency-key': 'raw' };
    const asForm = { ...key, 'content-type': `multipart/form-data; boundary=${BOUNDARY}` };
    const file = (name: string, content: string) =>
      part(`name="f"; filename="${name}"`, content, 'Content-Type: text/plain\r\n');
    const raw = { ...key, 'x-filename': 'a', 'content-type': 'text/plain' };
    const first = await post(gateway, 'one', raw);
    const more = await post(gateway, file('a', 'one') + file('b', 'X') + FORM_END, asForm);
    expect([more.status, more.body.code]).toEqual([422, 'idempotency_key_reused']);
    expect((await post(gateway, 'one', { ...raw, 'x-filename': 'b' })).status).toBe(422);
    expect((await post(gateway, 'one', { ...raw, 'content-type': 'text/html' })).status).toBe(422);
    const same = await post(gateway, file('a', 'one') + FORM_END, asForm);
    expect([same.status, same.body]).toEqual([201, first.body]);
    expect(gateway.store.files.size).toBe(1);
  });

  test('that was guessed gives nothing away, whatever its client waits for', async () => {
    const { port, store } = await running();
    const { key } = await store.put('private bytes', { once: uploadMark(' /files', 'guess') });
    const head =
      'POST /files HTTP/1.1\r\nHost: x\r\nIdempotency-Key: guess\r\nExpect: 100-continue\r\nConnection: close\r\n';
    const form = part('name="f"; filename="a"', 'other content') + FORM_END;
    for (const [type, body] of [
      ['text/plain', 'other content'],
      [`multipart/form-data; boundary=${BOUNDARY}`, form],
    ]) {
      const connection = new RawConnection(port);
      const length = `Content-Length: ${body!.length}`;
      await connection.send(`${head}Content-Type: ${type}\r\n${length}\r\n\r\n`);
      await connection.sees(/100 Continue/);
      await connection.send(body!);
      const answer = await connection.answer();
      expect(answer.status).toBe(422);
      expect(answer.body).not.toContain(key);
    }
    const same = new RawConnection(port);
    await same.send(`${head}Content-Length: 13\r\n\r\n`);
    await same.sees(/100 Continue/);
    await same.send('private bytes');
    const answer = await same.answer();
    expect([answer.status, JSON.parse(answer.body).key]).toEqual([201, key]);
  });

  test('is held against the bytes, not against a checksum of them', async () => {
    const gateway = await running();
    // Of the same length and CRC-32.
    const [one, other] = ['plumless', 'buckeroo'];
    expect(crc32(one!)).toBe(crc32(other!));
    expect((await post(gateway, one!, { 'idempotency-key': 'k' })).status).toBe(201);
    expect((await post(gateway, other!, { 'idempotency-key': 'k' })).status).toBe(422);
  });

  test('is one upload at a time', async () => {
    const gateway = await running();
    const { promise, resolve: open } = deferred<void>();
    gateway.store.gate = promise;
    const key = { 'idempotency-key': 'k' };
    const first = post(gateway, 'x', key);
    while (gateway.store.uploadsInFlight === 0) await new Promise((done) => setImmediate(done));
    const second = await post(gateway, 'x', key);
    expect([second.status, second.body.code]).toEqual([409, 'upload_under_way']);
    expect(second.headers.get('retry-after')).toBe('1');
    open();
    expect((await first).status).toBe(201);
    expect((await post(gateway, 'x', key)).status).toBe(201);
    expect(gateway.store.files.size).toBe(1);
  });

  test('of an upload that failed may be used again', async () => {
    const gateway = await running();
    const key = { 'idempotency-key': 'k', 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' };
    expect((await post(gateway, 'x', key)).status).toBe(400);
    expect((await post(gateway, 'x', { 'idempotency-key': 'k' })).status).toBe(201);
  });

  test.each(['', 'a b', 'x'.repeat(256), 'ä'])('"%s" is none', async (key) => {
    const gateway = await running();
    const answer = await post(gateway, 'x', { 'idempotency-key': key });
    expect(answer.body.code).toBe('invalid_idempotency_key');
  });
});
