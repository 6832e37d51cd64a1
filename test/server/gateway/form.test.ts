import { describe, expect, test } from 'vitest';
import {
  BOUNDARY,
  FORM_END,
  formHead,
  part,
  post,
  postForm,
  RawConnection,
  raw,
  running,
  until,
} from '../../support/gateway/harness.js';

type Receipts = readonly { readonly key: string; readonly name: string }[];

const file = (name: string, content: string, headers = '') =>
  part(`name="f"; filename="${name}"`, content, headers);

describe('a form', () => {
  test('with one file is answered as a raw upload is', async () => {
    const gateway = await running();
    const form = new FormData();
    form.set('f', new File(['hello'], 'na"ïve.txt', { type: 'text/plain' }));
    const { status, headers, body } = await post(gateway, form);
    expect(body).toMatchObject({ name: 'na"ïve.txt', size: 5, type: 'text/plain' });
    expect([status, headers.get('location')]).toEqual([201, `/files/${body.key}`]);
    expect(gateway.store.files.get(String(body.key))?.info.group).toBeUndefined();
  });

  test('with several files gives an array; they are a group of their own', async () => {
    const gateway = await running();
    const groups = new Set<string | undefined>();
    for (let turn = 0; turn < 2; turn += 1) {
      const form = new FormData();
      for (const name of ['a', 'b', 'c']) form.append('f', new File([name], `${name}.txt`));
      const receipts = (await post(gateway, form)).body as unknown as Receipts;
      expect(receipts.map(({ name }) => name)).toEqual(['a.txt', 'b.txt', 'c.txt']);
      for (const { key } of receipts) groups.add(gateway.store.files.get(key)?.info.group);
    }
    expect(groups.size).toBe(2);
    expect(groups.has(undefined)).toBe(false);
  });

  test('with a field `group` after its files gives them that group', async () => {
    const gateway = await running();
    const form = new FormData();
    for (const name of ['1', '2']) form.append('f', new File([name], name));
    form.append('title', 'ignored');
    form.append('group', 'Grüße');
    expect((await post(gateway, form)).status).toBe(201);
    const groups = [...gateway.store.files.values()].map(({ info }) => info.group);
    expect(groups).toEqual(['Grüße', 'Grüße']);
  });

  test('of large and small files in turns arrives whole', async () => {
    const gateway = await running();
    const contents = [3, 0, 2_000_000, 1, 65_536, 700_000, 17].map((size, index) =>
      Buffer.alloc(size, `${index}\r\n--${BOUNDARY}`),
    );
    const form = new FormData();
    for (const [index, bytes] of contents.entries())
      form.append('f', new File([bytes], `${index}`));
    const receipts = (await post(gateway, form)).body as unknown as Receipts;
    const stored = receipts.map(({ key }) => gateway.store.files.get(key)?.bytes);
    expect(stored.map((bytes, index) => bytes?.equals(contents[index]!))).toEqual(
      contents.map(() => true),
    );
  });

  test('cut anywhere into packets is the same form', async () => {
    const { port, store } = await running();
    const body = `preamble\r\n${file('a.txt', 'one\r\n--xxBOUND')}${file('b', '')}${part('name="group"', 'g')}${FORM_END}epilogue`;
    for (const step of [1, 7, 64]) {
      const connection = new RawConnection(port);
      connection.socket.setNoDelay(true);
      await connection.send(formHead(body.length));
      for (let at = 0; at < body.length; at += step)
        await connection.send(body.slice(at, at + step));
      const answer = await connection.answer();
      expect(answer.status).toBe(201);
      expect(JSON.parse(answer.body)).toMatchObject([{ size: 14 }, { size: 0 }]);
    }
    expect(store.files.size).toBe(6);
  });

  test('leaves out a file field in which nothing was chosen', async () => {
    const { port, store } = await running();
    const none = part('name="f"; filename=""', '', 'Content-Type: application/octet-stream\r\n');
    const answer = await postForm(port, none + file('a', 'x') + FORM_END);
    expect(answer.status).toBe(201);
    expect(JSON.parse(answer.body)).toMatchObject({ name: 'a', size: 1 });
    expect(store.files.size).toBe(1);
    const unnamed = await postForm(port, part('name="f"; filename=""', 'content') + FORM_END);
    expect(JSON.parse(unnamed.body)).toMatchObject({ name: '', size: 7 });
  });

  test.each([
    ['../../etc/passwd', '../../etc/passwd'],
    ['a\\"b', 'a"b'],
    ['nul%0D%0Ax', 'nul\r\nx'],
    ['..\\..\\x', '..\\..\\x'],
  ])('keeps the name %j as a name', async (sent, name) => {
    const { port } = await running();
    const answer = await postForm(port, file(sent, 'x') + FORM_END);
    expect(JSON.parse(answer.body)).toMatchObject({ name });
  });

  test('takes names of what every object has as names', async () => {
    const { port, store } = await running();
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''];
    const parts = names.map((name) => part(`name="${name}"`, 'x')).join('');
    const headers = '__proto__: y\r\nconstructor: z\r\n';
    const answer = await postForm(port, parts + file('__proto__', 'y', headers) + FORM_END);
    expect([answer.status, [...store.files.values()][0]?.info.name]).toEqual([201, '__proto__']);
    expect(Object.hasOwn(Object.prototype, 'x') || 'y' in {}).toBe(false);
  });

  test('may have a boundary that should have been quoted', async () => {
    const boundary = '----=_Part_1:2';
    const body = (file('a', 'x') + FORM_END).replaceAll(BOUNDARY, boundary);
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
    expect((await post(await running(), body, headers)).status).toBe(201);
  });

  test('with a type that is none stores a file of no particular type', async () => {
    const { port } = await running();
    const answer = await postForm(port, file('a', 'x', 'Content-Type: <b>\r\n') + FORM_END);
    expect(JSON.parse(answer.body)).toMatchObject({ type: 'application/octet-stream' });
  });

  test.each([
    ['binary', 201],
    ['8bit', 201],
    ['base64', 415],
    ['quoted-printable', 415],
  ])('with a part in %s is answered with %i', async (coding, status) => {
    const { port, store } = await running();
    const coded = file('a', 'eA==', `Content-Transfer-Encoding: ${coding}\r\n`);
    expect((await postForm(port, coded + FORM_END)).status).toBe(status);
    expect(store.files.size).toBe(status === 201 ? 1 : 0);
  });
});

