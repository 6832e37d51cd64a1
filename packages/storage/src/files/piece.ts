import { basename, dirname } from 'node:path';
import type { Disk, DiskFile } from '@stevedore/disk';
import type { Payload } from '@stevedore/wire';
import { pieceName } from '../layout.js';
import { newFileOnDisk } from './files-on-disk.js';
import { IncomingFile } from './incoming-file.js';

/**
 * Bytes for a file that is there already. All of them are here before the file
 * is touched, so that a client that goes away in the middle changes nothing:
 * in memory if they are few, else in a temporary file.
 */

const MEMORY_BYTES = 64 * 1024;
const COPY_BYTES = 1024 * 1024;

export interface Piece {
  readonly bytes: number;
  /** The bytes, if they are in memory. */
  readonly chunks: readonly Buffer[];
  /** Name of the temporary file that has them otherwise. */
  readonly name: string | undefined;
  /** Makes a temporary file outlive a power failure. */
  sync(): Promise<void>;
  writeTo(file: DiskFile, position: number): Promise<void>;
  /** Removes what the piece takes; call it once. */
  discard(): Promise<void>;
}

/** Receives the whole payload. */
export function receivePiece(
  disk: Disk,
  temporaryFile: () => string,
  payload: Payload,
): Promise<Piece> {
  return payload.remaining <= MEMORY_BYTES
    ? inMemory(payload)
    : inTemporaryFile(disk, pieceName(temporaryFile()), payload);
}

async function inMemory(payload: Payload): Promise<Piece> {
  const chunks: Buffer[] = [];
  while (payload.remaining > 0) chunks.push(...(await payload.next()));
  return {
    bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0),
    chunks,
    name: undefined,
    sync: async () => {},
    writeTo: (file, position) => file.writeAt(chunks, position),
    discard: async () => {},
  };
}

async function inTemporaryFile(disk: Disk, path: string, payload: Payload): Promise<Piece> {
  const incoming = new IncomingFile(await newFileOnDisk(disk, path));
  try {
    await incoming.receive(payload);
  } catch (error) {
    await incoming.discard().catch(() => {});
    throw error;
  }
  return {
    bytes: incoming.bytes,
    chunks: [],
    name: basename(path),
    async sync() {
      await incoming.sync();
      await disk.syncDirectory(dirname(path));
    },
    async writeTo(file, position) {
      for (let at = 0; at < incoming.bytes; ) {
        const chunk = Buffer.allocUnsafe(Math.min(COPY_BYTES, incoming.bytes - at));
        const read = await incoming.readAt(chunk, at);
        if (read < chunk.length) throw new Error('a temporary file is shorter than what it got');
        await file.writeAt([chunk], position + at);
        at += read;
      }
    },
    discard: () => incoming.discard(),
  };
}
