import { describe, expect, test } from 'vitest';
import { post, RawConnection, raw, running, until } from '../../support/gateway/harness.js';
import { serving } from '../../support/serving.js';

const LIMIT = 100_000;
const SMUGGLED = 'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled';
const small = { limits: { maxFileBytes: LIMIT } };

describe('a raw upload', () => {
  test('is answered with 201, its location and its receipt', async () => {
    const gateway = await running();
    const { store } = gateway;
    const {
      status,
      headers,
      body: receipt,
    } = await post(gateway, 'hello', {
      'x-filename': 'na%C3%AFve%20plan.txt',
      'content-type': 'text/plain; charset=utf-8',
      'x-affinity-group': 'album 7',
    });
    expect([status, headers.get('location')]).toEqual([201, `/files/${receipt.key}`]);
    expect(receipt).toEqual({
      key: expect.stringMatching(/^[\w-]{22}$/),
      url: `/files/${receipt.key}`,
      name: 'naïve plan.txt',
      size: 5,
      type: 'text/plain; charset=utf-8',
      crc32: '3610a686',
      state: 'staged',
      stagedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      affinityGroup: 'album 7',
    });
    expect(store.files.get(String(receipt.key))?.info.group).toBe('album 7');
  });

  test('without a type of its own gets that of its name, also if curl or wget say that it is a form', async () => {
    const gateway = await running();
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const own of [{}, form]) {
      const png = await post(gateway, 'x', { 'x-filename': 'a.png', ...own });
      expect(png.body).toMatchObject({ name: 'a.png', type: 'image/png' });
      const bin = await post(gateway, 'x', { 'x-filename': 'a.bin', ...own });
      expect(bin.body).toMatchObject({ name: 'a.bin', type: 'application/octet-stream' });
    }
  });

  test('of any type is taken as it is, JSON too', async () => {
    const gateway = await running();
    for (const type of ['application/json', 'application/x-ndjson', 'text/html']) {
      const { status, body } = await post(gateway, '{"not json', { 'content-type': type });
      expect([status, body]).toMatchObject([201, { type, size: 10 }]);
    }
    expect(gateway.store.files.size).toBe(3);
  });

  test.each([
    ['attachment; filename="a b.txt"', 'a b.txt'],
    ['attachment; filename=plain.txt;', 'plain.txt'],
    ['attachment; filename="x.txt"; filename*=UTF-8\'\'%e2%82%ac%20rates.txt', '€ rates.txt'],
    ["attachment; filename*=iso-8859-1'en'%A3.txt", '£.txt'],
    ['attachment; filename="q\\"uote\\\\.txt"', 'q"uote\\.txt'],
    ['attachment; filename="../../etc/passwd"', '../../etc/passwd'],
    ["attachment; filename*=UTF-8''%ff%zz; filename=fallback", 'fallback'],
    ['inline', ''],
  ])('takes its name from Content-Disposition: %s', async (header, name) => {
    const { body } = await post(await running(), 'x', { 'content-disposition': header });
    expect(body).toMatchObject({ name });
  });

  test.each([
    ['..%2F..%2Fetc%2Fpasswd', '../../etc/passwd'],
    ['a%00b', 'a\0b'],
    ['a%0D%0ASet-Cookie:%20x=1', 'a\r\nSet-Cookie: x=1'],
    ['C:%5Cdir%5Cx.txt', 'C:\\dir\\x.txt'],
    ['%252e%252e', '%2e%2e'],
  ])('keeps the name %s as a name', async (header, name) => {
    const gateway = await running();
    const { body } = await post(gateway, 'x', {
      ...{ 'x-filename': header, 'content-type': 'application/octet-stream' },
    });
    expect(body.name).toBe(name);
    const served = await fetch(`${gateway.url}/files/${body.key}`);
    expect(served.status).toBe(200);
    expect(served.headers.get('set-cookie')).toBeNull();
    expect(served.headers.get('content-disposition')).toMatch(/^attachment; filename="[ -~]*"/);
    expect(await served.text()).toBe('x');
  });

  test('whose name is not percent-encoded UTF-8, or too long, is refused', async () => {
    const gateway = await running();
    for (const name of ['%zz', '%ff', 'x'.repeat(1025)]) {
      const { status, headers, body } = await post(gateway, 'x', { 'x-filename': name });
      expect([status, body]).toMatchObject([400, { code: 'invalid_name', status: 400 }]);
      expect(headers.get('content-type')).toBe('application/problem+json');
    }
    expect(gateway.store.files.size).toBe(0);
  });

  test('with a Content-Type that is none is refused', async () => {
    const { port } = await running();
    const answer = await raw(
      port,
      'POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: junk\r\nContent-Length: 3\r\n\r\nabc',
    );
    expect(answer.status).toBe(415);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'invalid_media_type' });
  });

  test('of no bytes is an empty file; one without any framing is refused', async () => {
    const { url, port } = await running();
    const response = await fetch(`${url}/files`, { method: 'POST', body: '' });
    expect(response.status).toBe(201);
    const { key } = (await response.json()) as { readonly key: string };
    const served = await fetch(`${url}/files/${key}`);
    expect(served.status).toBe(200);
    expect(served.headers.get('content-length')).toBe('0');
    expect(await served.text()).toBe('');
    const answer = await raw(port, 'POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(answer.status).toBe(411);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'length_required' });
  });

  test('that is the address of another file is not followed', async () => {
    let asked = 0;
    const url = await serving((_, response) => {
      asked += 1;
      response.end('inner');
    });
    const gateway = await running();
    await post(gateway, url, { 'content-type': 'text/uri-list' }, `/files?url=${url}`);
    await post(gateway, JSON.stringify({ url }), { 'content-type': 'application/json' });
    expect([asked, gateway.store.files.size]).toEqual([0, 2]);
  });

  test('of many chunks arrives whole, with and without a length', async () => {
    const { url, store } = await running();
    const bytes = Buffer.alloc(5_000_000, 'abcdefghij');
    const known = await fetch(`${url}/files`, { method: 'POST', body: bytes });
    const stream = new Blob([bytes]).stream();
    const chunked = await fetch(`${url}/files`, { method: 'POST', body: stream, duplex: 'half' });
    for (const response of [known, chunked]) {
      expect(response.status).toBe(201);
      const { key } = (await response.json()) as { readonly key: string };
      expect(store.files.get(key)?.bytes.equals(bytes)).toBe(true);
      const served = await fetch(`${url}/files/${key}`);
      expect(Buffer.from(await served.arrayBuffer()).equals(bytes)).toBe(true);
    }
  });

  test('asked about first gets its 100 only when its headers are in order', async () => {
    const { port, store } = await running(small);
    const yes = new RawConnection(port);
    await yes.send(
      'POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n',
    );
    await yes.sees(/^HTTP\/1\.1 100 Continue/);
    await yes.send('hello');
    expect((await yes.answer()).status).toBe(201);
    const no = await raw(
      port,
      `POST /files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${LIMIT + 1}\r\n\r\n`,
    );
    expect(no.status).toBe(413);
    expect(no.head).not.toContain('100 Continue');
    expect(store.files.size).toBe(1);
  });

  test('of a client of HTTP/1.0 is answered with nothing that it does not know', async () => {
    const { port } = await running();
    const connection = new RawConnection(port);
    await connection.send(
      'POST /files HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello',
    );
    expect(await connection.sees(/"key"/)).toMatch(/^HTTP\/1\.1 201 /);
  });

  test.each([
    ['Content-Encoding: gzip', 415, 'unsupported_encoding'],
    ['Content-Encoding: identity, br', 415, 'unsupported_encoding'],
    ['Content-Encoding: identity', 201, undefined],
    ['Content-Encoding:', 201, undefined],
    ['Transfer-Encoding: gzip, chunked', 501, 'unsupported_transfer_coding'],
    ['Transfer-Encoding: Chunked', 201, undefined],
  ])('with %s is answered with %i', async (header, status, code) => {
    const { port, store } = await running();
    const framing = header.startsWith('T') ? header : `${header}\r\nTransfer-Encoding: chunked`;
    const head = `POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${framing}\r\n\r\n`;
    const answer = await raw(port, `${head}1\r\nx\r\n0\r\n\r\n`);
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body.replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, '')).code).toBe(code);
    expect(/^accept-encoding: identity\r?$/m.test(answer.head)).toBe(status === 415);
    expect(store.files.size).toBe(status === 201 ? 1 : 0);
  });
});

