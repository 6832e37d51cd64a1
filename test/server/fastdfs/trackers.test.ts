import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { fin, otherEndOf, replyFrame, stall } from '../../support/cluster/index.js';
import { clientOf, failure, goodServer } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';

/** An address where nobody listens. */
async function deadAddress(): Promise<string> {
  const server = await goodServer();
  const { address } = server;
  await server.close();
  return address;
}

describe('several trackers', () => {
  it('are asked in turn', async () => {
    const servers = [await goodServer(), await goodServer(), await goodServer()];
    const client = clientOf(servers.map((server) => server.address));
    for (let round = 0; round < 9; round++) await client.ping();
    expect(servers.map((server) => server.count(111))).toEqual([3, 3, 3]);
  });

  it('stand in for one that is dead', async () => {
    const alive = await goodServer();
    const client = clientOf([await deadAddress(), alive.address]);
    for (let round = 0; round < 5; round++) {
      expect(await client.upload(HELLO)).toBe(HELLO_ID);
      expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
    }
  });

  it('stand in for one that hangs, within the deadline of the call', async () => {
    const hanging = await goodServer();
    let limitMs: number | undefined;
    hanging.answers.set(101, (received, good) => {
      limitMs = otherEndOf(received.socket).timeout;
      stall.answer(received, good);
    });
    const alive = await goodServer();
    const client = clientOf([hanging.address, alive.address]);
    // The progress timeout alone is longer than the whole call may last.
    const deadlineMs = 20_000;
    expect(await client.upload(HELLO, { deadlineMs })).toBe(HELLO_ID);
    expect(limitMs).toBeLessThan(deadlineMs);
    // While it is paused it is asked last, which is not at all.
    expect(await client.upload(HELLO, { deadlineMs })).toBe(HELLO_ID);
    expect(hanging.count(101)).toBe(1);
  });

  it('are asked again after their pause', async () => {
    const first = await goodServer();
    const second = await goodServer();
    first.answers.set(111, fin.answer);
    const client = clientOf([first.address, second.address]);
    await client.ping();
    expect([first.count(111), second.count(111)]).toEqual([1, 1]);
    first.answers.clear();
    while (first.count(111) < 2) {
      await client.ping();
      await nextTurn();
    }
  });

  it('are asked although all of them are paused', async () => {
    const only = await goodServer();
    only.answers.set(111, fin.answer);
    const client = clientOf([await deadAddress(), only.address]);
    for (let round = 0; round < 3; round++) {
      expect(await failure(client.ping())).toMatchObject({ code: 'no_tracker', retryable: true });
    }
    only.answers.clear();
    await client.ping();
  });

  it('do not stand in for one that answered an error', async () => {
    const first = await goodServer();
    const second = await goodServer();
    first.answers.set(101, ({ socket }) => socket.write(replyFrame(28)));
    const client = clientOf([first.address, second.address]);
    expect(await failure(client.upload(HELLO))).toMatchObject({
      code: 'no_space',
      status: 28,
      address: first.address,
    });
    expect(second.count(101)).toBe(0);
  });

  it('that are all dead end the call with no_tracker', async () => {
    const client = clientOf([await deadAddress(), await deadAddress()]);
    const error = await failure(client.upload(HELLO));
    expect(error.code).toBe('no_tracker');
    expect(error.cause).toMatchObject({ code: 'connect_failed' });
  });
});

it('addresses may be names', async () => {
  const server = await goodServer();
  await clientOf(`localhost:${server.server.port}`).ping();
});
