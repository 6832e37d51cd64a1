import { randomBytes } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2 } from 'node:http2';
import { Socket } from 'node:net';
import { open } from '@stevedore/client';
import { defaultTransferLimits, Files } from '@stevedore/middleware/core';
import * as forExpress from '@stevedore/middleware/express';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import express from 'express';
import { fastify } from 'fastify';
import inject, { type DispatchFunc } from 'light-my-request';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { serving } from '../../support/serving.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** Requests without a connection, and answers whose `write` alone says when to wait. */

const store = await open({ directory: temporaryFolder(ofSuite) });
afterAll(() => store.close());
/** Longer than one turn of a download. */
const BYTES = randomBytes(1_000_000);
const handler = httpHandler({ store, path: '/photos' });

function expressApp(): DispatchFunc {
  const app = express();
  app.post('/photos', forExpress.upload(store), (request, response) => {
    response.status(201).json(request.stored[0]);
  });
  app.get('/photos/:key', forExpress.download(store));
  // light-my-request changes what the responses of all apps inherit from.
  for (const shared of [express.request, express.response]) {
    const parent: unknown = Object.getPrototypeOf(shared);
    onTestFinished(() => void Object.setPrototypeOf(shared, parent as object));
  }
  return app as unknown as DispatchFunc;
}

function fastifyApp(): DispatchFunc {
  const app = fastify();
  app.register(stevedore, { prefix: '/photos', store });
  onTestFinished(() => app.close());
  return (request, response) => void app.ready().then(() => app.routing(request, response));
}

const apps: readonly (readonly [string, () => DispatchFunc])[] = [
  ['fastify', fastifyApp],
  ['express', expressApp],
  ['node:http', () => handler],
];

test.each(apps)('%s: 1 MB goes in and out by inject, at once and as a stream', async (_, make) => {
  const app = make();
  const headers = { 'content-type': 'image/jpeg' };
  const stored = await inject(app, { method: 'POST', url: '/photos', headers, payload: BYTES });
  expect(stored.statusCode).toBe(201);
  const url = `/photos/${stored.json<{ key: string }>().key}`;
  const got = await inject(app, { url });
  expect([got.statusCode, got.rawPayload.equals(BYTES)]).toEqual([200, true]);
  const streamed = await inject(app, { url, payloadAsStream: true });
  expect(Buffer.concat(await streamed.stream().toArray()).equals(BYTES)).toBe(true);
});

test('a socket of which nobody knows how much it has taken, as serverless adapters have', async () => {
  const { key } = await store.put(BYTES);
  const request = Object.assign(new IncomingMessage(new Socket()), { url: `/photos/${key}` });
  request.method = 'GET';
  const written: Buffer[] = [];
  const response = new ServerResponse(request);
  const ended = new Promise((resolve) => response.once('finish', resolve));
  const socket = {
    _writableState: {},
    writable: true,
    on: () => undefined,
    cork: () => undefined,
    uncork: () => undefined,
    destroy: () => undefined,
    write: (chunk: Buffer | string, encoding: unknown, done: unknown) => {
      written.push(Buffer.from(chunk as string));
      const then = typeof encoding === 'function' ? encoding : done;
      if (typeof then === 'function') then();
    },
  };
  response.assignSocket(socket as unknown as Socket);
  handler(request, response);
  await ended;
  expect(Buffer.concat(written).subarray(-BYTES.length).equals(BYTES)).toBe(true);
});

test('a client of HTTP/2 that takes nothing is waited for', async () => {
  const files = new Files({ store, limits: defaultTransferLimits });
  onTestFinished(() => files.close());
  const file = await store.get((await store.put(BYTES)).key);
  let heldBytes = () => 0;
  const server = createHttp2(async (asked, answer) => {
    const request = asked as unknown as IncomingMessage;
    heldBytes = () => answer.writableLength;
    files.send(answer as unknown as ServerResponse, await files.read(request, file));
  });
  const client = connectHttp2(await serving(server));
  onTestFinished(() => client.destroy());
  const stream = client.request({ ':path': '/' });
  await expect.poll(() => files.unsent.stats().stalled).toBe(1);
  expect(heldBytes()).toBeGreaterThan(0);
  expect(heldBytes()).toBeLessThan(BYTES.length / 4);
  expect(Buffer.concat(await stream.toArray()).equals(BYTES)).toBe(true);
  await expect.poll(() => files.unsent.stats()).toMatchObject({ stalled: 0, bytes: 0 });
});
