import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2 } from 'node:http2';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { type FileStore, open } from '@stevedore/client';
import * as forExpress from '@stevedore/middleware/express';
import { httpHandler } from '@stevedore/middleware/http';
import express5 from 'express';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { serving } from '../../support/serving.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** The adapters behind middleware of other authors, old and new, that wraps the response. */

type Middleware = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

// Without types of their own.
const require = createRequire(import.meta.url);
const session = { secret: 'secret', resave: true, saveUninitialized: true, store: undefined };
const logged: string[] = [];
const folder = temporaryFolder(ofSuite);
const store = await open({ directory: join(folder, 'store') });
afterAll(() => store.close());

/** Keeps what it is given, and sends it at the end: the way of those that change bodies. */
const holdsBack: Middleware = (_request, response, next) => {
  const kept: Buffer[] = [];
  const end = response.end.bind(response);
  const keep = (chunk: unknown): void => {
    if (typeof chunk === 'string') kept.push(Buffer.from(chunk));
    else if (Buffer.isBuffer(chunk)) kept.push(chunk);
  };
  response.write = (chunk: unknown) => {
    keep(chunk);
    return true;
  };
  response.end = (chunk?: unknown) => {
    keep(chunk);
    return end(Buffer.concat(kept));
  };
  next();
};

function quiet<T>(make: () => T): T {
  // The memory store of sessions warns that it is not for production.
  const { NODE_ENV } = process.env;
  process.env.NODE_ENV = 'test';
  try {
    return make();
  } finally {
    process.env.NODE_ENV = NODE_ENV;
  }
}

const stacks: readonly (readonly [string, () => Middleware[]])[] = [
  ['compression 1.7', () => [require('compression-1.7')({ threshold: 0 })]],
  ['compression 1.8', () => [require('compression')({ threshold: 0 })]],
  ['express-session 1.18', () => [quiet(() => require('express-session-1.18')(session))]],
  ['express-session 1.19', () => [quiet(() => require('express-session')(session))]],
  ['response-time 2.3', () => [require('response-time-2.3')()]],
  ['cookie-session 2.0', () => [require('cookie-session-2.0')({ keys: ['key'] })]],
  ['one that holds back what is written', () => [holdsBack]],
  [
    'helmet, cors, morgan, serve-static, compression and sessions',
    () => {
      mkdirSync(join(folder, 'static'), { recursive: true });
      writeFileSync(join(folder, 'static', 'page.txt'), 'static');
      const line = ':method :status :res[content-length] :res[content-type]';
      return [
        require('morgan')(line, { stream: { write: (text: string) => logged.push(text) } }),
        require('helmet')(),
        require('cors')({ origin: 'https://app.example' }),
        require('compression-1.7')({ threshold: 0 }),
        quiet(() => require('express-session-1.18')(session)),
        require('response-time-2.3')(),
        require('serve-static')(folder),
      ];
    },
  ],
];

type Make = (store: FileStore, before: readonly Middleware[]) => Middleware;

function withExpress(express: typeof express5): Make {
  return (store, before) => {
    const app = express();
    for (const each of before) app.use(each);
    app.post('/own', forExpress.upload(store), (asked, answer) => {
      answer.json(asked.stored);
    });
    app.delete('/own/:key', forExpress.remove(store));
    app.use('/files', forExpress.files({ store, path: '/' }));
    app.use('/own', forExpress.problems(store));
    return app as unknown as Middleware;
  };
}

const apps: readonly (readonly [string, Make])[] = [
  ['Express 5', withExpress(express5)],
  ['Express 4', withExpress(require('express-4'))],
  [
    'node:http',
    (store, before) => {
      const handler = httpHandler({ store });
      return (asked, answer) => {
        const run = (at: number): void => {
          const each = before[at];
          if (each) each(asked, answer, () => run(at + 1));
          else handler(asked, answer);
        };
        run(0);
      };
    },
  ],
];

interface Got {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** As it was sent. */
  readonly body: Buffer;
}

