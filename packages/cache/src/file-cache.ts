import { Areas, costOf, type Entry, type Why } from './areas.js';
import { CheapHashing, MemberFilter } from './bloom-filter.js';
import { Flights, type Load } from './flights.js';
import { Frequency } from './frequency.js';
import { ReadAhead } from './read-ahead.js';
import { CacheCounters, type FileCacheStats } from './stats.js';

/**
 * A cache of whole files, bounded by bytes, as the data node paper has it: the filter
 * is asked first, then the list; what is not there is loaded and put at its head, and
 * files go from its tail until it fits. README.md says what is added to the paper.
 *
 * Promises: never more bytes than `maxBytes`; what `delete` was called for is not
 * given out by any `get` that begins afterwards, even if it was being loaded; all
 * concurrent misses of a file are one load.
 */
export interface FileCacheOptions {
  /** Bytes kept at the most, bookkeeping included; 0 keeps nothing (loads are still shared). */
  readonly maxBytes: number;
  /** A file larger than this share of `maxBytes` is not kept. Default one eighth. */
  readonly maxFileShare?: number;
  /** The Bloom filter in front. Default false: the map behind it is as fast. */
  readonly filter?: boolean;
  /** False: everything that is asked for is kept, as in the paper. Default true. */
  readonly admission?: boolean;
  /** Share of `maxBytes` for what is read ahead and was not asked for yet. Default 0. */
  readonly aheadShare?: number;
  /** How long a file that was not found is believed to be absent. Default 1000; 0: not at all. */
  readonly absentMs?: number;
  /** Milliseconds of a clock that only runs forward. Default performance.now. */
  readonly now?: () => number;
}

const DEFAULT_FILE_SHARE = 1 / 8;
/** Of the cache, for what was asked for once and may or may not be asked for again. */
const RECENT_SHARE = 1 / 8;
const MAX_ABSENT_IDS = 4096;
const DEFAULT_ABSENT_MS = 1000;
/** Files that the tables are made for at first; they grow with what is kept. */
const MIN_TABLE_FILES = 1024;
const MAX_TABLE_FILES = 2 ** 21;
/** Reading ahead must be asked for to this part, or it is left. */
const MIN_USED_SHARE = 0.25;
const MAX_SOURCES = 4096;

export class FileCache {
  /** Decides whether to read ahead; learns from what becomes of it. */
  readonly readAhead = new ReadAhead({ minUsedShare: MIN_USED_SHARE, maxSources: MAX_SOURCES });
  readonly #maxFileBytes: number;
  readonly #areas: Areas | undefined;
  readonly #hashing = new CheapHashing();
  #filter: MemberFilter | undefined;
  readonly #frequency: Frequency;
  #tableFiles = MIN_TABLE_FILES;
  readonly #flights: Flights;
  readonly #absent: AbsentIds;
  readonly #counters = new CacheCounters();

