import { LRUCache } from 'lru-cache';

/**
 * A cache of whole files, bounded by bytes, least recently used first out. Misses
 * for one file that come at the same time share one load. A file larger than a
 * share of the cache is handed through and not kept.
 */
export interface FileCacheOptions {
  /** Bytes kept at the most; 0 keeps nothing (loads are still shared). */
  readonly maxBytes: number;
  /** A file larger than this share of `maxBytes` is not kept. Default one eighth. */
  readonly maxFileShare?: number;
}

export interface FileCacheStats {
  readonly hits: number;
  readonly misses: number;
  /** Misses that waited for a load which was already under way. */
  readonly sharedLoads: number;
  readonly files: number;
  readonly bytes: number;
}

const DEFAULT_SHARE = 1 / 8;
/** What an entry costs beside its bytes. */
const ENTRY_BYTES = 200;

export class FileCache {
  readonly #files: LRUCache<string, Buffer> | undefined;
  readonly #loading = new Map<string, Promise<Buffer>>();
  readonly #maxFileBytes: number;
  #hits = 0;
  #misses = 0;
  #sharedLoads = 0;

  constructor({ maxBytes, maxFileShare = DEFAULT_SHARE }: FileCacheOptions) {
    this.#maxFileBytes = Math.floor(maxBytes * maxFileShare);
    if (maxBytes === 0) return;
    this.#files = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: (bytes) => bytes.length + ENTRY_BYTES,
    });
  }

  /** The file, from memory or by `load`; a failed load fails all that wait for it. */
  async get(id: string, load: () => Promise<Buffer>): Promise<Buffer> {
    const cached = this.#files?.get(id);
    if (cached) {
      this.#hits += 1;
      return cached;
    }
    this.#misses += 1;
    const underWay = this.#loading.get(id);
    if (underWay) {
      this.#sharedLoads += 1;
      return underWay;
    }
    const loading = load().finally(() => this.#loading.delete(id));
    this.#loading.set(id, loading);
    const bytes = await loading;
    this.set(id, bytes);
    return bytes;
  }

  set(id: string, bytes: Buffer): void {
    if (bytes.length <= this.#maxFileBytes) this.#files?.set(id, bytes);
  }

  delete(id: string): void {
    this.#files?.delete(id);
  }

  stats(): FileCacheStats {
    return {
      hits: this.#hits,
      misses: this.#misses,
      sharedLoads: this.#sharedLoads,
      files: this.#files?.size ?? 0,
      bytes: this.#files?.calculatedSize ?? 0,
    };
  }
}