/** A client that does not decode by itself. */
function ask(
  url: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: object; body?: unknown } = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const accept = { 'accept-encoding': 'gzip' };
    const asked = request(url, { method, headers: { ...accept, ...headers } }, async (answer) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of answer) chunks.push(chunk as Buffer);
        const { statusCode = 0 } = answer;
        resolve({ status: statusCode, headers: answer.headers, body: Buffer.concat(chunks) });
      } catch (error) {
        reject(error);
      }
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

const serve = (listener: Middleware): Promise<string> =>
  serving((asked, answer) => listener(asked, answer, () => undefined));

const SHORT = Buffer.from('words to compress '.repeat(500));
const LONG = Buffer.concat([randomBytes(200_000), Buffer.alloc(300_000, 'text '), randomBytes(9)]);

describe.each(apps)('%s', (_app, make) => {
  test.each(stacks)('behind %s', async (name, before) => {
    const url = await serve(make(store, before()));
    for (const [body, type] of [
      [SHORT, 'text/plain'],
      [LONG, 'text/plain'],
      [SHORT, 'image/jpeg'],
      [LONG, 'image/jpeg'],
    ] as const) {
      const stored = await ask(`${url}/files`, {
        method: 'POST',
        headers: { 'content-type': type },
        body,
      });
      expect(stored.status).toBe(201);
      await expectFile(url + jsonOf<{ url: string }>(stored).url, body, type);
    }
    const form = ['--b', 'Content-Disposition: form-data; name="f"; filename="x.txt"', '', 'text'];
    const posted = await ask(`${url}/files`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
      body: [...form, '--b--', ''].join('\r\n'),
    });
    expect([posted.status, jsonOf(posted)]).toMatchObject([201, { name: 'x.txt', size: 4 }]);
    await expectResumed(`${url}/files`);
    await expectRefusals(`${url}/files`);
    if (name.includes('serve-static')) {
      expect((await ask(`${url}/static/page.txt`)).status).toBe(200);
    }
  });
});

/** Everything that is asked of a file: it, its head, parts, conditions. */
async function expectFile(url: string, body: Buffer, type: string): Promise<void> {
  const whole = await ask(url);
  expect([whole.status, whole.body.equals(body)]).toEqual([200, true]);
  const { etag } = whole.headers;
  const facts = { etag, 'content-length': String(body.length), 'content-type': type };
  expect(whole.headers).toMatchObject({ ...facts, 'accept-ranges': 'bytes' });
  const head = await ask(url, { method: 'HEAD' });
  expect([head.status, head.body.length]).toEqual([200, 0]);
  expect(head.headers).toMatchObject(facts);
  const range = { range: 'bytes=7-99', 'if-range': etag };
  const part = await ask(url, { headers: range });
  expect([part.status, part.body.equals(body.subarray(7, 100))]).toEqual([206, true]);
  expect(part.headers['content-range']).toBe(`bytes 7-99/${body.length}`);
  const rest = await ask(url, { headers: { range: 'bytes=5000-' } });
  expect([rest.status, rest.body.equals(body.subarray(5000))]).toEqual([206, true]);
  const outside = await ask(url, { headers: { range: `bytes=${body.length}-` } });
  expect([outside.status, jsonOf(outside)]).toMatchObject([416, { code: 'range_not_satisfiable' }]);
  const known = await ask(url, { headers: { 'if-none-match': etag } });
  expect([known.status, known.headers.etag, known.body.length]).toEqual([304, etag, 0]);
  const other = await ask(url, { headers: { 'if-match': '"other"' } });
  expect(other.status).toBe(412);
  const info = await ask(`${url}/info`);
  expect([info.status, jsonOf(info)]).toMatchObject([200, { size: body.length, type }]);
}

async function expectResumed(files: string): Promise<void> {
  const tus = { 'tus-resumable': '1.0.0' };
  const created = await ask(files, {
    method: 'POST',
    headers: { ...tus, 'upload-length': SHORT.length, 'content-length': 0 },
  });
  expect(created.status).toBe(201);
  const url = new URL(created.headers.location!, files).href;
  for (const [from, to] of [
    [0, 1000],
    [1000, SHORT.length],
  ] as const) {
    const at = await ask(url, { method: 'HEAD', headers: tus });
    expect(at.headers['upload-offset']).toBe(String(from));
    const sent = await ask(url, {
      method: 'PATCH',
      headers: { ...tus, 'upload-offset': from, 'content-type': 'application/offset+octet-stream' },
      body: SHORT.subarray(from, to),
    });
    expect([sent.status, sent.headers['upload-offset']]).toEqual([204, String(to)]);
  }
  expect((await ask(url)).body.equals(SHORT)).toBe(true);
}

