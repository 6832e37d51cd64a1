import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import { CommandCode } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';

/**
 * Not of FastDFS: what storages ask of I/O servers, which keep the parts of their data
 * files. A part is named by its owner, the storage that made it, and a handle; the same
 * handle at several servers makes one data file. Names are 16 lower-case hexadecimal
 * digits each, so that none leads anywhere else.
 */

export const IO_NAME_CHARS = 16;
/** The longest piece of a part that one request brings or asks for. */
export const MAX_IO_BYTES = 1024 * 1024 - 8;
/** Handles in one request or answer. */
export const MAX_IO_HANDLES = 1024;

const NAME = /^[0-9a-f]{16}$/;

/** True for what can be an owner, a handle or the id of an I/O server. */
export function isIoName(text: string): boolean {
  return NAME.test(text);
}

export interface PartName {
  readonly owner: string;
  readonly handle: string;
}

/** Who an I/O server is, and since when it runs: another run may have lost what was not synced. */
export interface IoIdentity {
  readonly id: string;
  readonly run: string;
}

/** IO_HELLO (230): the first request of a connection. */
export const ioHello: Command<undefined, IoIdentity> = {
  name: 'IO_HELLO',
  code: CommandCode.ioHello,
  request: nothing,
  reply: {
    encode: ({ id, run }) => writer().text(id, 16, 'id').text(run, 16, 'run').toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_HELLO', (reader) => ({ id: name(reader, 'id'), run: name(reader, 'run') })),
  },
};

export interface IoWriteRequest extends PartName {
  /** The run of the server that all of this part's unsynced bytes belong to. */
  readonly run: string;
  readonly offset: number;
  /** Bytes that follow. */
  readonly size: number;
  /** Of the bytes that follow. */
  readonly crc32: number;
  /** The part is made if it is not there. */
  readonly create: boolean;
  /** Everything that was written to the part is durable before the answer. */
  readonly sync: boolean;
  /** The bytes are read back and held against the CRC-32 before the answer. */
  readonly verify: boolean;
}

const WRITE_HEAD_BYTES = 3 * IO_NAME_CHARS + 3 * 8 + 1;
const CREATE = 1;
const SYNC = 2;
const VERIFY = 4;

/** IO_WRITE (231): `owner str(16) | handle str(16) | run str(16) | offset i64 | size i64 | crc32 i64 | flags u8`, then the bytes */
export const ioWrite: PayloadCommand<IoWriteRequest, undefined> = {
  name: 'IO_WRITE',
  code: CommandCode.ioWrite,
  minHeadBytes: WRITE_HEAD_BYTES,
  headBytes: () => WRITE_HEAD_BYTES,
  payloadBytes: ({ size }) => size,
  request: {
    encode: (part) =>
      named(part)
        .text(part.run, 16, 'run')
        .i64(part.offset)
        .i64(part.size)
        .crc32(part.crc32)
        .u8((part.create ? CREATE : 0) | (part.sync ? SYNC : 0) | (part.verify ? VERIFY : 0))
        .toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_WRITE', (reader) => {
        const part = partName(reader);
        const run = name(reader, 'run');
        const offset = reader.size('offset');
        const size = bounded(reader.size('size'), MAX_IO_BYTES, 'size');
        const crc32 = reader.crc32('crc32');
        const flags = reader.u8('flags');
        const has = (flag: number): boolean => (flags & flag) !== 0;
        return {
          ...part,
          run,
          offset,
          size,
          crc32,
          create: has(CREATE),
          sync: has(SYNC),
          verify: has(VERIFY),
        };
      }),
  },
  reply: nothing,
};

export interface IoSyncRequest extends PartName {
  readonly run: string;
  /** Bytes that the part must have at least. */
  readonly size: number;
}

/** IO_SYNC (232): everything that was written to the part is durable before the answer. */
export const ioSync: Command<IoSyncRequest, undefined> = {
  name: 'IO_SYNC',
  code: CommandCode.ioSync,
  request: {
    encode: (part) => named(part).text(part.run, 16, 'run').i64(part.size).toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_SYNC', (reader) => ({
        ...partName(reader),
        run: name(reader, 'run'),
        size: reader.size('size'),
      })),
  },
  reply: nothing,
};

