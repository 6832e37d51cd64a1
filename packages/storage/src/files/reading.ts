import type { DiskFile } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';
import type { ReadableFile } from './file-backend.js';

/** Ways to read files. */

/** Bytes of a copy that are held in memory. */
const COPY_BYTES = 1024 * 1024;

/** Fills the target; a file that ends before is an error. */
export async function readInto(
  target: Buffer,
  file: ReadableFile,
  position: number,
): Promise<Buffer> {
  const read = await file.readAt(target, position);
  if (read < target.length) throw new Error(`a file is ${target.length - read} bytes short`);
  return target;
}

/** Copies the first bytes of a file to a place in another one. */
export async function copyBytes(
  from: ReadableFile,
  bytes: number,
  to: DiskFile,
  position: number,
): Promise<void> {
  for (let at = 0; at < bytes; at += COPY_BYTES) {
    const chunk = Buffer.allocUnsafe(Math.min(COPY_BYTES, bytes - at));
    await to.writeAt([await readInto(chunk, from, at)], position + at);
  }
}

/** Undefined where status 2 says that there is nothing. */
export async function ifThere<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (error instanceof StatusError && error.status === Status.notFound) return undefined;
    throw error;
  }
}
