import type { FileStat } from '@stevedore/disk';
import { ReadOnlyFile } from '../tiers/read-only-file.js';
import { type Layout, type Piece, piecesOf, placeOf, stripeLength } from './layout.js';
import type { PartRequests } from './part-requests.js';
import { ReadAhead } from './read-ahead.js';

/**
 * A data file on I/O servers, for reading: as it was when it was opened, to the end of
 * the reading, whatever becomes of the file. Stripes are asked for side by side, and the
 * next ones before they are wanted where a file is read in one go.
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

export class DataFile extends ReadOnlyFile {
  readonly #parts: DataFileParts;
  readonly #ahead: ReadAhead;
  #isOpen = true;

  constructor(parts: DataFileParts) {
    super();
    const { requests, layout, size } = parts;
    this.#parts = parts;
    this.#ahead = new ReadAhead(layout.checks.length, (stripe) => {
      const bytes = stripeLength(stripe, size, layout.stripeBytes);
      return readPiece(requests, layout, size, { stripe, from: 0, at: 0, bytes });
    });
  }

  async stat(): Promise<FileStat> {
    const { size, mtimeSeconds } = this.#parts;
    return { size, mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    const { requests, layout, size } = this.#parts;
    const bytes = Math.max(0, Math.min(target.length, size - position));
    const wanted = target.subarray(0, bytes);
    // A read of less than a stripe is of a small thing within the file.
    const isLong = bytes >= layout.stripeBytes;
    if (isLong && this.#ahead.follows(position, position + bytes)) {
      this.#ahead.begin(Math.floor((position + bytes - 1) / layout.stripeBytes));
    }
    await readStripes(requests, layout, size, wanted, position, this.#ahead);
    return bytes;
  }

  override async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#ahead.clear();
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
  ahead?: ReadAhead,
): Promise<void> {
  const pieces = piecesOf(position, target.length, layout.stripeBytes);
  const each = async (piece: Piece): Promise<void> => {
    const whole = await ahead?.take(piece.stripe);
    const bytes =
      whole?.subarray(piece.from, piece.from + piece.bytes) ??
      (await readPiece(requests, layout, size, piece));
    bytes.copy(target, piece.at);
  };
  for (let first = 0; first < pieces.length; first += MAX_SIDE_BY_SIDE) {
    await allSettled(pieces.slice(first, first + MAX_SIDE_BY_SIDE).map(each));
  }
}

function readPiece(
  requests: PartRequests,
  layout: Layout,
  size: number,
  { stripe, from, bytes }: Piece,
): Promise<Buffer> {
  const { handle, stripeBytes, servers, checks } = layout;
  const { server, offset } = placeOf(stripe, layout);
  return requests.read(servers[server]!, handle, {
    offset,
    stripeBytes: stripeLength(stripe, size, stripeBytes),
    crc32: checks[stripe]!,
    from,
    bytes,
  });
}

/** Waits for all, then throws the first failure: nothing goes on behind the caller's back. */
export async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}
