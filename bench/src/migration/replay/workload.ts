/**
 * What is replayed: a workload says when its first requests come and, for clients that
 * wait for an answer before they go on, what follows an answer. All randomness is
 * seeded, so the same workload against the same servers is the same run.
 */

export type RequestClass = 'metadata' | 'smallFile';

export interface ReplayRequest {
  readonly class: RequestClass;
  readonly bytes: number;
  /** The file that a small-file request touches; with several servers its home is derived from it. */
  readonly file: string;
  /** The file's size after the request. */
  readonly fileBytes: number;
  readonly write: boolean;
}

export interface TimedRequest {
  readonly atMs: number;
  readonly request: ReplayRequest;
  /** Handed back to `answered`: who waits for the answer. */
  readonly by?: number;
}

export interface Workload {
  /** Requests in order of their time, pulled one at a time: a trace may be long. */
  arrivals(): Iterator<TimedRequest>;
  /** What follows the answer to a request that carries `by`. */
  answered?(by: number, atMs: number): readonly TimedRequest[];
}

/** Several workloads at once. */
export function together(...workloads: readonly Workload[]): Workload {
  return {
    *arrivals() {
      const sources = workloads.map((workload, index) => {
        const iterator = workload.arrivals();
        return { index, iterator, next: iterator.next() };
      });
      for (;;) {
        let first: (typeof sources)[number] | undefined;
        for (const source of sources) {
          if (source.next.done) continue;
          if (first === undefined || source.next.value.atMs < first.next.value.atMs) first = source;
        }
        if (first === undefined) return;
        const timed = first.next.value as TimedRequest;
        first.next = first.iterator.next();
        yield marked(timed, first.index, workloads.length);
      }
    },
    answered(by, atMs) {
      const index = by % workloads.length;
      const workload = workloads[index]!;
      const next = workload.answered?.(Math.floor(by / workloads.length), atMs) ?? [];
      return next.map((timed) => marked(timed, index, workloads.length));
    },
  };
}

function marked(timed: TimedRequest, index: number, count: number): TimedRequest {
  return timed.by === undefined ? timed : { ...timed, by: timed.by * count + index };
}
