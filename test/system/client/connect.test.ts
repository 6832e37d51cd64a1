import { randomBytes } from 'node:crypto';
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { isStoreError, type Store } from '@stevedore/client';
import { type ConnectOptions, connect, GatewayRefusal } from '@stevedore/client/connect';
import { describe, expect, onTestFinished, test } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { TEST } from '../../support/paths.js';
import { serving } from '../../support/serving.js';
import { openGateway as gateway } from '../../support/store.js';

/** What only a store over HTTP has to get right; what it shares with `open()` is in store.test.ts. */

function connected(url: string, options: ConnectOptions = {}): Store {
  const store = connect({ url, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** A proxy in front of a gateway that does to the first connections what it is told. */
async function proxy(
  url: string,
  breaking: (count: number, inside: Socket, outside: Socket) => void,
) {
  const port = Number(new URL(url).port);
  let count = 0;
  const started = createServer((outside) => {
    const inside = connectSocket(port, '127.0.0.1');
    for (const socket of [inside, outside]) socket.on('error', () => undefined);
    outside.pipe(inside);
    inside.on('close', () => outside.destroy());
    outside.on('close', () => inside.destroy());
    count += 1;
    breaking(count, inside, outside);
  });
  return serving(started);
}

test('is loaded without a native module', () => {
  const script = `
    const { registerHooks } = await import('node:module');
    const refuse = (name) => { if (/better-sqlite3|koffi/.test(name)) throw new Error(name); };
    if (registerHooks) {
      registerHooks({ resolve(name, context, next) { refuse(name); return next(name, context); } });
    }
    const { connect } = await import('@stevedore/client/connect');
    await connect({ url: 'http://127.0.0.1:1', retryTime: 0 }).put('x').catch((e) => console.log(e.code));
    console.log(process.report.getReport().sharedObjects.filter((path) => path.endsWith('.node')).length);
  `;
  const args = ['--input-type=module', '--eval', script];
  const cwd = TEST;
  const said = execFileSync(process.execPath, args, { cwd, encoding: 'utf8' });
  expect(said.trim().split('\n')).toEqual(['storage_unavailable', '0']);
});

describe('uploads', () => {
  test('say all that headers and forms can hardly say', async () => {
    const { url } = await gateway();
    const store = connected(url);
    const expiresAt = new Date(Date.now() + 12_345_678);
    const odd = { name: ' a%22b"\r\n/ü.txt ', group: ' g\tü ', type: 'text/plain', expiresAt };
    const part = { name: '%22.bin', type: 'multipart/form-data; boundary=x', expiresAt };
    const receipts = [
      await store.put('odd', odd),
      await store.put('a form itself', part),
      ...(await store.putAll([{ body: '', ...part }, { body: 'b' }], { group: 'ä b' })),
    ];
    const files = await Promise.all(receipts.map(({ key }) => store.stat(key)));
    expect(files.map(({ idPending: _, ...facts }) => facts)).toEqual(receipts);
    expect(receipts).toMatchObject([odd, part, { ...part, group: 'ä b', size: 0 }, { name: '' }]);
  });

  test('arrive whole over a connection that breaks before the answer, and once', async () => {
    const behind = await gateway();
    let broken = 0;
    const url = await proxy(behind.url, (count, inside, outside) => {
      if (count > 2) inside.pipe(outside);
      else {
        inside.once('data', () => {
          broken += 1;
          outside.destroy();
        });
      }
    });
    const store = connected(url, { connections: 1 });
    const { key } = await store.put('once', { name: 'a.txt' });
    expect(broken).toBe(2);
    expect(behind.store.stats().stagedFiles).toBe(1);
    expect((await (await store.get(key)).bytes()).toString()).toBe('once');
  });

  test('of a stream or a form are repeated while little of them was read, and stored once', async () => {
    const behind = await gateway();
    let broken = 0;
    const url = await proxy(behind.url, (_, inside, outside) => {
      // As a proxy that closes a connection just when it is used again.
      inside.on('data', (answer) => {
        if (broken % 2 === 0) outside.destroy();
        else outside.write(answer);
        broken += 1;
      });
    });
    const store = connected(url, { connections: 1 });
    const chunks = [...'stream'].map((letter) => Buffer.from(letter));
    const body = async function* () {
      yield* chunks;
    };
    const { key } = await store.put(body());
    expect((await (await store.get(key)).bytes()).toString()).toBe('stream');
    const receipts = await store.putAll([{ body: 'one' }, { body: body() }]);
    expect(receipts).toMatchObject([{ size: 3 }, { size: 6 }]);
    expect(broken).toBeGreaterThanOrEqual(4);
    expect(behind.store.stats().stagedFiles).toBe(3);
    const long = async function* () {
      for (let sent = 0; sent < 100; sent += 1) yield Buffer.alloc(65_536);
    };
    const cut = await proxy(behind.url, (_, __, outside) => {
      let bytes = 0;
      outside.on('data', (chunk) => {
        bytes += chunk.length;
        if (bytes > 1_000_000) outside.destroy();
      });
    });
    await expect(connected(cut).put(long())).rejects.toMatchObject({
      code: 'storage_unavailable',
      retryable: true,
    });
    const away = connected('http://127.0.0.1:1', { retryTime: 200 });
    let isRead = false;
    const unread = (async function* () {
      isRead = true;
      yield Buffer.from('x');
    })();
    await expect(away.put(unread)).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(isRead).toBe(false);
  });

  test('pull a body no faster than the gateway takes it', async () => {
    const url = await serving((request) => void request.once('readable', () => undefined));
    const store = connected(url, { answerTimeout: 300, retryTime: 0 });
    let pulled = 0;
    const body = async function* () {
      for (; pulled < 2 ** 30; pulled += 2 ** 20) yield Buffer.alloc(2 ** 20);
    };
    // Nothing is read there: what fits into buffers of the system goes out, and no more.
    await expect(store.put(body())).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(pulled).toBeLessThan(64 * 2 ** 20);
  });

  test('whose bytes are stored wrongly are not acknowledged', async () => {
    const url = await serving((request, response) => {
      request.resume();
      const info = { name: '', type: 't/t', size: 5, crc32: '00000000', state: 'staged' };
      const receipt = { ...info, key: 'x', stagedAt: new Date().toISOString() };
      response.writeHead(201).end(JSON.stringify(receipt));
    });
    const put = connected(url).put('bytes');
    await expect(put).rejects.toMatchObject({ code: 'corrupt', retryable: true });
  });
});

describe('reads', () => {
  test('of wrong, cut or stalled bytes fail', async () => {
    const bytes = randomBytes(2_000_000);
    const behind = await gateway();
    const { key } = await behind.store.put(bytes);
    const small = await behind.store.put('small');
    const answers = {
      flipped: (part: Buffer) => Buffer.concat([part.subarray(0, -1), Buffer.of(part.at(-1)! ^ 1)]),
      cut: (part: Buffer) => part.subarray(0, part.length >> 1),
      stalled: () => undefined,
    };
    for (const [name, change] of Object.entries(answers)) {
      const url = await serving(async ({ url: path = '', headers }, response) => {
        const answer = await fetch(behind.url + path, {
          headers: { accept: String(headers.accept) },
        });
        const body = Buffer.from(await answer.arrayBuffer());
        const isFile = !path.endsWith('/info');
        response.writeHead(answer.status, { 'content-length': body.length });
        const sent = isFile ? change(body) : body;
        if (sent) response.write(sent);
        if (sent?.length === body.length) response.end();
        else if (sent) response.destroy();
        else response.flushHeaders();
      });
      const answerTimeout = name === 'stalled' ? '1s' : '30s';
      const store = connected(url, { answerTimeout, retryTime: 500 });
      const code = name === 'flipped' ? 'corrupt' : 'storage_unavailable';
      for (const each of [key, small.key]) {
        const file = await store.get(each);
        await expect(file.bytes(), name).rejects.toMatchObject({ code });
        await expect(buffer(file.stream()), name).rejects.toMatchObject({ code });
      }
    }
  });

  test('are made again where a connection breaks, and end when they are aborted', async () => {
    const behind = await gateway();
    const { key } = await behind.store.put('again');
    const url = await proxy(behind.url, (count, inside, outside) => {
      if (count % 2 === 1) inside.once('data', () => outside.destroy());
      else inside.pipe(outside);
    });
    expect((await (await connected(url).get(key)).bytes()).toString()).toBe('again');
    const deaf = connected(await serving(() => undefined));
    const controller = new AbortController();
    const get = deaf.get(key, { signal: controller.signal });
    controller.abort();
    await expect(get).rejects.toMatchObject({ code: 'aborted' });
    const late = connected(await serving(() => undefined), { answerTimeout: 50, retryTime: 200 });
    await expect(late.stat(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  test('believe "not found" of a gateway alone', async () => {
    const answers: [number, string, string][] = [
      [404, '<html>nginx</html>', 'storage_unavailable'],
      [404, '{"code":"not_found","detail":"There is no such file."}', 'not_found'],
      [502, '<html>nginx</html>', 'storage_unavailable'],
      [413, '<html>nginx</html>', 'too_large'],
      [200, '{"hello":"world"}', 'storage_unavailable'],
      [200, 'null', 'storage_unavailable'],
      [401, '{"code":"unauthorized","detail":"A key."}', 'refused'],
      [500, '{"code":"corrupt","detail":"No copy."}', 'corrupt'],
      [503, '{"code":"partner_away","detail":"No partner."}', 'partner_away'],
    ];
    for (const [status, body, code] of answers) {
      const url = await serving((_, response) => void response.writeHead(status).end(body));
      const failure = await connected(url, { retryTime: 0 })
        .stat('AAAAAAAAAAAAAAAAAAAAAA')
        .catch((error) => error);
      expect(isStoreError(failure), `${status} ${body}`).toBe(true);
      expect(failure.code, `${status} ${body}`).toBe(code);
      if (status >= 300) expect(failure.cause).toBeInstanceOf(GatewayRefusal);
    }
  });
});

test('a deletion whose answer was lost is made, and one of nothing is "not found"', async () => {
  const behind = await gateway();
  const { key } = await behind.store.put('gone');
  const url = await proxy(behind.url, (count, inside, outside) => {
    if (count === 1) inside.once('data', () => outside.destroy());
    else inside.pipe(outside);
  });
  const store = connected(url);
  await store.delete(key);
  await expect(behind.store.get(key)).rejects.toMatchObject({ code: 'not_found' });
  await expect(store.delete(key)).rejects.toMatchObject({ code: 'not_found' });
});

test('an upload that was marked is found by nobody else’s Idempotency-Key', async () => {
  const { url } = await gateway();
  const store = connected(url);
  const mark = randomBytes(16);
  const receipt = await store.put('marked', { once: mark });
  expect(await store.put('marked', { once: mark })).toEqual(receipt);
  expect(await store.findOnce(mark)).toEqual([receipt]);
  await expect(store.put('other', { once: mark })).rejects.toMatchObject({ code: 'refused' });
  await fetch(`${url}/files`, {
    method: 'POST',
    body: 'x',
    headers: { 'idempotency-key': mark.toString('base64url') },
  });
  expect(await store.findOnce(mark)).toEqual([receipt]);
});

test('a refusal is waited out as long as it asks, within the time for retries', async () => {
  const { url: behind } = await gateway();
  const refusing = async (): Promise<{ readonly url: string; readonly asked: () => number }> => {
    let asked = 0;
    const url = await serving(async (request, response) => {
      asked += 1;
      const body = await buffer(request);
      if (asked === 1) {
        response.writeHead(503, { 'retry-after': '1' }).end();
        return;
      }
      const answer = await fetch(`${behind}/files`, { method: 'POST', body });
      response.writeHead(answer.status).end(await answer.text());
    });
    return { url, asked: () => asked };
  };
  const patient = await refusing();
  expect((await connected(patient.url).put('waited')).size).toBe(6);
  expect(patient.asked()).toBe(2);
  const hasty = await refusing();
  const put = connected(hasty.url, { retryTime: 500 }).put('not waited');
  await expect(put).rejects.toMatchObject({ code: 'storage_unavailable', retryable: true });
  expect(hasty.asked()).toBe(1);
});

test('options that are none are refused at once', () => {
  for (const options of [
    { url: 'ftp://x' },
    { url: 'nothing' },
    { url: 'http://x/?a' },
    { apiKey: 'ü' },
    { connections: 0 },
    { timeout: 5 } as ConnectOptions,
  ]) {
    expect(() => connect(options)).toThrow(expect.objectContaining({ code: 'invalid_option' }));
  }
});

test('closing lets uploads end and refuses all else', async () => {
  const { url } = await gateway();
  const store = connect({ url });
  const put = store.put(randomBytes(3_000_000));
  const closed = store.close();
  await expect(store.put('x')).rejects.toMatchObject({ code: 'closed' });
  await expect(store.get('AAAAAAAAAAAAAAAAAAAAAA')).rejects.toMatchObject({ code: 'closed' });
  expect((await put).size).toBe(3_000_000);
  await closed;
});