/** Some bytes of a stripe, of which the server first holds all against their CRC-32. */
export interface IoReadRequest extends PartName {
  /** Where the stripe lies in the part. */
  readonly offset: number;
  readonly stripeBytes: number;
  /** Of the whole stripe. */
  readonly crc32: number;
  /** What is wanted of the stripe. */
  readonly from: number;
  readonly bytes: number;
}

/** IO_READ (233): the answer is the bytes, with their CRC-32 (i64) in front. */
export const ioRead: Command<IoReadRequest, { readonly crc32: number; readonly bytes: Buffer }> = {
  name: 'IO_READ',
  code: CommandCode.ioRead,
  request: {
    encode: (part) =>
      named(part)
        .i64(part.offset)
        .i64(part.stripeBytes)
        .crc32(part.crc32)
        .i64(part.from)
        .i64(part.bytes)
        .toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_READ', (reader) => {
        const part = partName(reader);
        const offset = reader.size('offset');
        const stripeBytes = bounded(reader.size('stripe'), MAX_IO_BYTES, 'stripe');
        const crc32 = reader.crc32('crc32');
        const from = bounded(reader.size('from'), stripeBytes, 'from');
        const count = bounded(reader.size('bytes'), stripeBytes - from, 'bytes');
        return { ...part, offset, stripeBytes, crc32, from, bytes: count };
      }),
  },
  reply: {
    encode: ({ crc32, bytes }) => writer().crc32(crc32).raw(bytes).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      return { crc32: reader.crc32('crc32'), bytes: reader.rest() };
    },
  },
};

export interface IoSizeRequest extends PartName {
  /** What the part is cut to first. */
  readonly keep: number;
  /** Then it is filled up with zeros to this. */
  readonly size: number;
}

/** IO_SET_SIZE (234): durable before the answer; makes the part if it is not there. */
export const ioSetSize: Command<IoSizeRequest, undefined> = {
  name: 'IO_SET_SIZE',
  code: CommandCode.ioSetSize,
  request: {
    encode: (part) => named(part).i64(part.keep).i64(part.size).toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_SET_SIZE', (reader) => ({
        ...partName(reader),
        keep: reader.size('keep'),
        size: reader.size('size'),
      })),
  },
  reply: nothing,
};

export interface IoCloneRequest extends PartName {
  /** Handle of the other part. */
  readonly to: string;
  /** Which bytes it gets, at the same place. */
  readonly offset: number;
  readonly size: number;
}

/** The most that one IO_CLONE copies: it is answered when that is durable. */
export const MAX_IO_CLONE_BYTES = 64 * 1024 * 1024;

/** IO_CLONE (235): bytes of a part for another one, which is made if it is not there; durable before the answer. */
export const ioClone: Command<IoCloneRequest, undefined> = {
  name: 'IO_CLONE',
  code: CommandCode.ioClone,
  request: {
    encode: (part) =>
      named(part).text(part.to, 16, 'to').i64(part.offset).i64(part.size).toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_CLONE', (reader) => ({
        ...partName(reader),
        to: name(reader, 'to'),
        offset: reader.size('offset'),
        size: bounded(reader.size('size'), MAX_IO_CLONE_BYTES, 'size'),
      })),
  },
  reply: nothing,
};

export interface IoHandles {
  readonly owner: string;
  readonly handles: readonly string[];
}

const handles: Codec<IoHandles> = {
  encode: (request) => {
    const out = writer().text(request.owner, 16, 'owner');
    for (const handle of request.handles) out.text(handle, 16, 'handle');
    return out.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const owner = name(reader, 'owner');
    const listed: string[] = [];
    while (reader.remaining > 0) listed.push(name(reader, 'handle'));
    bounded(listed.length, MAX_IO_HANDLES, 'number of handles');
    return { owner, handles: listed };
  },
};

