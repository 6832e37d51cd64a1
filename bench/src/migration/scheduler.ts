import { SeededRandom } from '../harness/seeded-random.js';
import type { TimedRequest, Workload } from './workloads.js';

/**
 * What a scheduler observes of a workload, interval by interval, in simulated time: one disk serves
 * one request at a time, at B_logic, in the order in which they are released. The same workload
 * with the same seed gives the same observations, on any machine.
 */

export interface Scheduler {
  /** B_logic. */
  readonly bytesPerSecond: number;
  readonly intervalMs: number;
  /**
   * Entries may be committed together, and wait for the commit that takes them: from now to so
   * much later. 0: served at once.
   */
  readonly holdMs: number;
  readonly seed: number;
}

/** Bytes of an interval, and at its end. */
export interface Queued {
  readonly servedBytes: number;
  readonly waitingBytes: number;
}

type Event =
  | { readonly kind: 'arrives'; readonly request: TimedRequest; readonly isTrace: boolean }
  | { readonly kind: 'released' | 'served'; readonly request: TimedRequest }
  | { readonly kind: 'interval' };

export function observe(workload: Workload, scheduler: Scheduler): readonly Queued[] {
  const { bytesPerSecond, intervalMs, holdMs, seed } = scheduler;
  const random = new SeededRandom(seed);
  const trace = workload.arrivals();
  const events = new EventQueue<Event>();
  const observed: Queued[] = [];
  /** By then the disk has served all that was released. */
  let freeAtMs = 0;
  let [open, waitingBytes, servedBytes] = [0, 0, 0];
  const send = (request: TimedRequest, isTrace: boolean): void => {
    open += 1;
    events.push(request.atMs, { kind: 'arrives', request, isTrace });
  };
  /** Brings in the next request of the trace; one is ahead at a time. */
  const pull = (): void => {
    const next = trace.next();
    if (!next.done) send(next.value, true);
  };
  const release = (request: TimedRequest, atMs: number): void => {
    freeAtMs = Math.max(freeAtMs, atMs) + (request.bytes / bytesPerSecond) * 1000;
    events.push(freeAtMs, { kind: 'served', request });
  };
  const handle = (event: Event, atMs: number): void => {
    switch (event.kind) {
      case 'arrives': {
        const { request } = event;
        if (event.isTrace) pull();
        waitingBytes += request.bytes;
        if (holdMs === 0) release(request, atMs);
        else events.push(atMs + random.next() * holdMs, { kind: 'released', request });
        return;
      }
      case 'released':
        release(event.request, atMs);
        return;
      case 'served': {
        const { bytes, by } = event.request;
        waitingBytes -= bytes;
        servedBytes += bytes;
        open -= 1;
        if (by === undefined) return;
        for (const next of workload.answered?.(by, atMs) ?? []) send(next, false);
        return;
      }
      case 'interval':
        observed.push({ servedBytes, waitingBytes });
        servedBytes = 0;
        if (open > 0) events.push(atMs + intervalMs, { kind: 'interval' });
    }
  };
  pull();
  events.push(intervalMs, { kind: 'interval' });
  for (let next = events.pop(); next; next = events.pop()) {
    handle(next.event, next.atMs);
    if (open === 0 && next.event.kind === 'interval') break;
  }
  return observed;
}

interface Entry<T> {
  readonly atMs: number;
  readonly order: number;
  readonly event: T;
}

/** Events by their time, those of one time in the order they came: a binary heap. */
class EventQueue<T> {
  readonly #heap: Entry<T>[] = [];
  #order = 0;

  push(atMs: number, event: T): void {
    const entry = { atMs, order: this.#order, event };
    this.#order += 1;
    const heap = this.#heap;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(entry, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = entry;
  }

  pop(): Entry<T> | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return first;
    let index = 0;
    for (let child = 1; child < heap.length; child = 2 * index + 1) {
      const right = heap[child + 1];
      if (right && isBefore(right, heap[child]!)) child += 1;
      if (isBefore(last, heap[child]!)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore<T>(a: Entry<T>, b: Entry<T>): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
