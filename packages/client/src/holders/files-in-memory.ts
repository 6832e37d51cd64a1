import { originOf } from '@stevedore/map';
import { parseKey } from '@stevedore/staging';
import { getChannel } from '../store/channels.js';
import type { StoredFile } from '../store/types.js';
import type { HolderContext } from './holder.js';
import type { Holders } from './holders.js';

/** A small file in memory, verified when it was loaded. */
export interface CachedFile {
  readonly key: string;
  readonly bytes: Buffer;
  /** When the file expires, in Unix milliseconds; Infinity if never. */
  readonly expiresAt: number;
}

export type CachedFiles = Pick<FilesInMemory, keyof FilesInMemory>;

/**
 * Files in memory, for a server that answers the same requests repeatedly: no I/O and no waiting. A
 * cached file is always the same object.
 */
export class FilesInMemory {
  readonly #holders: Holders;
  readonly #context: HolderContext;
  readonly #known = new WeakMap<Buffer, CachedFile>();

  constructor(holders: Holders, context: HolderContext) {
    this.#holders = holders;
    this.#context = context;
  }

  /** Of the files in memory, at most. */
  get maxBytes(): number {
    return this.#context.reader.cache.maxBytes;
  }

  /**
   * Undefined if it is not in memory; the file may still exist. Pass `known` if you have just looked
   * the file up, to save another lookup.
   */
  get(key: string, known?: Pick<StoredFile, 'expiresAt'>): CachedFile | undefined {
    const bytes = this.#isCurrent(key) ? this.#context.reader.cache.find(key) : undefined;
    if (!bytes) return undefined;
    let file = this.#known.get(bytes);
    if (!file) {
      const id = parseKey(key)!;
      const found = known ?? this.#holders.of(id, true).staging.fileMap.find(id);
      if (!found) return undefined;
      file = { key, bytes, expiresAt: Number(found.expiresAt ?? Number.POSITIVE_INFINITY) };
      this.#known.set(bytes, file);
    }
    return file.expiresAt > this.#context.now() ? file : undefined;
  }

  /** True if its bytes are in memory; does not count as a use. */
  has(key: string): boolean {
    return this.#context.reader.cache.has(key);
  }

  /**
   * True while `get` would return this file again, unless it has expired. It is cheaper than `get`,
   * but does not count as a use: a caller that keeps using a file calls `get` now and then.
   */
  isCurrent({ key, bytes }: CachedFile): boolean {
    return this.#context.reader.cache.peek(key) === bytes && this.#isCurrent(key);
  }

  /** Counts a read: the bytes were sent. */
  served({ bytes }: CachedFile): void {
    this.#context.reader.reads.count(bytes.length);
  }

  /** False if reads must be published, or once another process has deleted the file. */
  #isCurrent(key: string): boolean {
    if (getChannel.hasSubscribers || !this.#context.reader.reads.mayBeNow) return false;
    const { own, all, elsewhere } = this.#holders;
    // Its own deletions reach the cache directly.
    if (!elsewhere && all.length === 1) return true;
    const id = parseKey(key);
    if (!id) return true;
    const issuer = this.#holders.issuerOf(originOf(id));
    if (issuer === own) return true;
    if (!issuer) return elsewhere?.isCurrent(id) ?? true;
    // Its own process may not have heard yet what another server has deleted.
    return issuer.staging.fileMap.isAlive(id) && !this.#context.deployment?.isKnownRemoved(id);
  }
}
