import bloomFilters from 'bloom-filters';
import { LRUCache } from 'lru-cache';
import { Areas, type CachePolicy, costOf, type Entry, type Why } from './areas.js';
import { Flights, type Load } from './flights.js';
import { Frequency } from './frequency.js';
import { ReadAhead } from './read-ahead.js';
import { CacheCounters, type FileCacheStats } from './stats.js';

/**
 * A cache of whole files, bounded by bytes, after the data node paper: the filter is asked first,
 * then the list; a missing file is loaded and put at the head, and files are evicted from the tail
 * until it fits. README.md lists the additions to the paper.
 *
 * Promises: the cache never holds more than `maxBytes`; no `get` that begins after a `delete`
 * returns the deleted content, even if it was being loaded; all concurrent misses of a file share
 * one load.
 */
export interface FileCacheOptions {
  /** Most bytes cached, including bookkeeping; 0 caches nothing (loads are still shared). */
  readonly maxBytes: number;
  /** Puts the paper's Bloom filter in front. Default false: the map behind it is faster. */
  readonly filter?: boolean;
  /** Default `admission`. */
  readonly policy?: CachePolicy;
  /** Share of `maxBytes` for files read ahead and not requested yet; 1: only for them. Default 0. */
  readonly aheadShare?: number;
  /** Milliseconds of a clock that only runs forward. Default performance.now. */
  readonly now?: () => number;
}

/** A file larger than this share of the cache is not cached. */
const MAX_FILE_SHARE = 1 / 8;
const MAX_ABSENT_IDS = 4096;
/** How long a missing file is taken for absent. */
const ABSENT_MS = 1000;
/** Files that the tables are sized for at first; they grow with the cached files. */
const MIN_TABLE_FILES = 1024;
const MAX_TABLE_FILES = 2 ** 21;

type CountingFilter = InstanceType<typeof bloomFilters.CountingBloomFilter>;

/** The paper's. */
const FILTER_HASHES = 3;
/** Places per file for 1 % of wrong "maybe" with three hashes. */
const FILTER_PLACES = 12.4;
/** Memory of a place: an array of two numbers. */
const FILTER_PLACE_BYTES = 40;
/** With more files than there is room for of this size, or than at most, more answers are "maybe". */
const FILTER_FILE_BYTES = 512;
const MAX_FILTER_FILES = 2 ** 17;
/** Reading ahead stops if a smaller share of its bytes is requested. */
const MIN_USED_SHARE = 0.25;
const MAX_SOURCES = 4096;

export class FileCache {
  /** Decides whether to read ahead. */
  readonly readAhead = new ReadAhead({ minUsedShare: MIN_USED_SHARE, maxSources: MAX_SOURCES });
  readonly maxBytes: number;
  readonly #maxFileBytes: number;
  readonly #areas: Areas;
  readonly #policy: CachePolicy;
  /** A "no" means that the file is not here. It counts files, to forget those that were evicted. */
  readonly #filter: CountingFilter | undefined;
  readonly #frequency: Frequency;
  #tableFiles = MIN_TABLE_FILES;
  readonly #flights: Flights;
  /**
   * Ids that were not found, for a short time, so that a page that names a missing file does not
   * cause a disk lookup at every view.
   */
  readonly #absent: LRUCache<string, true>;
  readonly #counters = new CacheCounters();

