import { connect, type Socket } from 'node:net';
import { queryStore, REPLY_COMMAND } from '@stevedore/protocol';
import { expect, it } from 'vitest';
import { Random } from '../../support/random.js';
import { type Recorded, recorded, type VectorFile } from '../../support/storage/replay.js';
import { type RawClient, storageOf, trackerOf, until } from '../../support/storage/support.js';

/**
 * Recorded requests, changed at random, over a handful of sockets: the daemons
 * answer in frames or close, serve everybody else, and keep no connection.
 * STEVEDORE_TEST_FRAMES says how many; in continuous integration it is thirty times as many.
 */

/** A storage takes longer, as it closes after each refusal. */
const ALL_FRAMES = Number(process.env.STEVEDORE_TEST_FRAMES ?? 30_000);
const FRAMES = { tracker: ALL_FRAMES / 8, storage: ALL_FRAMES / 30 } as const;
const SEED = 20_261_121;
const SOCKETS = 8;
/** Frames sent before the answers are waited for. A storage closes after its first refusal. */
const BURST = { tracker: 50, storage: 6 } as const;

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
function mutate(original: Buffer, random: Random): Buffer {
  let frame = Buffer.from(original);
  for (let left = 1 + random.below(4); left > 0; left--) {
    switch (random.below(6)) {
      case 0:
        frame.writeUInt8(random.below(256), 8 + random.below(2));
        break;
      case 1: {
        const cut = 10 + random.below(frame.length - 9);
        frame = Buffer.from(frame.subarray(0, cut));
        break;
      }
      case 2:
        frame = Buffer.concat([frame, Buffer.alloc(random.below(64), random.below(256))]);
        break;
      default:
        if (frame.length > 10)
          frame.writeUInt8(random.below(256), 10 + random.below(frame.length - 10));
    }
  }
  // Mostly a true length, so that what follows is a request again.
  if (random.below(50) === 0)
    frame.writeBigUInt64BE(BigInt(random.below(2 ** 32)) << BigInt(random.below(33)), 0);
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
  'a %s survives thousands of mutated requests',
  { timeout: 1_200_000 },
  async (server) => {
    const start = server === 'tracker' ? trackerOf : storageOf;
    const daemon = await start({ closeTimeoutMs: 1000, maxConnections: SOCKETS + 2 });
    const watcher: RawClient = await daemon.connect();
    const originals = requests(server);
    const random = new Random(SEED);
    let answers = 0;
    const worker = async (_: unknown, index: number): Promise<void> => {
      while (answers < FRAMES[server]) {
        const count = 1 + random.below(BURST[server]);
        const frames = Array.from({ length: count }, () => mutate(random.pick(originals), random));
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
