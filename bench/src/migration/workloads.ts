import type { SeededRandom } from '../harness/seeded-random.js';

/**
 * The paper's two workloads. One says when its first requests come and, for clients that wait for an
 * answer before they go on, what follows an answer. All randomness is seeded.
 */

export interface TimedRequest {
  readonly atMs: number;
  readonly bytes: number;
  /** Who waits for the answer. */
  readonly by?: number;
}

export interface Workload {
  /** Requests in order of their time, pulled one at a time: a trace may be long. */
  arrivals(): Generator<TimedRequest>;
  /** What follows the answer to a request that carries `by`. */
  answered?(by: number, atMs: number): readonly TimedRequest[];
}

/** Metadata (section 5.1, Table 2): ϕ accesses φ apart, steady and burst in turns, repeated. */
export interface MetadataTrace {
  readonly phases: readonly { readonly accesses: number; readonly intervalMs: number }[];
  readonly repetitions: number;
  /** 0: as the paper has it, evenly spaced; 1: intervals are exponentially distributed. */
  readonly irregularity: number;
  /** How much the number of accesses of a phase may differ, up or down, as a share of it. */
  readonly phaseJitter: number;
}

export const PAPER_METADATA: MetadataTrace = {
  phases: [
    { accesses: 5000, intervalMs: 1 },
    { accesses: 10_000, intervalMs: 0.1 },
  ],
  ...{ repetitions: 1000, irregularity: 0, phaseJitter: 0 },
};
const ENTRY_BYTES = 1024;

export function metadataTrace(options: MetadataTrace, random: SeededRandom): Workload {
  const { phases, repetitions, irregularity, phaseJitter } = options;
  return {
    *arrivals() {
      let atMs = 0;
      for (let repetition = 0; repetition < repetitions; repetition += 1) {
        for (const { accesses, intervalMs } of phases) {
          const differs = phaseJitter > 0 ? phaseJitter * (2 * random.next() - 1) : 0;
          const count = Math.round(accesses * (1 + differs));
          for (let access = 0; access < count; access += 1) {
            yield { atMs, bytes: ENTRY_BYTES };
            const irregular = irregularity > 0 ? irregularity * random.exponential(intervalMs) : 0;
            atMs += (1 - irregularity) * intervalMs + irregular;
          }
        }
      }
    },
  };
}

/**
 * Small files as the IOR benchmark makes them: between two barriers every client writes its files
 * and reads them back, in transfers of one size, with a bounded number of them under way; at the
 * barrier all wait for the slowest, and then compute. Phases with different numbers of clients
 * follow each other. Between request and answer lies a network whose delay varies, so what a client
 * sends next comes at no predictable moment.
 */
export interface Ior {
  /** Number of clients, phase by phase. */
  readonly clients: readonly number[];
  readonly transferBytes: number;
  readonly transfersPerFile: number;
  /** Files that every client writes and reads between two barriers. */
  readonly filesPerBarrier: number;
  readonly barriersPerPhase: number;
  /** Transfers of one client that are under way at once. */
  readonly window: number;
  /** Mean delay of the network there and back. */
  readonly networkMs: number;
  /** Between a barrier and what follows it, and by what share that differs, up or down. */
  readonly computeMs: number;
  readonly computeJitter: number;
}

export const IOR: Ior = {
  clients: [1, 2, 4, 8, 16],
  ...{ transferBytes: 64 * 1024, transfersPerFile: 4, filesPerBarrier: 16 },
  ...{ barriersPerPhase: 100, window: 128, networkMs: 2, computeMs: 8000, computeJitter: 0.25 },
};

export function ior(options: Ior, random: SeededRandom): Workload {
  const { transferBytes, transfersPerFile, filesPerBarrier } = options;
  /** Written, and read back. */
  const perBarrier = 2 * transfersPerFile * filesPerBarrier;
  let [phase, barrier, finished] = [0, 0, 0];
  /** Transfers begun and answered since the barrier. */
  let clients: { begun: number; answered: number }[] = [];
  const request = (by: number, atMs: number): TimedRequest => {
    clients[by]!.begun += 1;
    return { atMs: atMs + random.exponential(options.networkMs), bytes: transferBytes, by };
  };
  const all = (atMs: number): TimedRequest[] => {
    clients = Array.from({ length: options.clients[phase]! }, () => ({ begun: 0, answered: 0 }));
    finished = 0;
    const first = Math.min(options.window, perBarrier);
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
      if (client.begun < perBarrier) return [request(by, atMs)];
      if (client.answered < perBarrier) return [];
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