describe('a malformed form', () => {
  const header = 'Content-Disposition: form-data; name="f"; filename="a"';
  test.each([
    ['another boundary', `--other\r\n${header}\r\n\r\nx\r\n--other--\r\n`],
    ['no end', file('a', 'x')],
    ['no end after a whole part', `${file('a', 'x')}--${BOUNDARY}\r\n`],
    ['half a boundary at its end', `${file('a', 'x')}--${BOUNDARY}-`],
    ['a part without headers', `${file('a', 'x')}--${BOUNDARY}\r\n--${BOUNDARY}--\r\n`],
    [
      'headers without an end',
      `${file('a', 'x')}--${BOUNDARY}\r\n${header}\r\n--${BOUNDARY}--\r\n`,
    ],
    ['no disposition', `${file('a', 'x')}--${BOUNDARY}\r\nX: y\r\n\r\nx\r\n${FORM_END}`],
    [
      'another disposition',
      `--${BOUNDARY}\r\nContent-Disposition: attachment\r\n\r\nx\r\n${FORM_END}`,
    ],
    ['two names', part('name="f"; filename="a"; filename="b"', 'x') + FORM_END],
    ['a quote without end', part('name="f"; filename="a', 'x') + FORM_END],
    ['a line break in its name', part('name="f"; filename="a\nb"', 'x') + FORM_END],
    ['nothing in it', ''],
    ['noise', '\0\xff'.repeat(1000)],
  ])('with %s is refused whole', async (_, body) => {
    const { port, store } = await running();
    const answer = await postForm(port, body);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'malformed_multipart' });
    expect(store.files.size).toBe(0);
    expect(store.uploadsInFlight).toBe(0);
  });

  test.each([
    'multipart/form-data',
    'multipart/form-data; boundary=',
    `multipart/form-data; boundary="${'x'.repeat(71)}"`,
  ])('whose type is %s is refused', async (type) => {
    const { status, body } = await post(await running(), 'x', { 'content-type': type });
    expect([status, body.code]).toEqual([400, 'malformed_multipart']);
  });

  test('without a file in it is refused', async () => {
    const { port, store } = await running();
    for (const body of [part('name="group"', 'g') + FORM_END, FORM_END]) {
      const answer = await postForm(port, body);
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'no_file' });
    }
    expect(store.files.size).toBe(0);
  });

  test('that never begins is given up, whatever its length', async () => {
    const { port, bytesRead } = await running();
    const answer = await raw(port, formHead(50_000_000), Buffer.alloc(20_000_000));
    expect(answer.status).toBe(400);
    expect(bytesRead()).toBeLessThan(1_000_000);
  });

  test('that goes on after its end is given up and nothing stored', async () => {
    const { port, store, bytesRead } = await running();
    const body = [file('a', 'x') + FORM_END, Buffer.alloc(20_000_000)];
    const answer = await raw(port, formHead(50_000_000), ...body);
    expect(answer.status).toBe(400);
    expect(bytesRead()).toBeLessThan(1_000_000);
    expect(store.files.size).toBe(0);
  });

  test('whose part never ends is dropped when its client goes', async () => {
    const { port, store } = await running();
    const connection = new RawConnection(port);
    const begin = file('a', 'first') + file('b', 'x'.repeat(200_000)).slice(0, -2);
    await connection.send(formHead(10_000_000) + begin);
    await until(() => store.received > 150_000);
    connection.socket.resetAndDestroy();
    await until(() => store.uploadsInFlight === 0);
    expect(store.files.size).toBe(0);
  });
});

