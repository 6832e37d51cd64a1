import type { FileId } from '@stevedore/protocol';
import { LRUCache } from 'lru-cache';

/** The places of files whose bytes are in another group, as their storages named them lately. */

const MAX_PLACES = 10_000;
/** A file that another client deletes can be read for so long after that. */
const KEPT_MS = 10_000;

export class Places {
  readonly #places = new LRUCache<string, FileId>({ max: MAX_PLACES, ttl: KEPT_MS });

  of(id: FileId): FileId | undefined {
    return this.#places.get(keyOf(id));
  }

  set(id: FileId, place: FileId): void {
    this.#places.set(keyOf(id), place);
  }

  forget(id: FileId): void {
    this.#places.delete(keyOf(id));
  }
}

function keyOf({ group, name }: FileId): string {
  return `${group}/${name}`;
}