async function expectRefusals(files: string): Promise<void> {
  const none = await ask(`${files}/AAAAAAAAAAAAAAAAAAAAAA`);
  expect([none.status, jsonOf(none)]).toMatchObject([404, { code: 'not_found' }]);
  const head = await ask(`${files}/AAAAAAAAAAAAAAAAAAAAAA`, { method: 'HEAD' });
  expect([head.status, head.body.length]).toEqual([404, 0]);
  const method = await ask(files, { method: 'PUT', body: 'text' });
  expect([method.status, jsonOf(method)]).toMatchObject([405, { code: 'method_not_allowed' }]);
}

/** Answers that are not files may be compressed. */
function jsonOf<T>({ headers, body }: Got): T {
  const text = headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
  return JSON.parse(String(text)) as T;
}

test('over HTTP/2, a connection carries uploads, refusals and downloads', async () => {
  const handler = httpHandler({ store });
  const server = createHttp2((asked, answer) =>
    handler(asked as unknown as IncomingMessage, answer as unknown as ServerResponse),
  );
  const client = connectHttp2(await serving(server));
  onTestFinished(() => client.destroy());
  const ask2 = async (path: string, method: string, headers: object = {}, body?: Buffer) => {
    const stream = client.request({ ':path': path, ':method': method, ...headers });
    const answered = once(stream, 'response') as Promise<[Record<string, string | number>]>;
    stream.end(body);
    const [got] = await answered;
    return { ...got, body: Buffer.concat(await stream.toArray()) };
  };
  const encoded = { 'content-type': 'text/plain', 'content-encoding': 'gzip' };
  expect(await ask2('/files', 'POST', encoded, LONG)).toMatchObject({ ':status': 415 });
  const text = { 'content-type': 'text/plain' };
  // Cut off, it could not be told from a whole one.
  expect(await ask2('/files', 'POST', text, LONG)).toMatchObject({ ':status': 411 });
  const sized = { ...text, 'content-length': LONG.length };
  const stored = await ask2('/files', 'POST', sized, LONG);
  expect(stored).toMatchObject({ ':status': 201 });
  const path = String((stored as Record<string, unknown>).location);
  const [whole, part, head] = await Promise.all([
    ask2(path, 'GET'),
    ask2(path, 'GET', { range: 'bytes=5-9' }),
    ask2(path, 'HEAD'),
  ]);
  expect(whole.body.equals(LONG)).toBe(true);
  expect(part).toMatchObject({ ':status': 206, body: LONG.subarray(5, 10) });
  expect(head).toMatchObject({ ':status': 200, 'content-length': String(LONG.length) });
});

test("an app's own routes work there too, and its log has what was sent", async () => {
  const [, before] = stacks.find(([name]) => name.startsWith('helmet'))!;
  const url = await serve(withExpress(express5)(store, before()));
  const headers = { 'content-type': 'text/plain', origin: 'https://app.example' };
  const stored = await ask(`${url}/own`, { method: 'POST', headers, body: SHORT });
  const [{ key }] = jsonOf<[{ key: string }]>(stored);
  logged.length = 0;
  const got = await ask(`${url}/files/${key}`, { headers });
  expect(got.headers).toMatchObject({
    vary: 'Origin',
    'access-control-allow-origin': 'https://app.example',
    // The stricter ones of a file take the place of the app's.
    'content-security-policy': "sandbox; default-src 'none'",
  });
  await expect.poll(() => logged).toEqual([`GET 200 ${SHORT.length} text/plain\n`]);
  const gone = await ask(`${url}/own/${key}`, { method: 'DELETE' });
  expect([gone.status, gone.headers['set-cookie'] !== undefined]).toEqual([204, true]);
  expect((await ask(`${url}/own/${key}`, { method: 'DELETE' })).status).toBe(404);
});