describe('a form beyond its bounds', () => {
  test.each([
    ['20,000 parts', file('a', 'x').repeat(20_000), 'too_many_parts'],
    ['20,000 fields', part('name="x"', 'y').repeat(20_000), 'too_many_parts'],
    ['101 parts', file('a', 'x').repeat(101), 'too_many_parts'],
    ['21 headers', file('a', 'x', 'X: y\r\n'.repeat(20)), 'part_headers_too_large'],
    ['long headers', file('a', 'x', `X: ${'y'.repeat(9000)}\r\n`), 'part_headers_too_large'],
    ['headers without end', `--${BOUNDARY}\r\nX: ${'y'.repeat(900_000)}`, 'part_headers_too_large'],
    ['a long field', part('name="x"', 'y'.repeat(65_537)), 'field_too_large'],
    ['a long file', file('a', 'x'.repeat(1_000_001)), 'too_large'],
  ])('with %s is refused with 413', async (_, parts, code) => {
    const { port, store } = await running({ limits: { maxFileBytes: 1_000_000 } });
    const answer = await postForm(port, parts + FORM_END);
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.body)).toMatchObject({ code });
    expect(answer.head).toMatch(/^connection: close$/im);
    expect(store.files.size).toBe(0);
    expect(store.uploadsInFlight).toBe(0);
  });

  test('at its bounds is taken', async () => {
    const { port, store } = await running({ limits: { maxFileBytes: 1_000_000 } });
    const body =
      file('a', 'x'.repeat(1_000_000), 'X: y\r\n'.repeat(19)) +
      part('name="x"', 'y'.repeat(65_536)) +
      file('b', 'x').repeat(98);
    const answer = await postForm(port, body + FORM_END);
    expect(answer.status).toBe(201);
    expect(store.files.size).toBe(99);
  });

  test('with a name too long is refused', async () => {
    const { port, store } = await running();
    const answer = await postForm(port, file('n'.repeat(1025), 'x') + FORM_END);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'invalid_name' });
    expect(store.files.size).toBe(0);
  });
});