describe('an upload over the limit', () => {
  test('that says so is refused at once: the connection closes, the body is not read', async () => {
    const { port, store, bytesRead } = await running(small);
    const connection = new RawConnection(port);
    await connection.send(
      'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nbegin',
    );
    void connection.send(Buffer.alloc(20_000_000));
    const answer = await connection.answer();
    expect(answer.status).toBe(413);
    expect(answer.head).toMatch(/^connection: close$/im);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'too_large', status: 413 });
    expect(bytesRead()).toBeLessThan(500_000);
    expect(store.received).toBe(0);
    expect(store.files.size).toBe(0);
  });

  test('of unknown length is refused soon after the limit', async () => {
    const { port, store, bytesRead } = await running(small);
    const connection = new RawConnection(port);
    await connection.send('POST /files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    void (async () => {
      const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
      for (let sent = 0; sent < 500 && !connection.closed; sent += 1) await connection.send(chunk);
    })();
    const answer = await connection.answer();
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'too_large' });
    expect(store.received).toBeLessThanOrEqual(LIMIT);
    expect(bytesRead()).toBeLessThan(LIMIT + 500_000);
    expect(store.files.size).toBe(0);
    expect(store.uploadsInFlight).toBe(0);
  });

  test('by one byte is refused, at the limit it is taken', async () => {
    const { url, store } = await running(small);
    const status = async (body: Buffer | ReadableStream) =>
      (await fetch(`${url}/files`, { method: 'POST', body, duplex: 'half' } as RequestInit)).status;
    expect(await status(new Blob([Buffer.alloc(LIMIT)]).stream())).toBe(201);
    expect(await status(new Blob([Buffer.alloc(LIMIT + 1)]).stream())).toBe(413);
    expect(await status(Buffer.alloc(LIMIT))).toBe(201);
    expect(store.files.size).toBe(2);
  });

  test.each(['99999999999999999999', '9007199254740993'])(
    'with the absurd length %s is refused',
    async (length) => {
      const { port } = await running();
      const answer = await raw(
        port,
        `POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\nx`,
      );
      expect([400, 413]).toContain(answer.status);
    },
  );
});

