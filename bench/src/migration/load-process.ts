import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { cpuUsed } from '../harness/process-cpu.js';
import { serve } from '../harness/serve.js';

/**
 * A load generator: loops of one kind, metadata or small files, in a process of their
 * own, so that neither kind waits for the other before it is even sent. Who is told that
 * the storage is busy comes back after the client's own, growing pause.
 */

export interface LoadArgument {
  readonly tracker: string;
  /** `reads` asks for the files that are there, in turn. */
  readonly kind: 'metadata' | 'small-files' | 'reads';
  /** Each sends the next request when it has the answer. */
  readonly loops: number;
  readonly seconds: number;
  /** Before anything counts. */
  readonly warmUpSeconds: number;
  readonly fileBytes: number;
  /** For metadata and reads: ids of files that are there. */
  readonly files: readonly string[];
  /** The loops together send no more than this; undefined: as fast as they are answered. */
  readonly requestsPerSecond?: number | undefined;
}

export interface LoadResult {
  readonly requests: number;
  /** Given up after the client's repeats. */
  readonly busy: number;
  /** Requests that were told to come back, and did. */
  readonly repeats: number;
  readonly cpuSeconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface FilesArgument {
  readonly tracker: string;
  readonly count: number;
  readonly bytes: number;
  /** Default: as the tracker chooses. */
  readonly group?: string;
}

export type LoadHandlers = {
  /** Stores the files that metadata is set for. */
  readonly files: (argument: FilesArgument) => Promise<string[]>;
  readonly run: (argument: LoadArgument) => Promise<LoadResult>;
};

async function files({ tracker, count, bytes, group }: FilesArgument): Promise<string[]> {
  await using client = new FastdfsClient({ trackers: [tracker] });
  const body = Buffer.alloc(bytes, 0x5a);
  return await Promise.all(Array.from({ length: count }, () => client.upload(body, { group })));
}

async function run(argument: LoadArgument): Promise<LoadResult> {
  const { tracker, kind, loops, seconds, warmUpSeconds, fileBytes, files: known } = argument;
  const options = { maxConnectionsPerAddress: 32, followMoves: true };
  await using client = new FastdfsClient({ trackers: [tracker], ...options });
  const body = Buffer.alloc(fileBytes, 0x5a);
  const begun = performance.now();
  const from = begun + warmUpSeconds * 1000;
  const end = from + seconds * 1000;
  const times: number[] = [];
  let busy = 0;
  const timed = async <T>(request: () => Promise<T>): Promise<T | undefined> => {
    const sentAt = performance.now();
    try {
      const answer = await request();
      const now = performance.now();
      if (now >= from && now < end) times.push(now - sentAt);
      return answer;
    } catch (error) {
      if (!(error instanceof FastdfsError) || error.code !== 'busy') throw error;
      busy += 1;
      return undefined;
    }
  };
  const pace = paced(argument.requestsPerSecond, begun);
  const metadata = async (loop: number): Promise<void> => {
    for (let turn = loop; performance.now() < end; turn += 1) {
      await pace();
      await timed(() => client.setMetadata(known[turn % known.length]!, { turn: String(turn) }));
    }
  };
  const smallFiles = async (): Promise<void> => {
    while (performance.now() < end) {
      await pace();
      const file = await timed(() => client.upload(body));
      if (file === undefined) continue;
      await pace();
      const read = await timed(() => client.downloadBytes(file));
      if (read && !read.equals(body)) throw new Error(`${file} came back with other bytes`);
    }
  };
  const reads = async (loop: number): Promise<void> => {
    for (let turn = loop; performance.now() < end; turn += 1) {
      await pace();
      const file = known[turn % known.length]!;
      const read = await timed(() => client.downloadBytes(file));
      if (read && !read.equals(body)) throw new Error(`${file} came back with other bytes`);
    }
  };
  const loop = { metadata, reads, 'small-files': smallFiles }[kind];
  let cpuAtFrom = cpuUsed();
  const mark = setTimeout(() => {
    cpuAtFrom = cpuUsed();
  }, warmUpSeconds * 1000);
  let cpuAtEnd: number | undefined;
  const last = setTimeout(() => {
    cpuAtEnd = cpuUsed();
  }, end - performance.now());
  await Promise.all(Array.from({ length: loops }, (_, index) => loop(index)));
  clearTimeout(mark);
  clearTimeout(last);
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? 0;
  return {
    requests: times.length,
    busy,
    repeats: client.stats().repeatedRequests,
    cpuSeconds: (cpuAtEnd ?? cpuUsed()) - cpuAtFrom,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
  };
}

/** Waits until the rate allows the next request. */
function paced(perSecond: number | undefined, begun: number): () => Promise<void> {
  if (perSecond === undefined) return async () => {};
  let sent = 0;
  return async () => {
    const dueAt = begun + (sent * 1000) / perSecond;
    sent += 1;
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  };
}

serve({ files, run } satisfies LoadHandlers, async () => {});
