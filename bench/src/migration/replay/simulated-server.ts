import type { Observation } from '@stevedore/balance';
import type { RequestClass } from './workload.js';

/**
 * One server's disk in simulated time: one request at a time, at B_logic. Two classes
 * of requests wait; who is next is the scheduler's choice. What it served and what
 * waits is counted per class and interval.
 */

export interface ServerOptions {
  /** B_logic. */
  readonly bytesPerSecond: number;
  /** What an access costs beside its bytes, in bytes: seek, record, sync. */
  readonly accessBytes: number;
  /** Whoever comes first, or metadata before small files. */
  readonly order: 'fifo' | 'metadata-first';
  /**
   * Metadata entries may be committed together, and wait for the commit that takes
   * them: from now to so much later. 0: served at once, as small files always are.
   */
  readonly metadataHoldMs: number;
}

export interface Job<T> {
  readonly class: RequestClass;
  readonly bytes: number;
  readonly arrivedAtMs: number;
  readonly payload: T;
}

interface Held<T> extends Job<T> {
  readonly order: number;
}

/** A queue whose front is taken without moving the rest. */
class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#head += 1;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

export class SimulatedServer<T> {
  readonly #options: ServerOptions;
  readonly #released = { metadata: new Fifo<Held<T>>(), smallFile: new Fifo<Held<T>>() };
  readonly #waitingBytes = { metadata: 0, smallFile: 0 };
  #waitingRequests = 0;
  #servedBytes = { metadata: 0, smallFile: 0 };
  #order = 0;
  #serving: Held<T> | undefined;
  /** Small-file bytes that may still be begun in this interval; undefined: all. */
  #allowedBytes: number | undefined;

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  /** What a request of so many bytes counts and costs. */
  cost(bytes: number): number {
    return bytes + this.#options.accessBytes;
  }

  get waitingRequests(): number {
    return this.#waitingRequests;
  }

  /** A request has come; it counts as waiting, and may be served once it is released. */
  add(job: Job<T>): void {
    this.#waitingRequests += 1;
    this.#waitingBytes[job.class] += this.cost(job.bytes);
  }

  release(job: Job<T>): void {
    this.#released[job.class].push({ ...job, order: this.#order });
    this.#order += 1;
  }

  /** Begins the next request if the disk is free; how long it takes, or undefined. */
  begin(): number | undefined {
    if (this.#serving !== undefined) return undefined;
    const next = this.#choose();
    if (next === undefined) return undefined;
    this.#released[next.class].shift();
    this.#waitingRequests -= 1;
    const cost = this.cost(next.bytes);
    this.#serving = next;
    if (next.class === 'smallFile' && this.#allowedBytes !== undefined) this.#allowedBytes -= cost;
    return (cost / this.#options.bytesPerSecond) * 1000;
  }

  /** Ends the request that is being served. */
  finish(): Job<T> {
    const job = this.#serving;
    if (job === undefined) throw new Error('nothing is being served');
    this.#serving = undefined;
    const cost = this.cost(job.bytes);
    this.#waitingBytes[job.class] -= cost;
    this.#servedBytes[job.class] += cost;
    return job;
  }

  /** Ends the interval: what it was, and what may be served in the next one. */
  endInterval(): Record<RequestClass, Observation> {
    const observed = {
      metadata: {
        servedBytes: this.#servedBytes.metadata,
        waitingBytes: this.#waitingBytes.metadata,
      },
      smallFile: {
        servedBytes: this.#servedBytes.smallFile,
        waitingBytes: this.#waitingBytes.smallFile,
      },
    };
    this.#servedBytes = { metadata: 0, smallFile: 0 };
    return observed;
  }

  allow(smallFileBytes: number | undefined): void {
    this.#allowedBytes = smallFileBytes;
  }

  #choose(): Held<T> | undefined {
    const metadata = this.#released.metadata.first;
    const smallFile = this.#released.smallFile.first;
    const mayServe = this.#allowedBytes === undefined || this.#allowedBytes > 0;
    const small = mayServe ? smallFile : undefined;
    const metadataNext =
      metadata !== undefined &&
      (small === undefined ||
        this.#options.order === 'metadata-first' ||
        metadata.order < small.order);
    return metadataNext ? metadata : small;
  }
}
