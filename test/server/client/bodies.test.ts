import { mkdirSync, openAsBlob, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import { connect as connectTo } from 'node:net';
import { join } from 'node:path';
import { Duplex, PassThrough, Readable, Stream, Writable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Body, FileStore, Receipt, Store } from '@stevedore/client';
import FormData from 'form-data';
import { describe, expect, test } from 'vitest';
import { serving as serve } from '../../support/serving.js';
import { until } from '../../support/staging.js';
import { openStore, stores } from '../../support/store.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

/** Every kind of body, each with the same text; what yields it once, with a way to begin it. */

const TEXT = 'Grüße, 🚢!';
const BYTES = Buffer.from(TEXT);
/** Without types of its own. */
const { JSDOM } = createRequire(import.meta.url)('jsdom') as {
  JSDOM: new (html: string) => { readonly window: { readonly File: typeof File } };
};
const { window } = new JSDOM('');
const HALVES = [BYTES.subarray(0, 8), BYTES.subarray(8)];

interface Kind {
  readonly name: string;
  readonly make: () => Body | Promise<Body>;
}

const again: readonly Kind[] = [
  { name: 'a string', make: () => TEXT },
  { name: 'a Buffer', make: () => BYTES },
  { name: 'an ArrayBuffer', make: () => new Uint8Array(BYTES).buffer },
  {
    name: 'a SharedArrayBuffer',
    make: () => {
      const shared = new SharedArrayBuffer(BYTES.length);
      new Uint8Array(shared).set(BYTES);
      return shared;
    },
  },
  { name: 'a DataView', make: () => new DataView(new Uint8Array(BYTES).buffer) },
  { name: 'an array of 16-bit numbers', make: () => new Uint16Array(new Uint8Array(BYTES).buffer) },
  { name: 'a Blob', make: () => new Blob([TEXT]) },
  { name: 'a File', make: () => new File([TEXT], 'a.txt') },
  { name: 'a File of jsdom', make: () => new window.File([TEXT], 'a.txt') },
  {
    name: 'a Blob of a file',
    make: () => {
      const path = join(temporaryFolder(), 'a');
      writeFileSync(path, BYTES);
      return openAsBlob(path);
    },
  },
  { name: 'an array of bytes', make: () => HALVES },
  { name: 'a set of texts', make: () => new Set(['Grüße,', ' 🚢!']) },
  { name: 'texts that cut a pair', make: () => ['Grüße, \ud83d', '\udea2!'] },
  {
    name: 'text and bytes',
    make: () => ['Grüße, ', new DataView(BYTES.buffer, BYTES.byteOffset + 9, 5)],
  },
  { name: 'an async iterable', make: () => ({ [Symbol.asyncIterator]: () => slowly() }) },
];

const once: readonly Kind[] = [
  { name: 'a generator', make: () => HALVES.values() },
  { name: 'an async generator', make: () => slowly() },
  { name: 'a Readable', make: () => Readable.from(HALVES) },
  { name: 'a Readable of texts', make: () => Readable.from(['Grüße', ', 🚢!']) },
  { name: 'a Readable with an encoding', make: () => bytesOf().setEncoding('utf8') },
  { name: 'a Readable with another encoding', make: () => bytesOf().setEncoding('latin1') },
  { name: 'a Readable that waits', make: () => bytesOf().pause() },
  { name: 'a PassThrough that is full', make: () => filled(new PassThrough()) },
  {
    name: 'a PassThrough that is being filled',
    make: () => Readable.from(HALVES).pipe(new PassThrough()),
  },
  { name: 'a Duplex', make: () => Duplex.from(slowly()) },
  { name: 'a stream of a file', make: () => fileOf().then((file) => file.createReadStream()) },
  { name: 'a web stream', make: () => new Blob([TEXT]).stream() },
  {
    name: 'a web stream of text',
    make: () => new Blob([TEXT]).stream().pipeThrough(new TextDecoderStream()),
  },
  { name: 'a Response', make: () => new Response(TEXT) },
  { name: 'a Request', make: () => new Request('http://a/', { method: 'POST', body: TEXT }) },
  { name: 'an answer of fetch', make: async () => fetch(await serving()) },
  { name: 'an answer of node:http', make: async () => answerOf(await serving()) },
  { name: 'an old stream', make: () => oldStream() },
];

function bytesOf(): Readable {
  return Readable.from(HALVES, { objectMode: false });
}

function filled(stream: PassThrough): PassThrough {
  return stream.end(BYTES);
}

async function* slowly(): AsyncGenerator<Buffer> {
  for (const half of HALVES) {
    await turn();
    yield half;
  }
}

async function fileOf() {
  const path = join(temporaryFolder(), 'a');
  writeFileSync(path, BYTES);
  return open(path);
}

/** As streams were before node 0.10: it flows once it has a listener, and does not wait. */
function oldStream(): NodeJS.ReadableStream {
  const stream = Object.assign(new Stream(), { readable: true });
  const flow = () => {
    for (const half of HALVES) stream.emit('data', half);
    stream.readable = false;
    stream.emit('end');
  };
  stream.on('newListener', (name) => name === 'data' && setImmediate(flow));
  return stream as never;
}

const serving = (): Promise<string> => serve((_, response) => response.end(BYTES));

function answerOf(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, resolve).on('error', reject);
  });
}

