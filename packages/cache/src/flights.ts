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

/** The files in flight, by id. */
type Pendings = Map<string, Pending>;

class Pending {
  readonly id: string;
  readonly trip: Trip;
  waiting = 0;
  /** False once the file was forgotten: its bytes are not cached. */
  current = true;
  /** True once a second caller has joined, or it is cached: nobody has the bytes for himself. */
  isShared = false;
  #outcome: Promise<Outcome> | undefined;
  #resolve: ((outcome: Outcome) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(id: string, trip: Trip) {
    this.id = id;
    this.trip = trip;
  }

  /**
   * Read it before the flight is settled. Created for the first caller that does not run the load
   * itself, because most files have none.
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

  /** From now on, callers start loads of their own. */
  unlist(from: Pendings): void {
    this.current = false;
    if (from.get(this.id) === this) from.delete(this.id);
  }
}

/** One load, and the files that it brings. */
class Trip implements Flight {
  /** The file that it is for. */
  first: Pending | undefined;
  waiting = 0;
  keeps = true;
  /** Created only if the first caller can abort: it costs more than the rest of a trip. */
  readonly #controller: AbortController | undefined;
  readonly #arrivals: Arrivals;
  readonly #all: Pendings;
  /** Claimed and not delivered; most loads claim none. */
  #claimed: Pendings | undefined;

  constructor(arrivals: Arrivals, all: Pendings, mayEnd: boolean) {
    this.#arrivals = arrivals;
    this.#all = all;
    if (mayEnd) this.#controller = new AbortController();
  }

  get signal(): AbortSignal | undefined {
    return this.#controller?.signal;
  }

  claim(ids: readonly string[]): readonly string[] {
    const free = ids.filter((id) => !this.#all.has(id) && !this.#arrivals.isKept(id));
    this.#claimed ??= new Map();
    for (const id of free) {
      const pending = new Pending(id, this);
      this.#all.set(id, pending);
      this.#claimed.set(id, pending);
    }
    return free;
  }

  deliver(id: string, bytes: Buffer, source: string): void {
    const pending = this.#claimed?.get(id);
    if (!pending) return;
    const { current } = pending;
    this.#claimed?.delete(id);
    pending.unlist(this.#all);
    const wanted = pending.waiting > 0;
    pending.settle(current ? this.#arrivals.onBeside(id, bytes, source, wanted) : bytes);
  }

  doNotKeep(): void {
    this.keeps = false;
  }

  /** The load is over: what it did not deliver, it will not. */
  end(): void {
    if (!this.#claimed) return;
    for (const pending of this.#claimed.values()) {
      pending.unlist(this.#all);
      pending.settle(NOT_DELIVERED);
    }
  }

  /** Nobody waits. Later callers start their own load, so they do not share the abort. */
  abandon(reason: unknown): void {
    this.first?.unlist(this.#all);
    for (const pending of this.#claimed?.values() ?? []) pending.unlist(this.#all);
    this.#controller?.abort(reason);
  }
}

export class Flights {
  readonly #arrivals: Arrivals;
  readonly #pendings: Pendings = new Map();

  constructor(arrivals: Arrivals) {
    this.#arrivals = arrivals;
  }

  isUnderWay(id: string): boolean {
    return this.#pendings.has(id);
  }

  /** `isOwn`: nobody else gets the same memory. */
  get(
    id: string,
    load: Load,
    signal: AbortSignal | undefined,
    isOwn: boolean,
  ): Promise<Buffer | undefined> {
    // A caller that cannot leave runs its load itself; most often nobody shares it.
    return signal || this.#pendings.has(id)
      ? this.#share(id, load, signal, isOwn)
      : this.#run(this.#add(id, 1, false), load, isOwn);
  }

  /** The file was changed or deleted. Loads in flight are not cached, and no caller joins them. */
  forget(id: string): void {
    this.#pendings.get(id)?.unlist(this.#pendings);
  }

  forgetAll(isForgotten: (id: string) => boolean): void {
    for (const pending of [...this.#pendings.values()]) {
      if (isForgotten(pending.id)) pending.unlist(this.#pendings);
    }
  }

  async #share(
    id: string,
    load: Load,
    signal: AbortSignal | undefined,
    isOwn: boolean,
  ): Promise<Buffer | undefined> {
    for (;;) {
      const known = this.#pendings.get(id);
      if (!known && !signal) return this.#run(this.#add(id, 1, false), load, isOwn);
      if (known) known.isShared = true;
      const pending = known ?? this.#begin(id, load);
      const outcome = await this.#wait(pending, signal);
      if (outcome !== NOT_DELIVERED) return isOwn ? ownOf(pending, outcome) : outcome;
    }
  }

  #begin(id: string, load: Load): Pending {
    const pending = this.#add(id, 0, true);
    // Creates the promise now: the first caller waits for it, and a load may fail at once.
    void pending.outcome;
    this.#run(pending, load, false).catch(() => {});
    return pending;
  }

  #add(id: string, waiting: number, mayEnd: boolean): Pending {
    const trip = new Trip(this.#arrivals, this.#pendings, mayEnd);
    const pending = new Pending(id, trip);
    trip.first = pending;
    pending.waiting = waiting;
    trip.waiting = waiting;
    this.#pendings.set(id, pending);
    return pending;
  }

  /** Runs the load and settles all of its files, whatever happens. */
  async #run(first: Pending, load: Load, isOwn: boolean): Promise<Buffer | undefined> {
    const { trip, id } = first;
    try {
      const loaded = await load(trip);
      const current = first.current && trip.keeps;
      first.unlist(this.#pendings);
      if (loaded === undefined && current) this.#arrivals.onAbsent(id);
      const bytes = loaded && current ? this.#arrivals.onLoaded(id, loaded) : loaded;
      first.isShared ||= this.#arrivals.isKept(id);
      first.settle(bytes);
      return isOwn ? ownOf(first, bytes) : bytes;
    } catch (error) {
      first.unlist(this.#pendings);
      first.fail(error);
      throw error;
    } finally {
      trip.end();
    }
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
      if (trip.waiting === 0 && signal?.aborted) trip.abandon(signal.reason);
    }
  }
}

/** What its caller may change: nobody else has the same memory. */
function ownOf({ isShared }: Pending, bytes: Buffer | undefined): Buffer | undefined {
  return bytes && isShared ? Buffer.from(bytes) : bytes;
}
