import type { DiskFile, FileStat } from '@stevedore/disk';
import { type Layout, piecesOf, placeOf, stripeLength } from './layout.js';
import type { PartRequests } from './part-requests.js';

/**
 * A data file on I/O servers, for reading: as it was when it was opened, to the end of
 * the reading, whatever becomes of the file. Stripes are asked for side by side.
 */

export interface DataFileParts {
  readonly requests: PartRequests;
  readonly layout: Layout;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Called once, when it is closed. */
  readonly onClose: () => void;
}

/** Stripes of one read that are asked for at a time. */
const MAX_SIDE_BY_SIDE = 8;

export class DataFile implements DiskFile {
  readonly #parts: DataFileParts;
  #isOpen = true;

  constructor(parts: DataFileParts) {
    this.#parts = parts;
  }

  async stat(): Promise<FileStat> {
    const { size, mtimeSeconds } = this.#parts;
    return { size, mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    const { requests, layout, size } = this.#parts;
    const bytes = Math.max(0, Math.min(target.length, size - position));
    await readStripes(requests, layout, size, target.subarray(0, bytes), position);
    return bytes;
  }

  writeAt(): Promise<void> {
    return Promise.reject(readOnly());
  }

  truncate(): Promise<void> {
    return Promise.reject(readOnly());
  }

  setModified(): Promise<void> {
    return Promise.reject(readOnly());
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#parts.onClose();
  }
}

/** Fills the target, which is to end within `size`. */
export async function readStripes(
  requests: PartRequests,
  layout: Layout,
  size: number,
  target: Buffer,
  position: number,
): Promise<void> {
  const { handle, stripeBytes, servers, checks } = layout;
  const pieces = piecesOf(position, target.length, stripeBytes);
  const each = async ({ stripe, from, at, bytes }: (typeof pieces)[number]): Promise<void> => {
    const { server, offset } = placeOf(stripe, layout);
    const wanted = {
      offset,
      stripeBytes: stripeLength(stripe, size, stripeBytes),
      crc32: checks[stripe]!,
      from,
      bytes,
    };
    (await requests.read(servers[server]!, handle, wanted)).copy(target, at);
  };
  for (let first = 0; first < pieces.length; first += MAX_SIDE_BY_SIDE) {
    await allSettled(pieces.slice(first, first + MAX_SIDE_BY_SIDE).map(each));
  }
}

/** Waits for all, then throws the first failure: nothing goes on behind the caller's back. */
export async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}

function readOnly(): Error {
  return Object.assign(new Error('the file was opened for reading'), { code: 'EBADF' });
}
