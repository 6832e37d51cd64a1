import { ProtocolError } from './bytes.js';
import { HEADER_BYTES, REPLY_COMMAND } from './constants.js';
import type { Codec } from './layout.js';

/**
 * A FastDFS command: its number and the codecs of its request and reply, shared by client and
 * daemons.
 */
export interface Command<Request, Reply> {
  readonly name: string;
  readonly code: number;
  readonly request: Codec<Request>;
  readonly reply: Codec<Reply>;
}

/** A command whose request is a small head followed by raw file bytes. */
export interface PayloadCommand<Request, Reply> extends Command<Request, Reply> {
  /** Bytes of the head that `headBytes` needs. */
  readonly minHeadBytes: number;
  /** Length of the head, from its first `minHeadBytes` bytes. */
  headBytes(prefix: Buffer): number;
  /** Raw bytes that follow the head. */
  payloadBytes(request: Request): number;
}

/** Encodes the request of a command without a payload. */
export function encodeRequest<Request>(
  command: Pick<Command<Request, unknown>, 'code' | 'request'>,
  request: Request,
  flags = 0,
): Buffer {
  return encodeFrame(command.code, command.request.encode(request), flags);
}

/** Encodes header and head of a payload command; `payloadBytes(request)` bytes must follow. */
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

/** Announced length of a reply whose length is not known in advance; see storage-peer.ts. */
export const OPEN_BODY_BYTES = 2 ** 58;

export function encodeHeader(header: FrameHeader): Buffer {
  return framed(Buffer.allocUnsafe(HEADER_BYTES), header.bodyBytes, header.command, header.status);
}

function framed(bytes: Buffer, bodyBytes: number, command: number, status: number): Buffer {
  bytes.writeInt32BE(Math.floor(bodyBytes / 2 ** 32), 0);
  bytes.writeUInt32BE(bodyBytes >>> 0, 4);
  bytes[8] = command;
  bytes[9] = status;
  return bytes;
}

/**
 * Decodes the first 10 bytes of `bytes`. A negative or unsafe length is a ProtocolError, except
 * OPEN_BODY_BYTES with `mayBeOpen`.
 */
export function decodeHeader(bytes: Buffer, mayBeOpen = false): FrameHeader {
  if (bytes.length < HEADER_BYTES) throw new ProtocolError(`a header of ${bytes.length} bytes`);
  const bodyBytes = bytes.readInt32BE(0) * 2 ** 32 + bytes.readUInt32BE(4);
  const isOpen = mayBeOpen && bodyBytes === OPEN_BODY_BYTES;
  if (bodyBytes < 0 || !(isOpen || Number.isSafeInteger(bodyBytes))) {
    throw new ProtocolError(`a frame announces ${bodyBytes} bytes`);
  }
  return { bodyBytes, command: bytes.readUInt8(8), status: bytes.readUInt8(9) };
}

export function encodeFrame(command: number, body: Buffer, status = 0): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  body.copy(bytes, HEADER_BYTES);
  return framed(bytes, body.length, command, status);
}

export function encodeReply(status: number, body: Buffer = Buffer.alloc(0)): Buffer {
  return encodeFrame(REPLY_COMMAND, body, status);
}
