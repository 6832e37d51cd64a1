import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import * as protocol from '@stevedore/protocol';
import { ReceivedReply } from '@stevedore/wire';
import { describe, expect, it } from 'vitest';
import { namedFile } from '../../../packages/fastdfs/dist/operations/upload.js';
import { type Answer, replyFrame } from '../../support/cluster/index.js';
import { clientOf, until } from '../../support/fastdfs.js';
import { HELLO } from '../../support/good-server.js';
import { Random } from '../../support/random.js';
import { clusterSetup } from '../../support/test-cluster.js';
import { frameVectors } from '../../support/vectors.js';

/**
 * Replies damaged in every way, through the client's reply path. What comes out is a
 * value or an error of ours; nothing hangs, grows or stays open. STEVEDORE_TEST_FRAMES says
 * how many; in continuous integration it is thirty times as many.
 */

const SEED = 20_260_731;
const FRAMES = Number(process.env.STEVEDORE_TEST_FRAMES ?? 30_000);
const SOCKET_FRAMES = Math.round(FRAMES / 180);

/** True if a client would connect to a host of a damaged address. */
function leadsElsewhere(command: number, frame: Buffer): boolean {
  try {
    const end = protocol.HEADER_BYTES + protocol.decodeHeader(frame).bodyBytes;
    const value = DECODERS.get(command)?.(frame.subarray(protocol.HEADER_BYTES, end));
    const named = JSON.stringify(value)?.matchAll(/"address":"([^"]*)"/g) ?? [];
    return [...named].some(([, host = '']) => !/^127\.0\.0\.[12]$/.test(host));
  } catch (error) {
    if (error instanceof protocol.ProtocolError) return false;
    throw error;
  }
}

setFlagsFromString('--expose_gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

interface Sample {
  readonly frame: Buffer;
  readonly decode: (body: Buffer) => unknown;
}

const DECODERS = new Map<number, (body: Buffer) => unknown>(
  [
    protocol.queryStore,
    protocol.queryStoreInGroup,
    protocol.queryFetch,
    protocol.queryUpdate,
    protocol.queryFetchAll,
    protocol.queryStoreAll,
    protocol.activeTest,
    protocol.listAllGroups,
    protocol.listStorage,
    protocol.queryFileInfo,
    protocol.deleteFile,
    protocol.appendFile,
    protocol.modifyFile,
    protocol.truncateFile,
    protocol.setMetadata,
  ].map(({ code, reply }) => [code, (body: Buffer): unknown => reply.decode(body)]),
);
for (const command of [
  protocol.uploadFile,
  protocol.uploadAppenderFile,
  protocol.uploadSlaveFile,
  protocol.regenerateAppender,
]) {
  const named = namedFile(command.reply);
  DECODERS.set(command.code, (body) => named.decode(body));
}
DECODERS.set(protocol.getMetadata.code, protocol.decodeMetadata);
DECODERS.set(protocol.downloadFile.code, (body) => body);

/** Replies that send the request back; only the client that sent it can tell. */
const ECHOED = /zero_bytes|same_size/;

/** Recorded replies, and lists of several servers, of which none were recorded. */
function samples(): Sample[] {
  const recorded = (['tracker', 'storage', 'storage-changes'] as const).flatMap((file) =>
    frameVectors(file).flatMap(({ op, cmd, response_hex }) => {
      const decode = DECODERS.get(cmd);
      return decode && response_hex && !ECHOED.test(op)
        ? [{ frame: Buffer.from(response_hex, 'hex'), decode }]
        : [];
    }),
  );
  const servers = [1, 2, 3].map((last) => ({ address: `10.0.0.${last}`, port: 23_000 }));
  const lists = (['narrow', 'wide'] as const).flatMap((width) => {
    const fetch = { group: 'group1', servers };
    const store = { ...fetch, storePathIndex: 0 };
    return [
      [protocol.queryFetchAll.code, protocol.queryFetchAll.reply.encode(fetch, width)] as const,
      [protocol.queryStoreAll.code, protocol.queryStoreAll.reply.encode(store, width)] as const,
    ];
  });
  const made = lists.map(([code, body]) => ({
    frame: replyFrame(0, body),
    decode: DECODERS.get(code)!,
  }));
  return [...recorded, ...made].filter(({ frame }) => frame.length <= 4096);
}

/** One to four damages: bits, bytes, lengths, cuts, repetitions. */
function damaged(frame: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(frame);
  for (let left = 1 + random.below(4); left > 0 && bytes.length > 0; left--) {
    const at = random.below(bytes.length);
    switch (random.below(8)) {
      case 0:
        bytes[at] = bytes[at]! ^ (1 << random.below(8));
        break;
      case 1:
        bytes[at] = random.below(256);
        break;
      case 2:
        bytes = bytes.subarray(0, at);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(random.below(bytes.length))]);
        break;
      case 4:
        bytes = Buffer.concat([bytes, bytes.subarray(at)]);
        break;
      case 5:
        if (bytes.length >= 8) bytes.writeBigInt64BE(BigInt(random.below(600)), 0);
        break;
      case 6:
        // The announced length fits again, so that the damage reaches the codec.
        if (bytes.length >= 10) bytes.writeBigInt64BE(BigInt(bytes.length - 10), 0);
        break;
      default:
        bytes.subarray(at, at + random.below(9)).fill(random.pick([0, 0xff, 0x7f, 0x01]));
    }
  }
  return bytes;
}

