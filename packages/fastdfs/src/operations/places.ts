import { DownloadFlag, type FileId } from '@stevedore/protocol';
import { LRUCache } from 'lru-cache';
import type { Deadline } from '../deadline.js';
import { Elsewhere, FastdfsError } from '../errors.js';
import type { Context } from './context.js';
import type { ReadOptions } from './reading.js';

/**
 * Files whose bytes their storage has moved to another group. The first read of one is
 * answered with its place there, an id like any other, which is read from and remembered for
 * a while. Where a place does not answer, the file's own storage is asked, which fetches it.
 */

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

export async function readAtPlace<T>(
  { places, settings }: Context,
  id: FileId,
  deadline: Deadline,
  { storage }: ReadOptions,
  read: (at: FileId, flags: number) => Promise<T>,
): Promise<T> {
  // Who names a storage wants that one's answer.
  if (!settings.followMoves || storage) return read(id, 0);
  let place = places.of(id);
  if (!place) {
    try {
      return await read(id, DownloadFlag.placeWanted);
    } catch (error) {
      if (!(error instanceof Elsewhere)) throw error;
      place = error.place;
      places.set(id, place);
    }
  }
  try {
    return await read(place, 0);
  } catch (error) {
    deadline.throwIfEnded();
    if (!(error instanceof FastdfsError) || error.code === 'too_large') throw error;
    places.forget(id);
    return read(id, 0);
  }
}

function keyOf({ group, name }: FileId): string {
  return `${group}/${name}`;
}
