import { DownloadFlag, type FileId, formatFileId } from '@stevedore/protocol';
import type { Deadline } from '../deadline.js';
import { Elsewhere, FastdfsError } from '../errors.js';
import type { Context } from './context.js';
import type { ReadOptions } from './reading.js';

/**
 * Reads a file whose bytes its storage has moved to another group. The first read of one is
 * answered with its place there, an id like any other, which is read from and remembered for
 * a while. Where a place does not answer, the file's own storage is asked, which fetches it.
 */
export async function readAtPlace<T>(
  { places, settings }: Context,
  id: FileId,
  deadline: Deadline,
  { storage }: ReadOptions,
  read: (at: FileId, flags: number) => Promise<T>,
): Promise<T> {
  // Who names a storage wants that one's answer.
  if (!settings.followMoves || storage) return read(id, 0);
  const key = formatFileId(id);
  let place = places.get(key);
  if (!place) {
    try {
      return await read(id, DownloadFlag.placeWanted);
    } catch (error) {
      if (!(error instanceof Elsewhere)) throw error;
      place = error.place;
      places.set(key, place);
    }
  }
  try {
    return await read(place, 0);
  } catch (error) {
    deadline.throwIfEnded();
    if (!(error instanceof FastdfsError) || error.code === 'too_large') throw error;
    places.delete(key);
    return read(id, 0);
  }
}
