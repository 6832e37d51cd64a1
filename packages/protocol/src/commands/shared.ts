import { ProtocolError } from '../bytes.js';
import type { Command, PayloadCommand } from '../command.js';
import { GROUP_BYTES } from '../constants.js';
import { type BodyOf, type Codec, type RecordLayout, record, tail, text } from '../layout.js';

/** Helpers to declare commands, common bodies, and the commands that every server accepts. */

export function command<Request, Reply>(
  name: string,
  code: number,
  request: Codec<Request>,
  reply: Codec<Reply>,
): Command<Request, Reply> {
  return { name, code, request, reply };
}

export function payloadCommand<Request extends { readonly size: number }, Reply>(
  name: string,
  code: number,
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

/** An empty body. */
export const nothing: Codec<undefined> = {
  encode: () => Buffer.alloc(0),
  decode(bytes) {
    if (bytes.length !== 0) throw new ProtocolError(`expected no body, got ${bytes.length} bytes`);
    return undefined;
  },
};

/** A body passed through unchanged. */
export const raw: Codec<Buffer> = { encode: (value) => value, decode: (bytes) => bytes };

export const latin1: Codec<string> = {
  encode: (value) => Buffer.from(value, 'latin1'),
  decode: (bytes) => bytes.toString('latin1'),
};

/** The body, or an empty one. */
export function optional<T>(codec: Codec<T>): Codec<T | undefined> {
  return {
    encode: (value) => (value === undefined ? Buffer.alloc(0) : codec.encode(value)),
    decode: (bytes) => (bytes.length === 0 ? undefined : codec.decode(bytes)),
  };
}

export const group = text(GROUP_BYTES);

export const fileName = record({
  group,
  /** `M00/3F/A2/...` */
  name: tail(),
});
export type FileName = BodyOf<typeof fileName>;

export const groupOnly = record({ group }, 'a group query');

/** Asks any server whether it is alive. */
export const activeTest = command('ACTIVE_TEST', 111, nothing, nothing);

/** No reply; the server closes the connection. */
export const quit = command('QUIT', 82, nothing, nothing);

/** `host:port`, an IPv6 host in brackets. */
export function addressText(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
