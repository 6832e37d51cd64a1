import { abortable } from '@stevedore/async';
/**
 * Loads in flight. Callers that want the same file share one load, and a load that brings further
 * files serves the callers that wait for those. An aborted caller leaves alone; the load is aborted
 * when the last one has left. A file that was forgotten during its load goes only to callers that
 * asked before, and is not cached.
 */

/** What a load gets. */
export interface Flight {
  /** Aborted when no caller waits any more; undefined if the first caller has no signal. */
  readonly signal: AbortSignal | undefined;
  /** Returns the files that this load must also deliver: those neither cached nor in flight. */
  claim(ids: readonly string[]): readonly string[];
  /** Delivers a claimed file. `source`, such as a trunk, is credited with its use. */
  deliver(id: string, bytes: Buffer, source: string): void;
  /** The loaded file goes to the callers but is not cached. */
  doNotKeep(): void;
}

/** The bytes; undefined if there is no such file. */
export type Load = (flight: Flight) => Promise<Buffer | undefined>;

/** Receives the files that loads bring. */
export interface Arrivals {
  isKept(id: string): boolean;
  /** Returns what the callers get: the cached bytes. */
  onLoaded(id: string, bytes: Buffer): Buffer;
  onAbsent(id: string): void;
  /** A file that a load brought along. `wanted`: a caller waits for it. */
  onBeside(id: string, bytes: Buffer, source: string, wanted: boolean): Buffer;
}

/** A claimed file was not delivered: its callers load it themselves. */
const NOT_DELIVERED = Symbol('not delivered');
type Outcome = Buffer | undefined | typeof NOT_DELIVERED;

class Pending {
  readonly id: string;
  readonly trip: Trip;
  waiting = 0;
  /** False once the file was forgotten: its bytes are not cached. */
  current = true;
  #outcome: Promise<Outcome> | undefined;
  #resolve: ((outcome: Outcome) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(id: string, trip: Trip) {
    this.id = id;
    this.trip = trip;
  }

  /**
   * Read it before the flight is settled. Created for the first caller, because most files that a
   * load brings along have none.
   */
  get outcome(): Promise<Outcome> {
    if (this.#outcome) return this.#outcome;
    this.#outcome = new Promise<Outcome>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // All callers may have left.
    this.#outcome.catch(() => {});
    return this.#outcome;
  }

  settle(outcome: Outcome): void {
    this.#resolve?.(outcome);
  }

  fail(error: unknown): void {
    this.#reject?.(error);
  }
}

class Trip {
  readonly pendings = new Map<string, Pending>();
  waiting = 0;
  /** Created only if the first caller can abort: it costs more than the rest of a trip. */
  readonly controller: AbortController | undefined;

  constructor(mayEnd: boolean) {
    if (mayEnd) this.controller = new AbortController();
  }
}

export class Flights {
  readonly #arrivals: Arrivals;
  readonly #pendings = new Map<string, Pending>();

  constructor(arrivals: Arrivals) {
    this.#arrivals = arrivals;
  }

  isUnderWay(id: string): boolean {
    return this.#pendings.has(id);
  }

  async get(id: string, load: Load, signal: AbortSignal | undefined): Promise<Buffer | undefined> {
    for (;;) {
      const known = this.#pendings.get(id);
      // A caller that cannot leave runs its load itself; nobody may ever share it.
      if (!known && !signal) return this.#run(this.#add(id, new Trip(false), 1), load);
      const pending = known ?? this.#begin(id, load);
      const outcome = await this.#wait(pending, signal);
      if (outcome !== NOT_DELIVERED) return outcome;
    }
  }

  /** The file was changed or deleted. Loads in flight are not cached, and no caller joins them. */
  forget(id: string): void {
    const pending = this.#pendings.get(id);
    if (pending) this.#unlist(pending);
  }

  forgetAll(isForgotten: (id: string) => boolean): void {
    for (const pending of [...this.#pendings.values()]) {
      if (isForgotten(pending.id)) this.#unlist(pending);
    }
  }

  #begin(id: string, load: Load): Pending {
    const pending = this.#add(id, new Trip(true), 0);
    // Creates the promise now: the first caller waits for it, and a load may fail at once.
    void pending.outcome;
    this.#run(pending, load).catch(() => {});
    return pending;
  }

  #add(id: string, trip: Trip, waiting: number): Pending {
    const pending = new Pending(id, trip);
    pending.waiting = waiting;
    trip.waiting += waiting;
    this.#pendings.set(id, pending);
    trip.pendings.set(id, pending);
    return pending;
  }

  /** Runs the load and settles all of its files, whatever happens. */
  async #run(first: Pending, load: Load): Promise<Buffer | undefined> {
    const { trip, id } = first;
    let keep = true;
    const flight: Flight = {
      signal: trip.controller?.signal,
      claim: (ids) => {
        const free = ids.filter(
          (each) => !this.#pendings.has(each) && !this.#arrivals.isKept(each),
        );
        for (const each of free) this.#add(each, trip, 0);
        return free;
      },
      deliver: (each, bytes, source) => this.#deliver(trip, each, bytes, source),
      doNotKeep: () => {
        keep = false;
      },
    };
    try {
      const loaded = await load(flight);
      const current = first.current && keep;
      this.#unlist(first);
      if (loaded === undefined && current) this.#arrivals.onAbsent(id);
      const bytes = loaded && current ? this.#arrivals.onLoaded(id, loaded) : loaded;
      first.settle(bytes);
      return bytes;
    } catch (error) {
      this.#unlist(first);
      first.fail(error);
      throw error;
    } finally {
      for (const pending of trip.pendings.values()) {
        this.#unlist(pending);
        pending.settle(NOT_DELIVERED);
      }
    }
  }

  #deliver(trip: Trip, id: string, bytes: Buffer, source: string): void {
    const pending = trip.pendings.get(id);
    if (!pending) return;
    const { current } = pending;
    trip.pendings.delete(id);
    this.#unlist(pending);
    const wanted = pending.waiting > 0;
    pending.settle(current ? this.#arrivals.onBeside(id, bytes, source, wanted) : bytes);
  }

  #unlist(pending: Pending): void {
    pending.current = false;
    if (this.#pendings.get(pending.id) === pending) this.#pendings.delete(pending.id);
  }

  async #wait(pending: Pending, signal: AbortSignal | undefined): Promise<Outcome> {
    const { trip } = pending;
    pending.waiting += 1;
    trip.waiting += 1;
    try {
      return await (signal ? abortable(pending.outcome, signal) : pending.outcome);
    } finally {
      pending.waiting -= 1;
      trip.waiting -= 1;
      if (trip.waiting === 0 && signal?.aborted) this.#abandon(trip, signal.reason);
    }
  }

  /** Later callers start their own load, so they do not share the abort. */
  #abandon(trip: Trip, reason: unknown): void {
    for (const pending of trip.pendings.values()) this.#unlist(pending);
    trip.controller?.abort(reason);
  }
}
