import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { cpuUsed } from '../harness/process-cpu.js';
import { serve } from '../harness/serve.js';
import { percentile } from '../harness/statistics.js';

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
  /** For metadata and reads: ids of files that are there. */
  readonly files: readonly string[];
  /** The loops together send no more than this; undefined: as fast as they are answered. */
  readonly requestsPerSecond?: number | undefined;
}

export interface LoadResult {
  readonly requests: number;
  readonly cpuSeconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const FILE_BYTES = 16 * 1024;
const body = Buffer.alloc(FILE_BYTES, 0x5a);

const handlers = {
  /** Stores files; default: where the tracker chooses. */
  async files({
    tracker,
    count,
    group,
  }: {
    readonly tracker: string;
    readonly count: number;
    readonly group?: string;
  }): Promise<string[]> {
    await using client = new FastdfsClient({ trackers: [tracker] });
    return await Promise.all(Array.from({ length: count }, () => client.upload(body, { group })));
  },

  async run(argument: LoadArgument): Promise<LoadResult> {
    const { tracker, kind, loops, seconds, warmUpSeconds, files } = argument;
    const options = { maxConnectionsPerAddress: 32, followMoves: true };
    await using client = new FastdfsClient({ trackers: [tracker], ...options });
    const begun = performance.now();
    const from = begun + warmUpSeconds * 1000;
    const end = from + seconds * 1000;
    const times: number[] = [];
    const timed = async <T>(request: () => Promise<T>): Promise<T | undefined> => {
      await pace();
      const sentAt = performance.now();
      try {
        const answer = await request();
        const now = performance.now();
        if (now >= from && now < end) times.push(now - sentAt);
        return answer;
      } catch (error) {
        if (error instanceof FastdfsError && error.code === 'busy') return undefined;
        throw error;
      }
    };
    const readBack = async (file: string): Promise<void> => {
      const read = await timed(() => client.downloadBytes(file));
      if (read && !read.equals(body)) throw new Error(`${file} came back with other bytes`);
    };
    const one = {
      metadata: (turn: number) =>
        timed(() => client.setMetadata(files[turn % files.length]!, { turn: String(turn) })),
      reads: (turn: number) => readBack(files[turn % files.length]!),
      'small-files': async () => {
        const file = await timed(() => client.upload(body));
        if (file !== undefined) await readBack(file);
      },
    }[kind];
    const pace = paced(argument.requestsPerSecond, begun);
    const loop = async (index: number): Promise<void> => {
      for (let turn = index; performance.now() < end; turn += 1) await one(turn);
    };
    let cpuAtFrom = cpuUsed();
    const mark = setTimeout(() => {
      cpuAtFrom = cpuUsed();
    }, warmUpSeconds * 1000);
    await Promise.all(Array.from({ length: loops }, (_, index) => loop(index)));
    clearTimeout(mark);
    times.sort((a, b) => a - b);
    return {
      requests: times.length,
      cpuSeconds: cpuUsed() - cpuAtFrom,
      p50Ms: times.length === 0 ? 0 : percentile(times, 0.5),
      p99Ms: times.length === 0 ? 0 : percentile(times, 0.99),
    };
  },
};

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

export type LoadHandlers = typeof handlers;

serve(handlers);
