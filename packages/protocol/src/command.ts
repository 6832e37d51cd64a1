import type { CommandCode } from './constants.js';
import { encodeFrame, encodeHeader } from './frame.js';
import type { Codec, RecordLayout } from './layout.js';

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

type Code = (typeof CommandCode)[keyof typeof CommandCode];

export function command<Request, Reply>(
  name: string,
  code: Code,
  request: Codec<Request>,
  reply: Codec<Reply>,
): Command<Request, Reply> {
  return { name, code, request, reply };
}

export function payloadCommand<Request extends { readonly size: number }, Reply>(
  name: string,
  code: Code,
  request: RecordLayout<Request>,
  reply: Codec<Reply>,
): PayloadCommand<Request, Reply> {
  return {
    ...command(name, code, request, reply),
    minHeadBytes: request.bytes.wide,
    headBytes: request.bytesOf,
    payloadBytes: ({ size }) => size,
  };
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
