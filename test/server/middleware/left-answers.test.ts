import { once } from 'node:events';
import { get, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect, createServer } from 'node:http2';
import { connect as connectTo } from 'node:net';
import { deferred } from '@stevedore/async';
import type { Store, StoredFile } from '@stevedore/client';
import { defaultTransferLimits, Files } from '@stevedore/middleware/core';
import { expect, onTestFinished, test, vi } from 'vitest';
import { serving } from '../../support/serving.js';
import { soon } from '../../support/soon.js';

/** An answer gives back its memory, even if its client leaves early or somebody else answers first. */

const SIZE = 4_000_000;

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

function setup() {
  const files = new Files({ store: {} as Store, limits: defaultTransferLimits, onError: () => {} });
  onTestFinished(() => files.close());
  const bytes = deferred<Buffer>();
  const about = { key: 'k', etag: '"e"', size: SIZE, type: 'text/plain', name: 'name' };
  const content = vi.fn(() => bytes.promise);
  const file = { ...about, stagedAt: new Date(0), contentNow: () => undefined, content };
  return {
    files,
    reading: () => soon(() => expect(content).toHaveBeenCalled()),
    isRead: () => bytes.resolve(Buffer.alloc(SIZE)),
    answer: (request: IncomingMessage) => files.read(request, file as unknown as StoredFile),
    freed: () => soon(() => expect(files.unsent.stats()).toMatchObject({ bytes: 0, stalled: 0 })),
  };
}

/** Each asks, and returns how its client leaves. */
const CLIENTS = {
  'HTTP/1.1': async (handle: Handle) => {
    const asked = get(await serving(handle), { agent: false });
    asked.on('error', () => {});
    return () => void asked.destroy();
  },
  'HTTP/2': async (handle: Handle) => {
    const server = createServer((request, response) =>
      handle(request as unknown as IncomingMessage, response as unknown as ServerResponse),
    );
    const session = connect(await serving(server));
    onTestFinished(() => session.destroy());
    const asked = session.request({ ':path': '/' });
    asked.on('error', () => {});
    return () => asked.close(8);
  },
};

test.each(Object.entries(CLIENTS))(
  'of %s, whose client leaves while its file is read',
  async (_, ask) => {
    const { files, reading, isRead, answer, freed } = setup();
    const closed = deferred<void>();
    const sent = deferred<void>();
    const leave = await ask((request, response) => {
      response.once('close', () => closed.resolve());
      answer(request)
        .then((each) => files.send(response, each))
        .then(sent.resolve, sent.reject);
    });
    await reading();
    expect(files.unsent.stats().bytes).toBe(SIZE);
    leave();
    await closed.promise;
    isRead();
    await sent.promise.catch(() => {});
    await freed();
  },
);

test('whose client has said its last word and reads on', async () => {
  const { files, isRead, answer, freed } = setup();
  isRead();
  const sent = deferred<void>();
  const url = await serving((request, response) => {
    answer(request)
      .then((each) => files.send(response, each))
      .then(sent.resolve, sent.reject);
  });
  const socket = connectTo({ port: Number(new URL(url).port), allowHalfOpen: true });
  const closed = once(socket, 'close');
  socket.on('error', () => {});
  socket.on('end', () => socket.destroy());
  socket.resume();
  socket.end('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await sent.promise;
  await closed;
  await freed();
});

test('that somebody else has answered meanwhile', async () => {
  const { files, reading, isRead, answer, freed } = setup();
  const sent = deferred<void>();
  await CLIENTS['HTTP/1.1']((request, response) => {
    answer(request)
      .then((each) => files.send(response, each))
      .then(sent.resolve, sent.reject);
    void reading().then(() => {
      response.end('too late');
      isRead();
    });
  });
  await expect(sent.promise).rejects.toMatchObject({ code: 'ERR_HTTP_HEADERS_SENT' });
  await freed();
});

test.each([
  ['short', 'text/plain', 1000],
  ['long', 'text/plain', 2 ** 30],
  ['form', 'multipart/form-data; boundary=b', 1000],
])('a %s upload whose client has left before it is read is no fault', async (_, type, length) => {
  const { files } = setup();
  const outcome = deferred<unknown>();
  const url = await serving((request, response) => {
    request.on('error', () => {});
    request.once('close', () => {
      const how = { policy: {}, scope: '', client: () => '' };
      files.upload(request, response, how).then(outcome.resolve, outcome.reject);
    });
    asked.destroy();
  });
  const headers = { 'content-type': type, 'content-length': length };
  const asked = request(url, { method: 'POST', agent: false, headers });
  asked.on('error', () => {});
  asked.write('part');
  await expect(outcome.promise).rejects.toMatchObject({ code: 'aborted' });
});