/** Feeds a reply in pieces, as a socket would; tells what became of it. */
function read({ decode }: Sample, bytes: Buffer, random: Random): 'value' | 'refused' | 'waiting' {
  const reply = new ReceivedReply();
  const first = Buffer.alloc(64);
  try {
    for (let at = 0; at < bytes.length; ) {
      const room = reply.room ?? first;
      const sent = random.below(3) === 0 ? 1 + random.below(bytes.length - at) : bytes.length;
      const count = bytes.copy(room, 0, at, at + sent);
      const done = reply.took(room, count);
      at += count;
      if (done && at < bytes.length) return 'refused';
      if (done) {
        if (reply.status === 0) decode(reply.body);
        return 'value';
      }
    }
    return 'waiting';
  } catch (error) {
    if (error instanceof protocol.ProtocolError) return 'refused';
    throw error;
  }
}

describe('damaged replies', () => {
  it(`end as a value or an error, ${FRAMES} of them`, { timeout: 1_200_000 }, () => {
    const random = new Random(SEED);
    const good = samples();
    expect(good.length).toBeGreaterThan(60);
    for (const sample of good) expect(read(sample, sample.frame, random)).toBe('value');
    const ends = { value: 0, refused: 0, waiting: 0 };
    let before = 0;
    for (let index = 0; index < FRAMES; index++) {
      if (index === FRAMES / 2) before = heapBytes();
      const sample = good[index % good.length]!;
      const bytes = damaged(sample.frame, random);
      try {
        ends[read(sample, bytes, random)]++;
      } catch (error) {
        const what = `seed ${SEED}, frame ${index}: ${bytes.toString('hex')}`;
        throw new Error(what, { cause: error });
      }
    }
    // Each way out was taken often, so the damage was neither too mild nor too coarse.
    for (const count of Object.values(ends)) expect(count).toBeGreaterThan(FRAMES / 50);
    expect(heapBytes() - before).toBeLessThan(8 * 1024 * 1024);
  });

  it(`over sockets settle every call, ${SOCKET_FRAMES} of them`, { timeout: 1_200_000 }, async ({
    signal,
  }) => {
    const random = new Random(SEED);
    const { cluster, client: patient } = await clusterSetup({}, { storages: 2 });
    const id = await patient.upload(HELLO, { extension: 'txt' });
    const appender = await patient.uploadAppender(HELLO);
    await patient.setMetadata(id, { a: 'b' });
    const client = clientOf(cluster.trackers, {
      idleTimeoutMs: 300,
      maxConnectionsPerAddress: 64,
      busyRetries: 0,
    });
    const calls: readonly ((client: FastdfsClient) => Promise<unknown>)[] = [
      () => client.upload(HELLO),
      () => client.downloadBytes(id),
      async () => (await client.download(id)).stream.toArray(),
      () => client.info(id),
      () => client.getMetadata(id),
      () => client.setMetadata(id, { a: 'b' }),
      () => client.append(appender, Buffer.alloc(0)),
      () => client.truncate(appender, 13),
      () => client.uploadSlave(id, '_s', HELLO),
      () => client.delete(id.replace('.txt', '.bin')),
      () => client.listGroups(),
      () => client.listStorages('group1'),
      () => client.locateAll(id),
      () => client.ping(),
    ];
    let frames = 0;
    const answer: Answer = ({ socket, command }, reply) => {
      const bytes = random.below(2) > 0 ? reply : damaged(reply, random);
      if (bytes === reply || leadsElsewhere(command, bytes)) {
        socket.write(reply);
        return;
      }
      frames++;
      // A server that then says nothing more is rare, because each costs a time-out.
      if (random.below(500) > 0) socket.end(bytes);
      else socket.write(bytes);
    };
    for (const node of [cluster.tracker, ...cluster.storages]) {
      for (let command = 0; command < 256; command++) node.misbehave(command, answer);
    }
    let next = 0;
    let failed = 0;
    let before = 0;
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (frames < SOCKET_FRAMES) {
          // Without its cluster every call fails at once.
          signal.throwIfAborted();
          const index = next++;
          if (before === 0 && frames > SOCKET_FRAMES / 4) before = heapBytes();
          try {
            await calls[index % calls.length]!(client);
          } catch (error) {
            failed++;
            if (error instanceof FastdfsError) continue;
            throw new Error(`seed ${SEED}, call ${index}`, { cause: error });
          }
        }
      }),
    );
    expect(failed).toBeGreaterThan(next / 10);
    expect(failed).toBeLessThan(next);
    expect(client.stats()).toMatchObject({ leased: 0, queued: 0 });
    expect(heapBytes() - before).toBeLessThan(32 * 1024 * 1024);
    cluster.behave();
    await client.close();
    expect(await patient.downloadBytes(id)).toEqual(HELLO);
    await patient.close();
    expect(client.stats().open).toBe(0);
    await until(() => cluster.connections === 0);
  });
});
