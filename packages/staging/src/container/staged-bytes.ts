import { crc32 } from 'node:zlib';
import { isMediumFailure } from '@stevedore/disk';
import type { FileRow } from '../filemap/filemap.js';
import type { Container } from './container.js';
import { Unreadable } from './firm-read.js';
import type { Segment } from './segment.js';

/** A small file's bytes in the container: all of them, as they were acknowledged, or none. */

type Place = Pick<FileRow, 'segment' | 'position' | 'size' | 'crc32'>;

/**
 * Undefined when they are not there, are not what was stored, or cannot be read. Rejects
 * where another attempt may tell otherwise.
 */
export async function soundBytes(
  container: Pick<Container, 'segment'>,
  row: Place,
): Promise<Buffer | undefined> {
  try {
    const bytes = await container.segment(row.segment)?.readFirmly(row.position, row.size);
    return bytes?.length === row.size && crc32(bytes) === row.crc32 ? bytes : undefined;
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

/** What a disk gives or refuses at a time. */
const PIECE_BYTES = 4096;

/** What can be read of them, with zeros for the rest. */
export async function readableBytes(segment: Segment, row: Place): Promise<Buffer> {
  const bytes = Buffer.alloc(row.size);
  for (let at = 0; at < row.size; ) {
    // Up to the next border of a piece in the file.
    const from = row.position + at;
    const count = Math.min(PIECE_BYTES - (from % PIECE_BYTES), row.size - at);
    try {
      bytes.set(await segment.read(from, count), at);
    } catch (error) {
      if (!isMediumFailure(error)) throw error;
    }
    at += count;
  }
  return bytes;
}
