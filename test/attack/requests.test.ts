import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { RawConnection, raw, running } from '../gateway/harness.js';
import { attack, type Target } from './targets.js';

/** Attacks on the way requests are framed, paced and bounded. */

const SMUGGLED = 'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled';

describe('request smuggling', () => {
  const pairs: [string, string][] = [
    [
      'length and chunks',
      `POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    ],
    [
      'chunks behind another coding',
      `POST /files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked, chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    ],
    [
      'chunks whose lines end with LF alone',
      `POST /files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n${SMUGGLED}`,
    ],
    [
      'a chunk that is longer than it says',
      `POST /files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc0\r\n\r\n${SMUGGLED}`,
    ],
  ];
  const [[name, request]] = pairs as [[string, string]];
  attack(name, {}, async (target) => {
    const next = 'GET /none HTTP/1.1\r\nConnection: close\r\n\r\n';
    const { status } = await raw(target.port, request, next);
    return target.stored() > 0 || status === 201;
  });

  test.each(pairs)('%s: refused, the connection closed, nothing stored', async (_, pair) => {
    const gateway = await running();
    const { status, body } = await raw(gateway.port, pair);
    expect([status, JSON.parse(body).code]).toEqual([400, 'bad_request']);
    expect(gateway.store.files.size).toBe(0);
  });

  attack('two lengths', {}, async (target) => {
    const request = 'POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n';
    const answer = await raw(
      target.port,
      `${request}Content-Length: 5\r\nConnection: close\r\n\r\nabcde`,
      'GET /none HTTP/1.1\r\n\r\n',
    );
    // Strict or not, the parser of Node refuses this one: then a lie about the host has to do.
    if (answer.status !== 400) return true;
    const nameless = await raw(
      target.port,
      'POST /files HTTP/1.1\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx',
    );
    return nameless.status === 201;
  });
});

describe('slow clients', () => {
  const hasty = {
    limits: { headerTimeoutMs: 200, checkIntervalMs: 20, idleMs: 400 },
  };

  /** True if the server still waits when all the time it might give is long over. */
  async function endures(
    { patienceMs }: Target,
    connection: RawConnection,
    dribble: () => void,
  ): Promise<boolean> {
    const timer = setInterval(dribble, 20);
    const closed = connection.answer().then(() => false);
    const patience = new Promise<boolean>((resolve) => setTimeout(() => resolve(true), patienceMs));
    const result = await Promise.race([closed, patience]);
    clearInterval(timer);
    connection.socket.destroy();
    return result;
  }

  attack('headers a byte at a time', hasty, async (target) => {
    const connection = new RawConnection(target.port);
    void connection.send('GET / HTTP/1.1\r\nHost: x\r\n');
    return endures(target, connection, () => connection.socket.write('X'));
  });

  attack(
    'more connections than there is room for',
    { limits: { maxConnections: 4 } },
    async ({ port }) => {
      const connections: RawConnection[] = [];
      for (let count = 0; count < 12; count += 1) {
        const connection = new RawConnection(port);
        connections.push(connection);
        void connection.send('GET /files/none HTTP/1.1\r\nHost: x\r\n\r\n');
        // Connections without a request make room: every client is answered.
        await connection.sees(/HTTP\/1\.1 \d/);
      }
      await sleep(100);
      const open = connections.filter(({ closed }) => !closed).length;
      for (const { socket } of connections) socket.destroy();
      return open > 4;
    },
  );
});
