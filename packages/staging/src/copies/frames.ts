import { crc32 } from 'node:zlib';

/**
 * The frames that a gateway and its partner exchange: a header and a payload each. FORMAT.md has
 * the layout. Does no I/O.
 */

const FRAME_HEADER_BYTES = 24;
/** Maximum payload; a longer batch takes several frames. */
const MAX_PAYLOAD_BYTES = 4 * 2 ** 20;
const CRC_OFFSET = 20;
const STATE_ENTRY_BYTES = 12;

export const FrameType = {
  /** To the partner: append bytes to a segment. */
  bytes: 1,
  /** To the partner: truncate the segment; what follows was never acknowledged. */
  cut: 2,
  /** To the partner: segments up to this one are no longer needed. */
  release: 3,
  /** From the partner, once: its origin instead of a segment, and the segments that it holds. */
  state: 4,
  /** From the partner: how many frames are applied and durable. */
  taken: 5,
  /** From the partner, last: why it accepts no more frames, as text. */
  refused: 6,
} as const;

/** Position of a `refused` frame: whether the gateway shall come back. */
export const Refusal = {
  /** It may try again. */
  forNow: 0,
  /** Never: the partner has taken over its files. */
  forGood: 1,
  /** It needs another partner: this one is stopping. */
  leaving: 2,
} as const;

/** Why no copies are accepted, and whether that lasts. */
export class CopiesRefused extends Error {
  readonly refusal: number;

  constructor(message: string, refusal: number) {
    super(message);
    this.refusal = refusal;
  }
}

const TYPES: ReadonlySet<number> = new Set(Object.values(FrameType));

export interface Frame {
  readonly type: number;
  readonly segment: number;
  readonly position: number;
  readonly payload: readonly Buffer[];
  readonly bytes: number;
}

/** Encodes the header of a frame with this payload. */
export function encodeFrameHeader(
  type: number,
  segment: number,
  position: number,
  payload: readonly Uint8Array[] = [],
): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUInt8(type, 0);
  header.writeUInt32LE(segment, 4);
  header.writeBigUInt64LE(BigInt(position), 8);
  let bytes = 0;
  for (const piece of payload) bytes += piece.length;
  header.writeUInt32LE(bytes, 16);
  header.writeUInt32LE(frameCrc(header, payload), CRC_OFFSET);
  return header;
}

/** Splits the pieces into payloads that fit a frame. */
export function payloadsOf(pieces: readonly Uint8Array[]): Uint8Array[][] {
  const payloads: Uint8Array[][] = [];
  let payload: Uint8Array[] = [];
  let room = MAX_PAYLOAD_BYTES;
  for (let piece of pieces) {
    while (piece.length > room) {
      payload.push(piece.subarray(0, room));
      piece = piece.subarray(room);
      payloads.push(payload);
      payload = [];
      room = MAX_PAYLOAD_BYTES;
    }
    payload.push(piece);
    room -= piece.length;
  }
  if (payload.length > 0) payloads.push(payload);
  return payloads;
}

export function encodeState(segments: Iterable<readonly [number: number, bytes: number]>): Buffer {
  const entries = [...segments];
  const payload = Buffer.alloc(entries.length * STATE_ENTRY_BYTES);
  for (const [index, [number, bytes]] of entries.entries()) {
    payload.writeUInt32LE(number, index * STATE_ENTRY_BYTES);
    payload.writeBigUInt64LE(BigInt(bytes), index * STATE_ENTRY_BYTES + 4);
  }
  return payload;
}

export function decodeState({ payload }: Frame): Map<number, number> {
  const bytes = Buffer.concat(payload);
  const state = new Map<number, number>();
  for (let at = 0; at + STATE_ENTRY_BYTES <= bytes.length; at += STATE_ENTRY_BYTES) {
    state.set(bytes.readUInt32LE(at), Number(bytes.readBigUInt64LE(at + 4)));
  }
  return state;
}

/** Parses frames from the chunks of a connection. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #header: Buffer | undefined;

  /** Yields the frames that this chunk completes. Throws if they are none. */
  *read(chunk: Buffer): Generator<Frame> {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    for (;;) {
      if (!this.#header) {
        if (this.#bytes < FRAME_HEADER_BYTES) return;
        this.#header = checkedHeader(Buffer.concat(this.#take(FRAME_HEADER_BYTES)));
      }
      const header = this.#header;
      const bytes = header.readUInt32LE(16);
      if (this.#bytes < bytes) return;
      const payload = this.#take(bytes);
      if (frameCrc(header, payload) !== header.readUInt32LE(CRC_OFFSET)) {
        throw new Error('a frame does not have the CRC-32 that it names');
      }
      this.#header = undefined;
      const segment = header.readUInt32LE(4);
      const position = Number(header.readBigUInt64LE(8));
      yield { type: header.readUInt8(0), segment, position, payload, bytes };
    }
  }

  /** Takes `count` bytes from the front; they must be there. */
  #take(count: number): Buffer[] {
    const taken: Buffer[] = [];
    let wanted = count;
    let used = 0;
    for (const chunk of this.#chunks) {
      if (wanted === 0) break;
      if (chunk.length > wanted) {
        taken.push(chunk.subarray(0, wanted));
        this.#chunks[used] = chunk.subarray(wanted);
        wanted = 0;
        break;
      }
      taken.push(chunk);
      wanted -= chunk.length;
      used += 1;
    }
    this.#chunks.splice(0, used);
    this.#bytes -= count;
    return taken;
  }
}

function checkedHeader(header: Buffer): Buffer {
  const bytes = header.readUInt32LE(16);
  if (!TYPES.has(header.readUInt8(0)) || bytes > MAX_PAYLOAD_BYTES) {
    throw new Error('these bytes are no frame');
  }
  return header;
}

function frameCrc(header: Buffer, payload: readonly Uint8Array[]): number {
  let value = crc32(header.subarray(0, CRC_OFFSET));
  for (const piece of payload) value = crc32(piece, value);
  return value;
}