async function contentOf(store: Store, { key }: Receipt): Promise<string> {
  return (await (await store.get(key)).bytes()).toString();
}

const used = { name: 'StoreError', code: 'body_used' };

async function expectNothing(behind: FileStore): Promise<void> {
  await until(() => behind.stats().uploadsInFlight === 0);
  expect(behind.stats()).toMatchObject({ stagedFiles: 0, stagedBytes: 0 });
}

describe.each(stores)('$name stores', async ({ opened }) => {
  const { store } = await opened({}, ofSuite);

  test('every kind of body, alone and as a part', async () => {
    for (const { name, make } of [...again, ...once]) {
      const receipt = await store.put(await make());
      expect([name, await contentOf(store, receipt)]).toEqual([name, TEXT]);
      const [part] = await store.putAll([{ body: await make() }]);
      expect([name, await contentOf(store, part!)]).toEqual([name, TEXT]);
    }
  });

  test('what can be read again as often as it is asked', async () => {
    for (const { make } of again) {
      const body = await make();
      const receipts = [await store.put(body), await store.put(body)];
      expect(receipts.map(({ size }) => size)).toEqual([BYTES.length, BYTES.length]);
    }
  });

  test('the form of form-data, once', async () => {
    const form = new FormData();
    form.append('file', Readable.from(HALVES), { filename: 'a.txt' });
    form.append('field', 'x');
    const content = await contentOf(store, await store.put(form));
    expect(content).toContain(`\r\n\r\n${TEXT}\r\n--${form.getBoundary()}`);
    await expect(store.put(form)).rejects.toMatchObject(used);
    const sent = new FormData();
    sent.append('field', 'x');
    sent.pipe(new PassThrough().resume());
    await expect(store.put(sent)).rejects.toMatchObject(used);
    const broken = new FormData();
    broken.append('file', new Readable({ read: () => broken.emit('error', new Error('gone')) }));
    await expect(store.put(broken)).rejects.toMatchObject({ code: 'aborted' });
  });

  test('each chunk as it was, although the next one has the same memory', async () => {
    async function* refilled() {
      const memory = Buffer.alloc(4);
      for (const letter of 'abc') yield memory.fill(letter);
    }
    expect(await contentOf(store, await store.put(refilled()))).toBe('aaaabbbbcccc');
  });

  test('a File keeps its name and type where the options have them undefined', async () => {
    const own = { name: 'a.txt', type: 'text/css' };
    const nothing = { name: undefined, type: undefined };
    for (const Any of [File, window.File]) {
      const file = new Any([TEXT], own.name, { type: own.type });
      expect(await store.put(file, nothing)).toMatchObject(own);
      expect(await store.putAll([{ body: file, ...nothing }])).toMatchObject([own]);
      expect(await store.put(file, { name: 'b.txt' })).toMatchObject({ ...own, name: 'b.txt' });
    }
    const blob = new Blob([TEXT], { type: own.type });
    expect(await store.put(blob)).toMatchObject({ name: '', type: own.type });
  });

  test('a body that an earlier call refused before reading it', async () => {
    const stream = Readable.from(HALVES);
    await expect(store.put(stream, { size: 2, maxBytes: 1 })).rejects.toMatchObject({
      code: 'too_large',
    });
    await expect(store.put(stream, { name: 5 as never })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    expect(await contentOf(store, await store.put(stream))).toBe(TEXT);
  });
});

describe.each(stores)('$name refuses', async ({ opened }) => {
  const { store, behind } = await opened({}, ofSuite);

  test('a second reading of what can be read once, even if two puts begin together', async () => {
    for (const { name, make } of once) {
      const body = await make();
      const results = await Promise.allSettled([store.put(body), store.put(body)]);
      const kept = results.filter(({ status }) => status === 'fulfilled');
      expect([name, kept.length]).toEqual([name, 1]);
      const { key } = (kept[0] as PromiseFulfilledResult<Receipt>).value;
      expect([name, await contentOf(store, { key } as Receipt)]).toEqual([name, TEXT]);
      const [failed] = results.filter(({ status }) => status === 'rejected');
      expect((failed as PromiseRejectedResult).reason).toMatchObject(used);
      await expect(store.put(body)).rejects.toMatchObject(used);
      await expect(store.putAll([{ body }])).rejects.toMatchObject(used);
      await store.delete(key);
    }
    await expectNothing(behind);
  });

  test('a body of which something is gone', async () => {
    const partly = Readable.from(HALVES);
    for await (const _ of partly.iterator({ destroyOnReturn: false })) break;
    const ended = new PassThrough().end().resume();
    await until(() => ended.readableEnded);
    const failed = new PassThrough().on('error', () => {});
    failed.destroy(new Error('gone'));
    const response = new Response(TEXT);
    await response.text();
    const streamOfResponse = new Response(TEXT);
    await streamOfResponse.text();
    const locked = new Blob([TEXT]).stream();
    locked.getReader();
    const released = new Blob([TEXT]).stream();
    const reader = released.getReader();
    await reader.read();
    reader.releaseLock();
    const cancelled = new Blob([TEXT]).stream();
    await cancelled.cancel();
    const oldAndOver = Object.assign(new Stream(), { readable: false });
    const bodies = {
      ...{ partly, ended, failed, response, locked, released, cancelled, oldAndOver },
      destroyed: new PassThrough().destroy(),
      streamOfResponse: streamOfResponse.body!,
      lockedResponse: lockedResponse(),
    };
    for (const [name, body] of Object.entries(bodies)) {
      const error = await store.put(body as Body).catch((reason) => reason);
      expect([name, error]).toEqual([name, expect.objectContaining(used)]);
      const part = store.putAll([{ body: 'a' }, { body: body as Body }]);
      await expect(part).rejects.toMatchObject(used);
    }
    await expectNothing(behind);
  });

  test('what is no body, and what yields something else', async () => {
    const refusal = { name: 'StoreError', code: 'invalid_option' };
    const writable = new Writable({ write: () => {} });
    const others = [undefined, null, 5, 5n, Symbol('a'), () => 'a', {}, new Date(), { path: '/a' }];
    for (const body of [...others, Promise.resolve('a'), writable, [1, 2], new Map([['a', 'b']])]) {
      await expect(store.put(body as never)).rejects.toMatchObject(refusal);
    }
    await expectNothing(behind);
  });

  test('a request or answer that is shorter than its Content-Length', async () => {
    const results: unknown[] = [];
    const url = await serve((request, response) => {
      // Something between takes bytes out, and the stream shows no sign of it.
      const read = request.read.bind(request);
      request.read = (size) => (read(size) as Buffer | null)?.subarray(1) ?? null;
      const done = (result: unknown) => response.end(String(results.push(result)));
      store.put(request).then(done, done);
    });
    await fetch(url, { method: 'POST', body: TEXT });
    expect(results).toEqual([expect.objectContaining({ code: 'length_mismatch' })]);
    const announced = store.put(await answerOf(await serving()), { size: 5 });
    await expect(announced).rejects.toMatchObject({ code: 'length_mismatch' });
    await expectNothing(behind);
  });

  test('a request whose client leaves', async () => {
    const results: unknown[] = [];
    let isRead = () => false;
    const url = await serve((request) => {
      isRead = () => request.readableDidRead;
      const done = (result: unknown) => results.push(result);
      store.put(request).then(done, done);
    });
    for (const head of [
      'Content-Length: 9\r\n\r\nabc',
      'Transfer-Encoding: chunked\r\n\r\n3\r\nabc',
    ]) {
      const socket = connectTo(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => {});
      socket.write(`POST / HTTP/1.1\r\nHost: a\r\n${head}`);
      await until(() => isRead());
      isRead = () => false;
      socket.destroy();
      await until(() => results.length === 1);
      expect(results.pop()).toMatchObject({ code: 'aborted' });
    }
    await expectNothing(behind);
  });
});

function lockedResponse(): Response {
  const response = new Response(TEXT);
  response.body!.getReader();
  return response;
}

describe.each(stores)('$name', async ({ opened }) => {
  const { store, behind } = await opened({}, ofSuite);

  test('survives a stream that fails before it is read', async () => {
    const stream = new PassThrough();
    const put = store.put(stream);
    stream.destroy(new Error('gone'));
    await expect(put).rejects.toMatchObject({ code: 'aborted' });
  });

  test('reports why a body failed, even if it cannot be stopped either', async () => {
    const broken = (chunk: () => IteratorResult<string>) => ({
      [Symbol.iterator]: () => ({
        next: chunk,
        return: () => {
          throw new Error('not stopped');
        },
      }),
    });
    const failing = broken(() => {
      throw new Error('gone');
    });
    await expect(store.put(failing)).rejects.toMatchObject({ code: 'aborted' });
    const endless = broken(() => ({ done: false, value: TEXT }));
    await expect(store.put(endless, { size: 20 })).rejects.toMatchObject({
      code: 'length_mismatch',
    });
  });

  test('stops a stalled stream when the upload is aborted', async () => {
    const stalled = new PassThrough();
    stalled.write('a');
    let isCancelled = false;
    const web = new ReadableStream({
      cancel: () => {
        isCancelled = true;
      },
    });
    for (const body of [stalled, web]) {
      const controller = new AbortController();
      const put = store.put(body, { signal: controller.signal });
      await until(
        () =>
          Readable.isDisturbed(body as Readable) || (body as { locked?: boolean }).locked === true,
      );
      controller.abort();
      await expect(put).rejects.toMatchObject({ code: 'aborted' });
    }
    expect(stalled.destroyed).toBe(true);
    await until(() => isCancelled);
    await expectNothing(behind);
  });

  test('leaves the connection of a refused request for the answer', async () => {
    const url = await serve((request, response) => {
      store.put(request, { maxBytes: 1000 }).catch(({ code }) => response.end(code));
    });
    const chunked = new Blob([Buffer.alloc(100_000)]).stream();
    for (const body of [Buffer.alloc(100_000), chunked]) {
      const answer = await fetch(url, { method: 'POST', body, duplex: 'half' } as RequestInit);
      expect(await answer.text()).toBe('too_large');
    }
  });

  test('putFile stores a file of the disk, with its name and length', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'Grüße #1.txt');
    writeFileSync(path, TEXT);
    const receipt = await store.putFile(path, { name: undefined });
    expect(receipt).toMatchObject({ name: 'Grüße #1.txt', size: BYTES.length });
    expect(await contentOf(store, receipt)).toBe(TEXT);
    const about = { name: 'other', type: 'text/plain', group: 'g' };
    expect(await store.putFile(pathToFileURL(path), about)).toMatchObject(about);
    for (const { key } of (await behind.list()).files) await store.delete(key);

    mkdirSync(join(folder, 'directory'));
    const refused = { name: 'StoreError', code: 'invalid_option' };
    for (const other of [join(folder, 'directory'), '/dev/null', new URL('http://a/b'), 5]) {
      await expect(store.putFile(other as string)).rejects.toMatchObject(refused);
    }
    await expect(store.putFile(join(folder, 'nothing'))).rejects.toMatchObject({ code: 'aborted' });
    // Its size is 0, and there is something to read.
    await expect(store.putFile('/proc/self/status')).rejects.toMatchObject({
      code: 'length_mismatch',
    });
    await expectNothing(behind);
  });
});

test('an unfinished upload takes every kind of body, and none twice', async () => {
  const { unfinished } = await openStore();
  for (const { name, make } of [...again, ...once]) {
    const { id } = await unfinished!.begin();
    expect([name, await unfinished!.append(id, 0, await make())]).toEqual([name, BYTES.length]);
  }
  const { id } = await unfinished!.begin();
  const body = Readable.from(HALVES);
  await unfinished!.append(id, 0, body);
  await expect(unfinished!.append(id, BYTES.length, body)).rejects.toMatchObject(used);
  expect(unfinished!.find(id)).toMatchObject({ offset: BYTES.length });
});

test('direct mode takes every kind of body, and none twice', async () => {
  const { trackers } = await testCluster();
  const store = await openStore({ trackers, directMaxWait: '20ms' });
  for (const { name, make } of [...again, ...once]) {
    const receipt = await store.put(await make(), { mode: 'direct' });
    expect([name, await contentOf(store, receipt)]).toEqual([name, TEXT]);
  }
  const body = Readable.from(HALVES);
  await store.put(body, { mode: 'direct' });
  await expect(store.put(body, { mode: 'direct' })).rejects.toMatchObject(used);
});
