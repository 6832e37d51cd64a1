/**
 * Memory for reads that is used again and again: making it anew for each of them costs
 * more than the read. Pieces are powers of two, so that one serves many lengths.
 */

const MIN_PIECE_BYTES = 64 * 1024;

export class SpareBuffers {
  readonly #maxBytes: number;
  /** Unused buffers by their size, the smallest first. */
  readonly #pieces: Buffer[] = [];
  #bytes = 0;

  /** Keeps at most `maxBytes` of unused buffers. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of unused buffers. */
  get bytes(): number {
    return this.#bytes;
  }

  /** With bytes of earlier uses in it. */
  take(bytes: number): Buffer {
    const at = this.#pieces.findIndex((piece) => piece.length >= bytes);
    if (at === -1) return Buffer.allocUnsafeSlow(pieceBytes(bytes)).subarray(0, bytes);
    const [piece] = this.#pieces.splice(at, 1);
    this.#bytes -= piece!.length;
    return piece!.subarray(0, bytes);
  }

  /** Once for what was taken, when nothing reads it or writes to it any more. */
  giveBack(taken: Buffer): void {
    const piece = Buffer.from(taken.buffer);
    // Smaller ones make room: a larger one serves their lengths too.
    let smaller = 0;
    let room = this.#maxBytes - this.#bytes;
    while (room < piece.length && smaller < this.#pieces.length) {
      const { length } = this.#pieces[smaller]!;
      if (length >= piece.length) return;
      room += length;
      smaller += 1;
    }
    if (room < piece.length) return;
    for (const { length } of this.#pieces.splice(0, smaller)) this.#bytes -= length;
    const at = this.#pieces.findIndex(({ length }) => length >= piece.length);
    this.#pieces.splice(at === -1 ? this.#pieces.length : at, 0, piece);
    this.#bytes += piece.length;
  }
}

function pieceBytes(bytes: number): number {
  return Math.max(MIN_PIECE_BYTES, 2 ** Math.ceil(Math.log2(bytes)));
}
