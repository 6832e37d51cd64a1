import { describe, expect, test } from 'vitest';
import { RawConnection, raw, running, until } from './harness.js';

/** Uploads that do not end: clients that go, are slow, or begin too many. */

describe('a client that goes in mid-upload', () => {
  test.each([
    ['with a length', 'Content-Length: 10000000', 'x'.repeat(200_000)],
    ['with chunks', 'Transfer-Encoding: chunked', `30d40\r\n${'x'.repeat(200_000)}\r\n`],
  ])('%s: the store is told and keeps nothing', async (_, framing, body) => {
    const { port, store, serverErrors } = await running();
    const connection = new RawConnection(port);
    await connection.send(`POST /files HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n${body}`);
    await until(() => store.received >= 200_000);
    expect(store.uploadsInFlight).toBe(1);
    connection.socket.resetAndDestroy();
    await until(() => store.uploadsInFlight === 0);
    expect(store.aborted).toBe(1);
    expect(store.files.size).toBe(0);
    expect(serverErrors).toEqual([]);
  });
});

describe('a slow client', () => {
  const hurried = {
    limits: {
      checkIntervalMs: 20,
      bodyWindowMs: 40,
      headerTimeoutMs: 60,
      minBodyBytesPerSecond: 1e9,
    },
  };

  test.each(['1000', '1000000'])('with a body of %s bytes is given up', async (length) => {
    const { port, store } = await running(hurried);
    const answer = await raw(
      port,
      `POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\nx`,
    );
    expect(answer.status).toBe(408);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'body_too_slow' });
    expect(store.uploadsInFlight).toBe(0);
    expect(store.files.size).toBe(0);
  });

  test('is given up when it slows down, however much came before', async () => {
    const limits = { checkIntervalMs: 20, bodyWindowMs: 200, minBodyBytesPerSecond: 10_000 };
    const { port, store } = await running({ limits });
    const connection = new RawConnection(port);
    const head = 'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n';
    await connection.send(head + 'x'.repeat(5_000_000));
    const dribble = setInterval(() => void connection.send('x'), 20);
    const answer = await connection.answer();
    clearInterval(dribble);
    expect(answer.status).toBe(408);
    expect(store.uploadsInFlight).toBe(0);
  });

  test('is not given up as long as it keeps the rate', async () => {
    const limits = { checkIntervalMs: 20, bodyWindowMs: 100, minBodyBytesPerSecond: 10_000 };
    const { port } = await running({ limits });
    const connection = new RawConnection(port);
    const head = 'POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n';
    await connection.send(`${head}Content-Length: 200000\r\n\r\n`);
    for (let sent = 0; sent < 200_000; sent += 10_000) {
      await connection.send('x'.repeat(10_000));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect((await connection.answer()).status).toBe(201);
  });

  test.each(['Content-Length: 1000000', 'Transfer-Encoding: chunked'])(
    'with a body (%s) where none is wanted is answered, and not waited for',
    async (framing) => {
      const { port, store } = await running();
      const { key } = await store.put('stored');
      for (const line of ['GET /health/live', `GET /files/${key}`, `DELETE /files/${key}`]) {
        const head = `${line} HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`;
        const answer = await raw(port, head);
        expect(answer.status).toBe(line.startsWith('DELETE') ? 204 : 200);
        expect(answer.head).toMatch(/^connection: close\r?$/im);
      }
    },
  );

  test('with headers that never end is given up', async () => {
    const { port } = await running(hurried);
    const answer = await raw(port, 'POST /files HTTP/1.1\r\nHost: x\r\nX-Slow: ');
    expect(answer.status).toBe(408);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'header_timeout' });
  });

  test('is not blamed while the store takes its time', async () => {
    const { url, store } = await running(hurried);
    let open = (): void => {};
    store.gate = new Promise((resolve) => {
      open = resolve;
    });
    const upload = fetch(`${url}/files`, { method: 'POST', body: Buffer.alloc(300_000) });
    await new Promise((resolve) => setTimeout(resolve, 200));
    open();
    expect((await upload).status).toBe(201);
  });
});

describe('a client with many unfinished uploads', () => {
  test('is refused more when they hold its share of the room', async () => {
    const { port, url, store } = await running({ limits: { maxClientBytes: 1_000_000 } });
    const head = 'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n';
    const first = new RawConnection(port);
    await first.send(head + 'x'.repeat(600_000));
    await until(() => store.received >= 600_000);
    const second = new RawConnection(port);
    await second.send(head + 'x'.repeat(600_000));
    const answer = await second.answer();
    expect(answer.status).toBe(429);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'client_room_exceeded' });
    expect(answer.head).toMatch(/^retry-after: \d+\r?$/im);
    await first.send('x'.repeat(300_000));
    expect(await first.sees(/201 Created/)).toContain('201');
    const body = Buffer.alloc(900_000);
    expect((await fetch(`${url}/files`, { method: 'POST', body })).status).toBe(201);
  });
});
