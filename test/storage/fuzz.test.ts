import { connect, type Socket } from 'node:net';
import { queryStore, REPLY_COMMAND } from '@stevedore/protocol';
import { expect, it } from 'vitest';
import { type Recorded, recorded, type VectorFile } from './replay.js';
import { type RawClient, storageOf, trackerOf, until } from './support.js';

/**
 * Recorded requests, changed at random, over a handful of sockets: the daemons
 * answer in frames or close, serve everybody else, and keep no connection.
 */

/** Together more than 100,000; a storage takes longer, as it closes after each refusal. */
const FRAMES = { tracker: 85_000, storage: 16_000 } as const;
const SOCKETS = 8;
/** Frames sent before the answers are waited for. A storage closes after its first refusal. */
const BURST = { tracker: 50, storage: 6 } as const;

/** A small generator that gives the same numbers for the same seed (mulberry32). */
function randomOf(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

function requests(server: Recorded['server']): Buffer[] {
  const files: VectorFile[] =
    server === 'tracker'
      ? ['tracker', 'tracker-ids', 'storage-to-tracker', 'errors-raw']
      : ['storage', 'storage-ids', 'storage-to-storage', 'errors-raw'];
  return files
    .flatMap((file) => recorded(file))
    .filter((each) => each.server === server)
    .map((each) => Buffer.from(each.request_hex, 'hex'));
}

/** One to four changes of the body, the command or the status; sometimes of the length. */
function mutate(original: Buffer, random: (limit: number) => number): Buffer {
  let frame = Buffer.from(original);
  for (let left = 1 + random(4); left > 0; left--) {
    switch (random(6)) {
      case 0:
        frame.writeUInt8(random(256), 8 + random(2));
        break;
      case 1: {
        const cut = 10 + random(frame.length - 9);
        frame = Buffer.from(frame.subarray(0, cut));
        break;
      }
      case 2:
        frame = Buffer.concat([frame, Buffer.alloc(random(64), random(256))]);
        break;
      default:
        if (frame.length > 10) frame.writeUInt8(random(256), 10 + random(frame.length - 10));
    }
  }
  // Mostly a true length, so that what follows is a request again.
  if (random(50) === 0) frame.writeBigUInt64BE(BigInt(random(2 ** 32)) << BigInt(random(33)), 0);
  else frame.writeBigInt64BE(BigInt(frame.length - 10), 0);
  return frame;
}

/** Sends a burst and resolves when the server has answered all, closed, or said nothing more. */
function burst(port: number, frames: readonly Buffer[]): Promise<{ answers: number; ok: boolean }> {
  return new Promise((resolve) => {
    const socket: Socket = connect({ host: '127.0.0.1', port, noDelay: true });
    let received = Buffer.alloc(0);
    let answers = 0;
    let ok = true;
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 10) {
        ok &&= received[8] === REPLY_COMMAND;
        const bytes = Number(received.readBigInt64BE(0));
        if (received.length < 10 + bytes) break;
        received = received.subarray(10 + bytes);
        answers += 1;
      }
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve({ answers, ok }));
    // The end of the sending side makes the server close once it has answered.
    socket.end(Buffer.concat(frames));
  });
}

it.each(['tracker', 'storage'] as const)(
  'a %s survives tens of thousands of mutated requests',
  { timeout: 120_000 },
  async (server) => {
    const daemon =
      server === 'tracker'
        ? await trackerOf({ closeTimeoutMs: 1000, maxConnections: SOCKETS + 2 })
        : await storageOf({ closeTimeoutMs: 1000, maxConnections: SOCKETS + 2 });
    const watcher: RawClient = await daemon.connect();
    const originals = requests(server);
    const random = randomOf(20_261_121);
    let answers = 0;
    const worker = async (_: unknown, index: number): Promise<void> => {
      while (answers < FRAMES[server]) {
        const count = 1 + random(BURST[server]);
        const frames = Array.from({ length: count }, () =>
          mutate(originals[random(originals.length)]!, random),
        );
        const result = await burst(daemon.port, frames);
        expect(result.ok).toBe(true);
        answers += result.answers;
        if (index === 0) expect(await watcher.isOpen()).toBe(true);
      }
    };
    await Promise.all(Array.from({ length: SOCKETS }).map(worker));
    expect(answers).toBeGreaterThanOrEqual(FRAMES[server]);
    // As many as may be at a time can connect again: none of the fuzz's is left.
    await until(async () => {
      const clients = await Promise.all(Array.from({ length: SOCKETS }, () => daemon.connect()));
      const open = await Promise.all(clients.map((client) => client.isOpen()));
      for (const client of clients) client.socket.destroy();
      return open.every(Boolean);
    });
    if ('errors' in daemon) {
      expect(daemon.errors).toEqual([]);
      const content = Buffer.from('still serving');
      expect((await (await daemon.connect()).upload(content)).group).toBe('group1');
    } else {
      expect([0, 2, 28]).toContain((await watcher.ask(queryStore, undefined)).status);
    }
  },
);