  constructor(options: FileCacheOptions) {
    const { maxBytes, filter = false, policy = 'admission', aheadShare = 0 } = options;
    const { now = () => performance.now() } = options;
    const frequency = new Frequency(this.#tableFiles);
    this.maxBytes = maxBytes;
    this.#maxFileBytes = Math.floor(maxBytes * MAX_FILE_SHARE);
    this.#frequency = frequency;
    this.#absent = new LRUCache({
      max: MAX_ABSENT_IDS,
      ttl: ABSENT_MS,
      ttlResolution: 0,
      perf: { now },
    });
    this.#flights = new Flights({
      isKept: (id) => this.has(id),
      onLoaded: (id, bytes) => this.#keep(id, bytes),
      onAbsent: (id) => this.#absent.set(id, true),
      onBeside: (id, bytes, source, wanted) => this.#keepBeside(id, bytes, source, wanted),
    });
    if (filter) {
      // Never grows: to hash all files anew would hold the event loop for seconds.
      const files = Math.min(MAX_FILTER_FILES, Math.ceil(maxBytes / FILTER_FILE_BYTES) + 1);
      const places = Math.ceil(files * FILTER_PLACES);
      this.#filter = new bloomFilters.CountingBloomFilter(places, FILTER_HASHES);
    }
    this.#policy = policy;
    this.#areas = new Areas(maxBytes, aheadShare, policy, {
      frequency: (id) => frequency.estimate(id),
      onGone: (id, entry, why, aheadOnly) => this.#noteGone(id, entry, why, aheadOnly),
    });
  }

  /** Larger files are never cached: a caller need not hold one in memory for the cache. */
  get maxFileBytes(): number {
    return this.#maxFileBytes;
  }

  /**
   * The file from memory or from `load`; undefined if `load` finds none. A failed load fails all
   * callers that wait for it.
   */
  async get(
    id: string,
    load: Load,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Buffer | undefined> {
    options.signal?.throwIfAborted();
    return this.find(id) ?? this.fetch(id, load, options.signal);
  }

  /**
   * As `get`, for a load that takes no time, and whose bytes may be there for this turn only.
   * Undefined, and not counted as a request, if `load` gives nothing or another load of the file is
   * under way.
   */
  getNow(id: string, load: () => Buffer | undefined): Buffer | undefined {
    if (this.has(id)) return this.find(id);
    const bytes = this.#flights.isUnderWay(id) ? undefined : load();
    if (!bytes) return undefined;
    this.#countMiss(this.#countRequest(id));
    return this.#loadedNow(id, bytes, true);
  }

  /**
   * As `getNow`, after `find` has missed, for a load that costs less than keeping its file: with
   * admission, the file is kept only once it is asked for again.
   */
  fetchNow(id: string, load: () => Buffer | undefined): Buffer | undefined {
    const isKnown = this.#flights.isUnderWay(id) || this.#isAbsent(id);
    const bytes = isKnown ? undefined : load();
    const isKept = this.#policy === 'lru' || this.#frequency.estimate(id) > 1;
    return bytes && this.#loadedNow(id, bytes, isKept);
  }

  #loadedNow(id: string, bytes: Buffer, isKept: boolean): Buffer {
    this.#counters.loads += 1;
    this.#counters.missBytes += bytes.length;
    return own(isKept ? this.#keep(id, bytes) : bytes);
  }

  /**
   * As `get`, after `find` has missed. Call `find` first to get a hit without waiting. `isOwn`:
   * nobody else has what it gives, provided that nobody has what `load` gives; only what is cached
   * or shared is copied.
   */
  async fetch(
    id: string,
    load: Load,
    signal?: AbortSignal,
    isOwn = false,
  ): Promise<Buffer | undefined> {
    if (this.#isAbsent(id)) {
      this.#counters.absentAnswers += 1;
      return undefined;
    }
    if (this.#flights.isUnderWay(id)) this.#counters.sharedLoads += 1;
    else this.#counters.loads += 1;
    const bytes = await this.#flights.get(id, load, signal, isOwn);
    if (bytes) this.#counters.missBytes += bytes.length;
    return bytes;
  }

  /** The file if it is in memory; counts as a request. */
  find(id: string): Buffer | undefined {
    const counters = this.#counters;
    const isAgain = this.#countRequest(id);
    const found = this.#maxFileBytes > 0 ? this.#lookUp(id) : undefined;
    if (!found) {
      this.#countMiss(isAgain);
      return undefined;
    }
    const { entry, wasAhead } = found;
    counters.hits += 1;
    counters.hitBytes += entry.bytes.length;
    if (wasAhead) this.readAhead.noteUsed(entry.source, entry.bytes.length);
    return entry.bytes;
  }

  /** The file if it is in memory; does not count as a request. */
  peek(id: string): Buffer | undefined {
    return this.#areas.peek(id)?.bytes;
  }

  /** Does not count as a request. */
  has(id: string): boolean {
    return this.#maxFileBytes > 0 && this.#areas.has(id);
  }

  /** Cached or in flight. */
  isComing(id: string): boolean {
    return this.has(id) || this.#flights.isUnderWay(id);
  }

  /** Call it when the file was created, changed or deleted: drops all that is known of it. */
  delete(id: string): void {
    this.#absent.delete(id);
    this.#flights.forget(id);
    this.#areas.delete(id);
  }

  /** Deletes all files whose id has this prefix. Scans every file: for rare events. */
  deletePrefix(prefix: string): void {
    this.#flights.forgetAll((id) => id.startsWith(prefix));
    for (const id of [...this.#areas.ids()]) if (id.startsWith(prefix)) this.#areas.delete(id);
  }

  stats(): FileCacheStats {
    const filterBytes = (this.#filter?.size ?? 0) * FILTER_PLACE_BYTES;
    const tableBytes = this.#frequency.byteLength + filterBytes;
    return this.#counters.stats({
      files: this.#areas.files,
      bytes: this.#areas.bytes,
      tableBytes,
      readAhead: this.readAhead.stats(),
    });
  }

  #isAbsent(id: string): boolean {
    return this.#absent.size > 0 && this.#absent.has(id);
  }

  /** For admission; what is never cached need not be admitted. True if it was requested before. */
  #countRequest(id: string): boolean {
    return this.#maxFileBytes > 0 && this.#frequency.count(id);
  }

  #countMiss(isAgain: boolean): void {
    if (isAgain) this.#counters.missesAgain += 1;
    else this.#counters.missesFirst += 1;
  }

  #lookUp(id: string): ReturnType<Areas['use']> {
    if (!this.#filter) return this.#areas.use(id);
    if (!this.#filter.has(id)) {
      this.#counters.filterNo += 1;
      return undefined;
    }
    const found = this.#areas.use(id);
    if (!found) this.#counters.filterFalse += 1;
    return found;
  }

  #keep(id: string, loaded: Buffer): Buffer {
    if (loaded.length > this.#maxFileBytes) {
      this.#counters.tooLarge += 1;
      return loaded;
    }
    const bytes = own(loaded);
    const entry = { bytes, source: '', cost: costOf(id, bytes) };
    // Adds to the filter first: the lists remove whatever they evict, maybe this file itself.
    this.#filter?.add(id);
    if (!this.#areas.add(id, entry)) this.#filter?.remove(id);
    this.#fitTables();
    return bytes;
  }

  /** Doubles the tables once there are more files than they are sized for. */
  #fitTables(): void {
    const areas = this.#areas;
    if (areas.files <= this.#tableFiles || this.#tableFiles >= MAX_TABLE_FILES) return;
    this.#tableFiles *= 2;
    this.#frequency.growTo(this.#tableFiles);
  }

  #keepBeside(id: string, loaded: Buffer, source: string, wanted: boolean): Buffer {
    this.readAhead.noteRead(loaded.length);
    if (wanted) {
      this.readAhead.noteUsed(source, loaded.length);
      return this.#keep(id, loaded);
    }
    if (loaded.length > this.#maxFileBytes) return loaded;
    const bytes = own(loaded);
    this.#filter?.add(id);
    const entry = { bytes, source, cost: costOf(id, bytes) };
    if (!this.#areas.addAhead(id, entry)) this.#filter?.remove(id);
    this.#fitTables();
    return bytes;
  }

  #noteGone(id: string, { bytes, source }: Entry, why: Why, aheadOnly: boolean): void {
    this.#filter?.remove(id);
    if (aheadOnly) this.readAhead.noteUnused(source, bytes.length);
    if (why === 'deleted') return;
    this.#counters[why] += 1;
    this.#counters.goneBytes += bytes.length;
  }
}

/** The bytes in memory of their own: a view would retain all that it looks into. */
function own(bytes: Buffer): Buffer {
  // A reply's buffer has a byte more than its file.
  if (bytes.buffer.byteLength - bytes.length <= 1) return bytes;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