  constructor(options: FileCacheOptions) {
    const { maxBytes, maxFileShare = DEFAULT_FILE_SHARE, admission = true } = options;
    const frequency = new Frequency(this.#tableFiles, this.#hashing);
    this.#maxFileBytes = Math.floor(maxBytes * maxFileShare);
    this.#frequency = frequency;
    this.#absent = new AbsentIds({
      maxIds: MAX_ABSENT_IDS,
      keptMs: options.absentMs ?? DEFAULT_ABSENT_MS,
      now: options.now ?? (() => performance.now()),
    });
    this.#flights = new Flights({
      isKept: (id) => this.#areas?.has(id) ?? false,
      onLoaded: (id, bytes) => this.#keep(id, bytes),
      onAbsent: (id) => this.#absent.add(id),
      onBeside: (id, bytes, source, wanted) => this.#keepBeside(id, bytes, source, wanted),
    });
    if (maxBytes === 0) return;
    if (options.filter) this.#filter = new MemberFilter(this.#tableFiles, this.#hashing);
    // Without admission there is one list, as in the paper: all of it is `recent`.
    const aheadShare = options.aheadShare ?? 0;
    const recentShare = admission ? Math.min(RECENT_SHARE, 1 - aheadShare) : 1 - aheadShare;
    const shares = { maxBytes, recentShare, aheadShare };
    this.#areas = new Areas(shares, {
      frequency: (id) => frequency.estimate(id),
      onGone: (id, entry, why, aheadOnly) => this.#noteGone(id, entry, why, aheadOnly),
    });
  }

  /** Larger files are never kept: no need to hold one in memory for the cache's sake. */
  get maxFileBytes(): number {
    return this.#maxFileBytes;
  }

  /** The file from memory, by `load`, or undefined if `load` finds none. A failed load fails all that wait for it. */
  async get(
    id: string,
    load: Load,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Buffer | undefined> {
    options.signal?.throwIfAborted();
    return this.find(id) ?? this.fetch(id, load, options.signal);
  }

  /** As `get`, for a file that `find` has just not found: a caller that finds it at once does not wait. */
  async fetch(id: string, load: Load, signal?: AbortSignal): Promise<Buffer | undefined> {
    if (this.#absent.has(id)) {
      this.#counters.absentAnswers += 1;
      return undefined;
    }
    if (this.#flights.isUnderWay(id)) this.#counters.sharedLoads += 1;
    else this.#counters.loads += 1;
    const bytes = await this.#flights.get(id, load, signal);
    if (bytes) this.#counters.missBytes += bytes.length;
    return bytes;
  }

  /** The file if it is in memory; counts as a request. */
  find(id: string): Buffer | undefined {
    const counters = this.#counters;
    const asked = this.#frequency.count(id);
    const found = this.#lookUp(id);
    if (!found) {
      if (asked) counters.missesAgain += 1;
      else counters.missesFirst += 1;
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
    return this.#areas?.peek(id)?.bytes;
  }

  /**
   * Keeps a file that was just made, before anyone asks for it. Its pieces are copied, unless
   * there is one, in memory of its own, that is `given`: nobody changes it any more.
   */
  put(id: string, pieces: readonly Uint8Array[], size: number, given = false): void {
    if (!this.#areas || size > this.#maxFileBytes) return;
    const [only] = pieces;
    const isKept = given && pieces.length === 1 && Buffer.isBuffer(only) && isAlone(only);
    this.#absent.delete(id);
    this.#list(this.#areas, id, isKept ? only : joined(pieces, size));
  }

  /** Does not count as a request. */
  has(id: string): boolean {
    return this.#areas?.has(id) ?? false;
  }

  /** Kept or on its way. */
  isComing(id: string): boolean {
    return this.has(id) || this.#flights.isUnderWay(id);
  }

  /** The file was made, changed or deleted: nothing that is known of it holds any more. */
  delete(id: string): void {
    this.#absent.delete(id);
    this.#flights.forget(id);
    this.#areas?.delete(id);
  }

  /** Deletes all files whose id begins so. Looks at every file: for rare events. */
  deletePrefix(prefix: string): void {
    this.#flights.forgetAll((id) => id.startsWith(prefix));
    if (!this.#areas) return;
    for (const id of [...this.#areas.ids()]) if (id.startsWith(prefix)) this.#areas.delete(id);
  }

  stats(): FileCacheStats {
    const tableBytes = this.#frequency.byteLength + (this.#filter?.byteLength ?? 0);
    return this.#counters.stats({
      files: this.#areas?.files ?? 0,
      bytes: this.#areas?.bytes ?? 0,
      tableBytes,
      readAhead: this.readAhead.stats(),
    });
  }

  #lookUp(id: string): ReturnType<Areas['use']> {
    if (!this.#areas) return undefined;
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
    if (!this.#areas) return own(loaded);
    if (loaded.length > this.#maxFileBytes) {
      this.#counters.tooLarge += 1;
      return own(loaded);
    }
    const bytes = own(loaded);
    this.#list(this.#areas, id, bytes);
    return bytes;
  }

  #list(areas: Areas, id: string, bytes: Buffer): void {
    const entry = { bytes, source: '', cost: costOf(id, bytes) };
    // Before the lists: whatever goes for it, itself perhaps, is taken out again.
    this.#filter?.add(id);
    if (!areas.add(id, entry)) this.#filter?.remove(id);
    this.#fitTables(areas);
  }

  /** Tables for twice the files that they were made for, once there are so many. */
  #fitTables(areas: Areas): void {
    if (areas.files <= this.#tableFiles || this.#tableFiles >= MAX_TABLE_FILES) return;
    this.#tableFiles *= 2;
    this.#frequency.growTo(this.#tableFiles);
    if (!this.#filter) return;
    this.#filter = new MemberFilter(this.#tableFiles, this.#hashing);
    for (const id of areas.ids()) this.#filter.add(id);
  }

  #keepBeside(id: string, loaded: Buffer, source: string, wanted: boolean): Buffer {
    this.readAhead.noteRead(loaded.length);
    if (wanted) {
      this.readAhead.noteUsed(source, loaded.length);
      return this.#keep(id, loaded);
    }
    if (!this.#areas || loaded.length > this.#maxFileBytes) return loaded;
    const bytes = own(loaded);
    this.#filter?.add(id);
    const entry = { bytes, source, cost: costOf(id, bytes) };
    if (!this.#areas.addAhead(id, entry)) this.#filter?.remove(id);
    this.#fitTables(this.#areas);
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

/** The bytes in memory of their own: a view would keep all that it looks into. */
function own(bytes: Buffer): Buffer {
  if (isAlone(bytes)) return bytes;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

function joined(pieces: readonly Uint8Array[], size: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

function isAlone(bytes: Buffer): boolean {
  return bytes.buffer.byteLength === bytes.length;
}

/**
 * Ids that were looked for and not found, for a short time and in a bounded number:
 * a page that names a missing file does not ask the disk for it at every view.
 */
interface AbsentIdsOptions {
  readonly maxIds: number;
  readonly keptMs: number;
  /** Milliseconds of a clock that only runs forward. */
  readonly now: () => number;
}

class AbsentIds {
  readonly #options: AbsentIdsOptions;
  /** Until when each is believed to be absent; oldest first. */
  readonly #untilMs = new Map<string, number>();

  constructor(options: AbsentIdsOptions) {
    this.#options = options;
  }

  has(id: string): boolean {
    const untilMs = this.#untilMs.get(id);
    if (untilMs === undefined) return false;
    if (this.#options.now() < untilMs) return true;
    this.#untilMs.delete(id);
    return false;
  }

  add(id: string): void {
    const { maxIds, keptMs, now } = this.#options;
    if (maxIds === 0 || keptMs === 0) return;
    this.#untilMs.delete(id);
    this.#untilMs.set(id, now() + keptMs);
    if (this.#untilMs.size <= maxIds) return;
    for (const oldest of this.#untilMs.keys()) {
      this.#untilMs.delete(oldest);
      return;
    }
  }

  /** There is such a file now, or may be. */
  delete(id: string): void {
    this.#untilMs.delete(id);
  }
}
