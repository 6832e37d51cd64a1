import { createServer, type RequestListener } from 'node:http';
import { connect } from 'node:net';
import { open } from '@stevedore/client';
import { files, problems, upload } from '@stevedore/middleware/express';
import * as forFastify from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import { multerStorage } from '@stevedore/middleware/multer';
import express from 'express';
import { fastify } from 'fastify';
import multer from 'multer';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { serving } from '../../support/serving.js';
import { until } from '../../support/staging.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** The adapters inside apps that have more: routers, parsers, routes of their own. */

const store = await open({ directory: temporaryFolder(ofSuite), mergeMaxAge: '1h' });
afterAll(() => store.close());

const listen = (listener: unknown): Promise<string> => serving(listener as RequestListener);

const TEXT = { 'content-type': 'text/plain' };

test.each(['/', '/files'])('below an Express router, path %s, a file has one URL', async (path) => {
  const app = express();
  app.use('/api', files({ store, path }));
  const base = await listen(app);
  const where = `/api${path === '/' ? '' : path}`;
  const posted = await fetch(base + where, { method: 'POST', body: 'hello', headers: TEXT });
  const { url } = (await posted.json()) as { url: string };
  expect(url.startsWith(`${where}/`)).toBe(true);
  const info = await fetch(`${base}${url}/info`);
  expect(((await info.json()) as { url: string }).url).toBe(url);
});

test('a route of a Fastify app tells HEAD the length of the file', async () => {
  const app = fastify();
  const send = forFastify.download(store);
  app.get<{ Params: { key: string } }>('/photos/:key', (request, reply) =>
    send(request, reply, request.params.key),
  );
  const base = await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    app.server.closeAllConnections();
    await app.close();
  });
  const { key } = await store.put(Buffer.from('hello'), { type: 'text/plain' });
  const url = `${base}/photos/${key}`;
  const head = await fetch(url, { method: 'HEAD' });
  expect([head.status, head.headers.get('content-length')]).toEqual([200, '5']);
  const etag = head.headers.get('etag')!;
  const known = await fetch(url, { method: 'HEAD', headers: { 'if-none-match': etag } });
  expect([known.status, known.headers.get('content-length')]).toEqual([304, null]);
});

test('behind a body parser, a type that is not taken is 415, and one that is says why it fails', async () => {
  const app = express();
  app.set('env', 'test');
  app.use(express.json());
  const done = (_: unknown, response: { sendStatus(status: number): void }) =>
    response.sendStatus(201);
  app.post('/photos', upload(store, { types: ['image/*'] }), done);
  app.post('/any', upload(store), done);
  app.use('/tus', express.raw({ type: '*/*' }), files({ store, path: '/' }));
  app.use(problems(store));
  const logged: unknown[] = [];
  const keep: express.ErrorRequestHandler = (error, _request, _response, next) => {
    logged.push((error as Error).stack);
    next(error);
  };
  app.use(keep);
  const base = await listen(app);
  const post = (path: string) =>
    fetch(base + path, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json' },
    });
  const refused = await post('/photos');
  expect([refused.status, await refused.json()]).toMatchObject([415, { code: 'type_not_allowed' }]);
  expect((await post('/any')).status).toBe(500);
  const tus = { 'tus-resumable': '1.0.0', 'upload-length': '2' };
  const type = { 'content-type': 'application/offset+octet-stream' };
  const resumable = { method: 'POST', body: '{}', headers: { ...tus, ...type } };
  expect((await fetch(`${base}/tus`, resumable)).status).toBe(500);
  expect(logged).toEqual([expect.stringContaining('ahead of body parsers')]);
});

test.each([true, false])(
  'a client is told to go on once; checkContinue listened for: %s',
  async (listens) => {
    const handler = httpHandler({ store, path: '/photos' }) as RequestListener;
    const server = createServer({ requestTimeout: 0 }, handler);
    if (listens) {
      server.on('checkContinue', (request, response) => server.emit('request', request, response));
    }
    const { port } = new URL(await serving(server));
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      'POST /photos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n',
    );
    let answer = '';
    for await (const chunk of socket.setEncoding('latin1') as AsyncIterable<string>) {
      if (answer === '') socket.write('hello');
      answer += chunk;
    }
    expect(answer.match(/^HTTP\/1\.1 \d+/gm)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 201']);
  },
);

test("what multer's own limits refuse is the client's fault, and nothing of it stays", async () => {
  const app = express();
  const storage = multerStorage(store, { types: ['image/*'] });
  const limits = { fileSize: 1000, files: 2 };
  app.post('/photos', multer({ storage, limits }).array('photo'), (_request, response) => {
    response.sendStatus(201);
  });
  app.use(problems(store));
  const url = `${await listen(app)}/photos`;
  const living = () => store.stats().acknowledgedFiles - store.stats().deletedFiles;
  const before = living();
  const post = async (name: string, ...lengths: number[]) => {
    const body = new FormData();
    for (const length of lengths) {
      body.append(name, new File([new Uint8Array(length)], 'a.png', { type: 'image/png' }));
    }
    const answer = await fetch(url, { method: 'POST', body });
    return [answer.status, ((await answer.json()) as { code: string }).code];
  };
  expect(await post('photo', 10, 2000)).toEqual([413, 'too_large']);
  expect(await post('photo', 10, 10, 10)).toEqual([413, 'too_many_files']);
  expect(await post('other', 10)).toEqual([400, 'malformed_multipart']);
  const cut = await fetch(url, {
    method: 'POST',
    body: '--b\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\nContent-Type: image/png\r\n\r\nx',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
  });
  expect([cut.status, await cut.json()]).toMatchObject([400, { code: 'malformed_multipart' }]);
  await until(() => living() === before);
});
