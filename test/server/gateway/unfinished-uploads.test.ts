import type { IncomingMessage } from 'node:http';
import { defaultTransferLimits, ProgressGuard } from '@stevedore/middleware/core';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { RawConnection, raw, running, until } from '../../support/gateway/harness.js';

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

  /** A body of which so many bytes come before each check; some may wait for the store. */
  test.each([
    ['is given up when it slows down, however much came before', 5_000_000, 1, 0, true],
    ['is not given up as long as it keeps the rate', 200, 200, 0, false],
    ['is not blamed while the store takes its time', 0, 0, 1, false],
  ])('%s', (_, first, then, readableLength, isEnded) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const guard = new ProgressGuard({
      ...defaultTransferLimits,
      checkIntervalMs: 20,
      bodyWindowMs: 200,
      minBodyBytesPerSecond: 10_000,
    });
    const socket = { bytesRead: 0 };
    const onSlow = vi.fn();
    guard.watch({ socket, complete: false, readableLength } as IncomingMessage, onSlow);
    socket.bytesRead += first;
    for (let check = 0; check < 100; check += 1) {
      vi.advanceTimersByTime(20);
      socket.bytesRead += then;
    }
    guard.close();
    expect(onSlow).toHaveBeenCalledTimes(isEnded ? 1 : 0);
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
    const connection = new RawConnection(port);
    void connection.send('POST /files HTTP/1.1\r\nHost: x\r\nX-Slow: ');
    // However many bytes of them come.
    const timer = setInterval(() => connection.socket.write('x'), 10);
    onTestFinished(() => clearInterval(timer));
    const answer = await connection.answer();
    expect(answer.status).toBe(408);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'header_timeout' });
  });
});

test('a client with many unfinished uploads is refused more when they hold its share of the room', async () => {
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
