import { LRUCache } from 'lru-cache';

/**
 * Which files stay. admission: as below. lru: those requested last, one list for all of them, as in
 * the data node paper.
 */
export type CachePolicy = 'admission' | 'lru';

/**
 * The lists of cached files, each bounded by bytes and evicted from its tail. A requested file
 * enters `recent`. At its tail it moves to `main` if it was requested more often than the files
 * that it would displace; otherwise it is rejected. Files that were only read ahead are in `ahead`
 * and displace nothing else; once requested, they move to `recent`. So a scan of everything passes
 * through `recent`, reading ahead passes through `ahead`, and neither empties `main`.
 */

export interface Entry {
  readonly bytes: Buffer;
  /** Credited with the use of a file that was read ahead. */
  readonly source: string;
  /** Bytes it uses, including bookkeeping. */
  readonly cost: number;
  /** It was requested again while it was here. */
  isAgain?: boolean;
}

/** Share of the cache for files requested once, which may not be requested again. */
const RECENT_SHARE = 1 / 8;

export interface AreaEvents {
  /** Estimated recent requests of a file. */
  frequency(id: string): number;
  /** The file has left the cache. `aheadOnly`: it was read ahead and never requested. */
  onGone(id: string, entry: Entry, why: Why, aheadOnly: boolean): void;
}

/** evicted: to make room. rejected: not requested often enough to stay. */
export type Why = 'evicted' | 'rejected' | 'deleted';

/** Bookkeeping bytes of an entry beyond its bytes and id: list, map and Buffer. */
const ENTRY_BYTES = 240;

export function costOf(id: string, bytes: Buffer): number {
  return bytes.length + id.length + ENTRY_BYTES;
}

export class Areas {
  readonly #events: AreaEvents;
  readonly #main: LRUCache<string, Entry>;
  readonly #recent: LRUCache<string, Entry>;
  readonly #ahead: LRUCache<string, Entry>;

  constructor(maxBytes: number, aheadShare: number, policy: CachePolicy, events: AreaEvents) {
    this.#events = events;
    const recentShare = policy === 'lru' ? 1 : RECENT_SHARE;
    const recentBytes = Math.floor(maxBytes * Math.min(recentShare, 1 - aheadShare));
    const aheadBytes = Math.floor(maxBytes * aheadShare);
    const area = (bytes: number, onEvicted: (id: string, entry: Entry) => void) =>
      new LRUCache<string, Entry>({
        // No entry fits into a list of one byte.
        maxSize: Math.max(bytes, 1),
        sizeCalculation: ({ cost }) => cost,
        disposeAfter: (entry, id, reason) => {
          if (reason === 'evict') onEvicted(id, entry);
        },
      });
    this.#main = area(maxBytes - recentBytes - aheadBytes, (id, entry) =>
      events.onGone(id, entry, 'evicted', false),
    );
    this.#recent = area(recentBytes, (id, entry) => {
      if (policy === 'lru') events.onGone(id, entry, 'evicted', false);
      else if (!this.#admit(id, entry)) events.onGone(id, entry, 'rejected', false);
    });
    this.#ahead = area(aheadBytes, (id, entry) => events.onGone(id, entry, 'evicted', true));
  }

  get files(): number {
    return this.#main.size + this.#recent.size + this.#ahead.size;
  }

  /** Bytes of the files and their bookkeeping. */
  get bytes(): number {
    const { calculatedSize: mainBytes } = this.#main;
    return mainBytes + this.#recent.calculatedSize + this.#ahead.calculatedSize;
  }

  /** Does not count as a use. */
  has(id: string): boolean {
    return this.#main.has(id) || this.#recent.has(id) || this.#ahead.has(id);
  }

  /** The entry; does not count as a use. */
  peek(id: string): Entry | undefined {
    return this.#main.peek(id) ?? this.#recent.peek(id) ?? this.#ahead.peek(id);
  }

  /** The file, marked as used; `wasAhead` if nobody requested it before. */
  use(id: string): { readonly entry: Entry; readonly wasAhead: boolean } | undefined {
    const entry = this.#main.get(id) ?? this.#recent.get(id);
    if (entry) {
      entry.isAgain = true;
      return { entry, wasAhead: false };
    }
    const ahead = this.#ahead.peek(id);
    if (!ahead) return undefined;
    this.#ahead.delete(id);
    if (!this.#take(id, ahead)) this.#events.onGone(id, ahead, 'rejected', false);
    return { entry: ahead, wasAhead: true };
  }

  /** Adds a requested file. False if it is too large for `recent` and not admitted to `main`. */
  add(id: string, entry: Entry): boolean {
    this.delete(id);
    return this.#take(id, entry);
  }

  /** Adds a file that was read ahead. False if it is too large for the list. */
  addAhead(id: string, entry: Entry): boolean {
    if (entry.cost > this.#ahead.maxSize) return false;
    this.#ahead.set(id, entry);
    return true;
  }

  delete(id: string): void {
    for (const area of [this.#main, this.#recent, this.#ahead]) {
      const entry = area.peek(id);
      if (!entry) continue;
      area.delete(id);
      this.#events.onGone(id, entry, 'deleted', area === this.#ahead);
    }
  }

  *ids(): Generator<string> {
    yield* this.#main.keys();
    yield* this.#recent.keys();
    yield* this.#ahead.keys();
  }

  #take(id: string, entry: Entry): boolean {
    if (entry.cost > this.#recent.maxSize) return this.#admit(id, entry);
    this.#recent.set(id, entry);
    return true;
  }

  /** Adds the file to `main` if it is worth more than the files that it displaces. */
  #admit(id: string, entry: Entry): boolean {
    const main = this.#main;
    if (entry.cost > main.maxSize) return false;
    const excess = main.calculatedSize + entry.cost - main.maxSize;
    if (excess > 0 && !this.#isWorth(this.#frequencyOf(id, entry), excess)) return false;
    main.set(id, entry);
    return true;
  }

  /** Requests that count: in a scan, the estimate takes some files for requested twice. */
  #frequencyOf(id: string, { isAgain }: Entry): number {
    const frequency = this.#events.frequency(id);
    return isAgain || frequency > 2 ? frequency : 1;
  }

  /** True if the files at the tail that free `bytes` are together requested less often. */
  #isWorth(frequency: number, bytes: number): boolean {
    // Files in `main` were requested more often once, even if not lately.
    if (frequency < 2) return false;
    let freed = 0;
    let theirs = 0;
    for (const [id, { cost }] of this.#main.rentries() as Generator<[string, Entry]>) {
      theirs += this.#events.frequency(id);
      if (theirs >= frequency) return false;
      freed += cost;
      if (freed >= bytes) return true;
    }
    return true;
  }
}