/** IO_DELETE (236): the parts are gone, durably, before the answer; those that are not there do not matter. */
export const ioDelete: Command<IoHandles, undefined> = {
  name: 'IO_DELETE',
  code: CommandCode.ioDelete,
  request: handles,
  reply: nothing,
};

/** IO_CREATE (237): empty parts that are durably there before the answer. */
export const ioCreate: Command<IoHandles, undefined> = {
  name: 'IO_CREATE',
  code: CommandCode.ioCreate,
  request: handles,
  reply: nothing,
};

/** IO_SIZE (238): the bytes of a part; status 2 if there is none. */
export const ioSize: Command<PartName, number> = {
  name: 'IO_SIZE',
  code: CommandCode.ioSize,
  request: {
    encode: (part) => named(part).toBuffer(),
    decode: (bytes) => whole(bytes, 'IO_SIZE', partName),
  },
  reply: {
    encode: (size) => writer().i64(size).toBuffer(),
    decode: (bytes) => whole(bytes, 'IO_SIZE', (reader) => reader.size('size')),
  },
};

export interface IoListRequest {
  readonly owner: string;
  /** Handles behind this one; empty: from the first. */
  readonly after: string;
}

/** IO_LIST (239): handles of an owner in their order, at most 1024; none: it was the last page. */
export const ioList: Command<IoListRequest, readonly string[]> = {
  name: 'IO_LIST',
  code: CommandCode.ioList,
  request: {
    encode: ({ owner, after }) =>
      writer().text(owner, 16, 'owner').text(after, 16, 'after').toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_LIST', (reader) => {
        const owner = name(reader, 'owner');
        const after = reader.text(16, 'after');
        if (after !== '' && !isIoName(after)) throw new ProtocolError('a malformed handle');
        return { owner, after };
      }),
  },
  reply: {
    encode: (listed) => {
      const out = writer();
      for (const handle of listed) out.text(handle, 16, 'handle');
      return out.toBuffer();
    },
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const listed: string[] = [];
      while (reader.remaining > 0) listed.push(name(reader, 'handle'));
      return listed;
    },
  },
};

export interface IoCheckRequest extends PartName {
  readonly offset: number;
  readonly bytes: number;
}

/** IO_CHECK (240): the CRC-32 of bytes of a part as they are read back. */
export const ioCheck: Command<IoCheckRequest, number> = {
  name: 'IO_CHECK',
  code: CommandCode.ioCheck,
  request: {
    encode: (part) => named(part).i64(part.offset).i64(part.bytes).toBuffer(),
    decode: (bytes) =>
      whole(bytes, 'IO_CHECK', (reader) => ({
        ...partName(reader),
        offset: reader.size('offset'),
        bytes: bounded(reader.size('bytes'), MAX_IO_BYTES, 'bytes'),
      })),
  },
  reply: {
    encode: (crc32) => writer().crc32(crc32).toBuffer(),
    decode: (bytes) => whole(bytes, 'IO_CHECK', (reader) => reader.crc32('crc32')),
  },
};

function writer(): ByteWriter {
  return new ByteWriter();
}

function named({ owner, handle }: PartName): ByteWriter {
  return writer().text(owner, 16, 'owner').text(handle, 16, 'handle');
}

function partName(reader: ByteReader): PartName {
  return { owner: name(reader, 'owner'), handle: name(reader, 'handle') };
}

function name(reader: ByteReader, field: string): string {
  const text = reader.text(IO_NAME_CHARS, field);
  if (!isIoName(text)) throw new ProtocolError(`a malformed ${field}`);
  return text;
}

function bounded(value: number, most: number, field: string): number {
  if (value > most) throw new ProtocolError(`${field} is ${value}, more than ${most}`);
  return value;
}

function whole<Value>(bytes: Buffer, what: string, read: (reader: ByteReader) => Value): Value {
  const reader = new ByteReader(bytes);
  const value = read(reader);
  reader.end(what);
  return value;
}