describe('a request with untrue framing', () => {
  test.each([
    'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
    'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\nabc',
    'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: NaN\r\n\r\nabc',
    'POST /files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n',
    ...[
      // Another upload behind an end that not everybody sees there.
      'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'Transfer-Encoding: xchunked, chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
      'Transfer-Encoding: chunked\r\n\r\n0\n\n',
      'Transfer-Encoding: chunked\r\n\r\n1\r\nabc0\r\n\r\n',
    ].map((framing) => `POST /files HTTP/1.1\r\nHost: x\r\n${framing}${SMUGGLED}`),
    'nonsense\r\n\r\n',
    'GET /files HTTP/1.1\r\n\r\n',
  ])('is refused: %j', async (request) => {
    const { port, store } = await running();
    const answer = await raw(port, request);
    expect(answer.status).toBe(400);
    expect(store.files.size).toBe(0);
  });

  test('that ends before its Content-Length leaves nothing behind', async () => {
    const { port, store } = await running();
    for (const length of [1000, 1_000_000]) {
      const connection = new RawConnection(port);
      await connection.send(
        `POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\nonly this`,
      );
      connection.socket.end();
      await connection.answer();
    }
    await until(() => store.uploadsInFlight === 0);
    expect(store.files.size).toBe(0);
  });

  test('that sends more than its Content-Length has only those bytes stored', async () => {
    const { port, store } = await running();
    const answer = await raw(
      port,
      'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcdefgh\r\n\r\n',
    );
    expect(answer.status).toBe(400);
    expect([...store.files.values()].map(({ bytes }) => bytes.toString())).toEqual(['abc']);
  });
});

test('a request that names two hosts is refused, also where the answer was given before', async () => {
  const { url, port, store } = await running();
  const { key } = await store.put('stored');
  const head = (line: string, hosts: string) =>
    `${line} HTTP/1.1\r\n${hosts}Connection: close\r\nContent-Length: 1\r\n\r\nx`;
  expect((await raw(port, head('POST /files', 'Host: a\r\nHost: b\r\n'))).status).toBe(400);
  expect(store.files.size).toBe(1);
  for (let count = 0; count < 3; count += 1) {
    expect(await (await fetch(`${url}/files/${key}`)).text()).toBe('stored');
  }
  const connection = new RawConnection(port);
  await connection.send(`GET /files/${key} HTTP/1.1\r\nHost: x\r\nhOST: y\r\n\r\n`);
  expect(await connection.sees(/bad_request/)).toMatch(/^HTTP\/1\.1 400 /);
});
