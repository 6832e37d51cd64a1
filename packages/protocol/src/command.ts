import { ProtocolError } from './bytes.js';
import { HEADER_BYTES, REPLY_COMMAND } from './constants.js';
import type { Codec } from './layout.js';

/**
 * One FastDFS command: its number and both directions of its bytes, so that
 * client and daemons share it.
 */
export interface Command<Request, Reply> {
  readonly name: string;
  readonly code: number;
  readonly request: Codec<Request>;
  readonly reply: Codec<Reply>;
}

/** A command whose request is a small head followed by raw file bytes. */
export interface PayloadCommand<Request, Reply> extends Command<Request, Reply> {
  /** Bytes of head that must have arrived before `headBytes` can tell its whole length. */
  readonly minHeadBytes: number;
  /** Whole length of the head, told from its first `minHeadBytes` bytes. */
  headBytes(prefix: Buffer): number;
  /** Raw bytes that follow the head. */
  payloadBytes(request: Request): number;
}

/** The bytes of a whole request of a command without payload. */
export function encodeRequest<Request>(
  command: Pick<Command<Request, unknown>, 'code' | 'request'>,
  request: Request,
  flags = 0,
): Buffer {
  return encodeFrame(command.code, command.request.encode(request), flags);
}

/** Header and head of a payload command; `payloadBytes(request)` raw bytes must follow. */
export function encodeRequestHead<Request>(
  command: PayloadCommand<Request, unknown>,
  request: Request,
): Buffer {
  const head = command.request.encode(request);
  const bodyBytes = head.length + command.payloadBytes(request);
  return Buffer.concat([encodeHeader({ bodyBytes, command: command.code, status: 0 }), head]);
}

/**
 * The 10-byte header before every message, in both directions:
 *
 *     0      8 bytes  length of the body, signed big-endian, header not counted
 *     8      1 byte   command
 *     9      1 byte   status: errno in a reply; 0 or flags in a request
 */
export interface FrameHeader {
  /** Bytes of body that follow. */
  readonly bodyBytes: number;
  readonly command: number;
  readonly status: number;
}

/** What a reply announces whose length is not known before its end; see storage-listing.ts. */
export const OPEN_BODY_BYTES = 2 ** 58;

export function encodeHeader(header: FrameHeader): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES);
  bytes.writeBigInt64BE(BigInt(header.bodyBytes), 0);
  bytes.writeUInt8(header.command, 8);
  bytes.writeUInt8(header.status & 0xff, 9);
  return bytes;
}

/**
 * Reads the first 10 bytes of `bytes`; a negative or absurd length is a ProtocolError,
 * but for the one of a listing where one is expected.
 */
export function decodeHeader(bytes: Buffer, mayBeOpen = false): FrameHeader {
  if (bytes.length < HEADER_BYTES) throw new ProtocolError(`a header of ${bytes.length} bytes`);
  const bodyBytes = Number(bytes.readBigInt64BE(0));
  const isOpen = mayBeOpen && bodyBytes === OPEN_BODY_BYTES;
  if (bodyBytes < 0 || !(isOpen || Number.isSafeInteger(bodyBytes))) {
    throw new ProtocolError(`a frame announces ${bodyBytes} bytes`);
  }
  return { bodyBytes, command: bytes.readUInt8(8), status: bytes.readUInt8(9) };
}

/** A whole message: header and body. */
export function encodeFrame(command: number, body: Buffer, status = 0): Buffer {
  return Buffer.concat([encodeHeader({ bodyBytes: body.length, command, status }), body]);
}

/** A whole reply. */
export function encodeReply(status: number, body: Buffer = Buffer.alloc(0)): Buffer {
  return encodeFrame(REPLY_COMMAND, body, status);
}
