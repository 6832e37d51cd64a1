import { setTimeout as sleep } from 'node:timers/promises';
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { percentile } from '../harness/figures.js';
import { drive } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import {
  type Ior,
  ior,
  type MetadataTrace,
  metadataTrace,
  type TimedRequest,
} from './workloads.js';

/**
 * The load: metadata or small files, by our client. A request that the storage answers with busy is
 * repeated after the client's own, growing pause.
 */

export interface LoadArgument {
  /** `small-files`: files are read by Zipf's law, and one of 16 KiB is stored for so many reads. */
  readonly kind: 'metadata' | 'small-files';
  /** Ids of files that are there. */
  readonly files: readonly string[];
  /** Each sends the next request when it has the answer. */
  readonly loops: number;
  readonly seconds: number;
  /** Before anything counts. */
  readonly warmUpSeconds: number;
}

export interface LoadResult {
  readonly requests: number;
  readonly p99Ms: number;
}

const GROUP = 'group1';
const ZIPF_EXPONENT = 0.8;
const READS_PER_WRITE = 20;
const FILE_BYTES = 16 * 1024;
const UPLOADS_AT_ONCE = 16;
const MAX_CONNECTIONS = 1024;
const body = Buffer.alloc(FILE_BYTES, 0x5a);

function newClient(tracker: string): FastdfsClient {
  const options = { maxConnectionsPerAddress: MAX_CONNECTIONS, followMoves: true };
  return new FastdfsClient({ trackers: [tracker], ...options });
}

/** A storage that is busy has answered too; undefined then. */
async function answerOf<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof FastdfsError && error.code === 'busy') return undefined;
    throw error;
  }
}

async function readBack(client: FastdfsClient, file: string): Promise<boolean> {
  const read = await answerOf(client.downloadBytes(file));
  if (read && !read.equals(body)) throw new Error(`${file} came back with other bytes`);
  return read !== undefined;
}

export async function files(tracker: string, count: number): Promise<readonly string[]> {
  await using client = newClient(tracker);
  const stored: string[] = [];
  await drive({ operations: count, concurrency: UPLOADS_AT_ONCE }, async () => {
    stored.push(await client.upload(body, { group: GROUP }));
  });
  return stored;
}

export async function run(tracker: string, argument: LoadArgument): Promise<LoadResult> {
  const { kind, loops, seconds, warmUpSeconds, files: asked } = argument;
  await using client = newClient(tracker);
  const zipf = new Zipf(asked.length, ZIPF_EXPONENT, new SeededRandom(1).next);
  const send = async (turn: number): Promise<unknown> => {
    if (kind === 'metadata') {
      const file = asked[turn % asked.length]!;
      return answerOf(client.setMetadata(file, { turn: String(turn) }).then(() => true));
    }
    if (turn % (READS_PER_WRITE + 1) === READS_PER_WRITE) {
      return answerOf(client.upload(body, { group: GROUP }));
    }
    return readBack(client, asked[zipf.next() - 1]!);
  };
  const from = performance.now() + warmUpSeconds * 1000;
  const end = from + seconds * 1000;
  const times: number[] = [];
  await drive({ concurrency: loops, maxSeconds: warmUpSeconds + seconds }, async (turn) => {
    const sentAt = performance.now();
    const isAnswered = await send(turn);
    const now = performance.now();
    if (isAnswered && now >= from && now < end) times.push(now - sentAt);
  });
  times.sort((a, b) => a - b);
  return { requests: times.length, p99Ms: times.length === 0 ? 0 : percentile(times, 0.99) };
}

/** A workload of the simulation; a client's transfers are written and read in turns. */
export async function replay(
  tracker: string,
  asked: readonly string[],
  load: MetadataTrace | Ior,
  seed: number,
): Promise<void> {
  await using client = newClient(tracker);
  const random = new SeededRandom(seed);
  const workload = 'clients' in load ? ior(load, random) : metadataTrace(load, random);
  const begun = performance.now();
  const nowMs = () => performance.now() - begun;
  const stored: string[] = [];
  let turn = 0;
  const answer = async ({ by }: TimedRequest): Promise<void> => {
    turn += 1;
    if (by === undefined) {
      await answerOf(client.setMetadata(asked[turn % asked.length]!, { turn: String(turn) }));
      return;
    }
    const file = turn % 2 === 0 ? stored.pop() : undefined;
    if (file !== undefined) await readBack(client, file);
    else {
      const written = await answerOf(client.upload(body, { group: GROUP }));
      if (written !== undefined) stored.push(written);
    }
  };
  const send = async (request: TimedRequest): Promise<void> => {
    await sleep(Math.max(0, request.atMs - nowMs()));
    await answer(request);
    if (request.by === undefined) return;
    await Promise.all((workload.answered?.(request.by, nowMs()) ?? []).map(send));
  };
  const sent = new Set<Promise<void>>();
  for (const arrives of workload.arrivals()) {
    const waitMs = arrives.atMs - nowMs();
    if (waitMs > 1) await sleep(waitMs);
    const sending = send(arrives).finally(() => sent.delete(sending));
    sent.add(sending);
  }
  await Promise.all(sent);
}
