import type { SeededRandom } from '../../harness/seeded-random.js';
import type { TimedRequest, Workload } from './workload.js';

/**
 * A small-file load like that of the IOR benchmark: between two barriers every client
 * writes its files and reads them back, in transfers of one size, with a bounded number
 * of them under way; at the barrier all wait for the slowest, and then compute. Phases
 * with different numbers of clients follow each other. Between request and answer lies
 * a network whose delay varies, so what a client sends next comes at no predictable
 * moment.
 */

export interface IorOptions {
  /** Number of clients, phase by phase. */
  readonly clients: readonly number[];
  readonly transferBytes: number;
  readonly transfersPerFile: number;
  /** Files that every client writes and reads between two barriers. */
  readonly filesPerBarrier: number;
  /** Barriers in a phase. */
  readonly barriersPerPhase: number;
  /** Transfers of one client that are under way at once. */
  readonly window: number;
  /** Mean delay of the network there and back. */
  readonly networkMs: number;
  /** Between a barrier and what follows it: IOR's delay between two tests. */
  readonly computeMs: number;
  /** By how much that differs from one barrier to the next, up or down, as a share of it. */
  readonly computeJitter: number;
  /** Begins the names of the files: two loads at once need different ones. */
  readonly name: string;
}

export const defaultIor: IorOptions = Object.freeze({
  clients: [1, 2, 4, 8, 16],
  transferBytes: 64 * 1024,
  transfersPerFile: 4,
  filesPerBarrier: 16,
  barriersPerPhase: 100,
  window: 128,
  networkMs: 2,
  computeMs: 8000,
  computeJitter: 0.25,
  name: 'ior',
});

interface Client {
  /** Transfers begun and answered since the barrier. */
  begun: number;
  answered: number;
}

export function ior(options: IorOptions, random: SeededRandom): Workload {
  const { transfersPerFile, filesPerBarrier, transferBytes } = options;
  const transfersPerBarrier = 2 * transfersPerFile * filesPerBarrier;
  let phase = 0;
  let barrier = 0;
  let clients: Client[] = [];
  let finished = 0;

  /** A file is written before it is read: all writes of a barrier come first. */
  const request = (by: number, atMs: number): TimedRequest => {
    const client = clients[by]!;
    const transfer = client.begun;
    client.begun += 1;
    const within = transfer % (transfersPerFile * filesPerBarrier);
    const file = Math.floor(within / transfersPerFile);
    const write = transfer < transfersPerFile * filesPerBarrier;
    const written = write ? (within % transfersPerFile) + 1 : transfersPerFile;
    return {
      atMs: atMs + random.exponential(options.networkMs),
      request: {
        class: 'smallFile',
        bytes: transferBytes,
        file: `${options.name}/${phase}/${by}/${barrier * filesPerBarrier + file}`,
        fileBytes: written * transferBytes,
        write,
      },
      by,
    };
  };
  const all = (atMs: number): TimedRequest[] => {
    clients = Array.from({ length: options.clients[phase]! }, () => ({ begun: 0, answered: 0 }));
    finished = 0;
    const first = Math.min(options.window, transfersPerBarrier);
    return clients
      .flatMap((_, by) => Array.from({ length: first }, () => request(by, atMs)))
      .sort((a, b) => a.atMs - b.atMs);
  };
  return {
    *arrivals() {
      if (options.clients.length > 0 && options.barriersPerPhase > 0) yield* all(0);
    },
    answered(by, atMs) {
      const client = clients[by]!;
      client.answered += 1;
      if (client.begun < transfersPerBarrier) return [request(by, atMs)];
      if (client.answered < transfersPerBarrier) return [];
      finished += 1;
      if (finished < clients.length) return [];
      barrier += 1;
      if (barrier === options.barriersPerPhase) {
        barrier = 0;
        phase += 1;
      }
      if (phase === options.clients.length) return [];
      const differs = options.computeJitter * (2 * random.next() - 1);
      return all(atMs + options.computeMs * (1 + differs));
    },
  };
}
