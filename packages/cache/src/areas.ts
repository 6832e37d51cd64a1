import { LRUCache } from 'lru-cache';

/**
 * Where the kept files are: three lists, each bounded by bytes and emptied from its
 * tail. What is asked for comes into `recent`; what falls off its end goes to `main` if
 * it was asked for more often than what would have to go for it, else it is dropped.
 * What was only read ahead is `ahead` and can push out nothing else there is; asked
 * for, it moves to `recent`. So a scan of everything passes through `recent`, reading
 * ahead passes through `ahead`, and neither empties `main`.
 */

export interface Entry {
  readonly bytes: Buffer;
  /** What the use of a file that was read ahead is credited to. */
  readonly source: string;
  /** Bytes it takes here, those of its bookkeeping among them. */
  readonly cost: number;
  /** It was asked for again while it was here. */
  isAgain?: boolean;
}

export interface AreaShares {
  readonly maxBytes: number;
  /** Shares of `maxBytes`; the rest is `main`. */
  readonly recentShare: number;
  readonly aheadShare: number;
}

export interface AreaEvents {
  /** Estimated requests of a file lately. */
  frequency(id: string): number;
  /** The file is no longer kept. `aheadOnly`: it was read ahead and never asked for. */
  onGone(id: string, entry: Entry, why: Why, aheadOnly: boolean): void;
}

/** evicted: for others. rejected: it was not asked for often enough to stay. */
export type Why = 'evicted' | 'rejected' | 'deleted';

/** What an entry costs beside its bytes and its id: list, map and Buffer. */
const ENTRY_BYTES = 240;

export function costOf(id: string, bytes: Buffer): number {
  return bytes.length + id.length + ENTRY_BYTES;
}

export class Areas {
  readonly #events: AreaEvents;
  /** False if there is no `main`: all is one list. */
  readonly #admits: boolean;
  readonly #main: LRUCache<string, Entry>;
  readonly #recent: LRUCache<string, Entry>;
  readonly #ahead: LRUCache<string, Entry> | undefined;

  constructor({ maxBytes, recentShare, aheadShare }: AreaShares, events: AreaEvents) {
    this.#events = events;
    this.#admits = recentShare + aheadShare < 1;
    const recentBytes = Math.floor(maxBytes * recentShare);
    const aheadBytes = Math.floor(maxBytes * aheadShare);
    const area = (bytes: number, onEvicted: (id: string, entry: Entry) => void) =>
      new LRUCache<string, Entry>({
        maxSize: Math.max(bytes, 1),
        sizeCalculation: ({ cost }) => cost,
        disposeAfter: (entry, id, reason) => {
          if (reason === 'evict') onEvicted(id, entry);
        },
      });
    const mainBytes = this.#admits ? maxBytes - recentBytes - aheadBytes : 0;
    this.#main = area(mainBytes, (id, entry) => this.#events.onGone(id, entry, 'evicted', false));
    this.#recent = area(recentBytes, (id, entry) => this.#offer(id, entry));
    if (aheadBytes > 0) {
      this.#ahead = area(aheadBytes, (id, entry) =>
        this.#events.onGone(id, entry, 'evicted', true),
      );
    }
  }

  get files(): number {
    return this.#main.size + this.#recent.size + (this.#ahead?.size ?? 0);
  }

  /** Of the files and their bookkeeping. */
  get bytes(): number {
    const ahead = this.#ahead?.calculatedSize ?? 0;
    return this.#main.calculatedSize + this.#recent.calculatedSize + ahead;
  }

  get aheadBytes(): number {
    return this.#ahead?.calculatedSize ?? 0;
  }

  /** Does not count as a use. */
  has(id: string): boolean {
    return this.#main.has(id) || this.#recent.has(id) || (this.#ahead?.has(id) ?? false);
  }

  /** The entry; does not count as a use. */
  peek(id: string): Entry | undefined {
    return this.#main.peek(id) ?? this.#recent.peek(id) ?? this.#ahead?.peek(id);
  }

  /** The file, as one that was used now; `wasAhead` if nobody has asked for it before. */
  use(id: string): { readonly entry: Entry; readonly wasAhead: boolean } | undefined {
    const entry = this.#main.get(id) ?? this.#recent.get(id);
    if (entry) {
      entry.isAgain = true;
      return { entry, wasAhead: false };
    }
    const ahead = this.#ahead?.peek(id);
    if (!ahead) return undefined;
    this.#ahead!.delete(id);
    if (!this.#take(id, ahead)) this.#events.onGone(id, ahead, 'rejected', false);
    return { entry: ahead, wasAhead: true };
  }

  /** A file that was asked for. False if it is too large for its area. */
  add(id: string, entry: Entry): boolean {
    this.delete(id);
    return this.#take(id, entry);
  }

  /** A file that may be asked for. False if there is no place for such files. */
  addAhead(id: string, entry: Entry): boolean {
    if (!this.#ahead || entry.cost > this.#ahead.maxSize) return false;
    this.#ahead.set(id, entry);
    return true;
  }

  delete(id: string): boolean {
    for (const area of [this.#main, this.#recent, this.#ahead]) {
      const entry = area?.peek(id);
      if (!area || !entry) continue;
      area.delete(id);
      this.#events.onGone(id, entry, 'deleted', area === this.#ahead);
      return true;
    }
    return false;
  }

  *ids(): Generator<string> {
    yield* this.#main.keys();
    yield* this.#recent.keys();
    if (this.#ahead) yield* this.#ahead.keys();
  }

  #take(id: string, entry: Entry): boolean {
    if (entry.cost > this.#recent.maxSize) return this.#admit(id, entry);
    this.#recent.set(id, entry);
    return true;
  }

  #offer(id: string, entry: Entry): void {
    if (this.#admit(id, entry)) return;
    this.#events.onGone(id, entry, this.#admits ? 'rejected' : 'evicted', false);
  }

  /** Takes the file into `main` if that is worth those who have to go for it. */
  #admit(id: string, entry: Entry): boolean {
    const main = this.#main;
    if (entry.cost > main.maxSize) return false;
    const excess = main.calculatedSize + entry.cost - main.maxSize;
    if (excess > 0 && !this.#isWorth(this.#frequencyOf(id, entry), excess)) return false;
    main.set(id, entry);
    return true;
  }

  /** Requests that count: in a scan, the estimate takes some files for asked for twice. */
  #frequencyOf(id: string, { isAgain }: Entry): number {
    const frequency = this.#events.frequency(id);
    return isAgain || frequency > 2 ? frequency : 1;
  }

  /** True if those at the tail that give `bytes` are asked for less often together. */
  #isWorth(frequency: number, bytes: number): boolean {
    // Even those that nobody has asked for lately were asked for more often once.
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
