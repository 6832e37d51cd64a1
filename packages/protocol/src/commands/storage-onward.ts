import { ByteReader, ByteWriter } from '../bytes.js';
import type { Command } from '../command.js';
import { CommandCode, IP_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { IO_NAME_CHARS, isIoName } from './io-server.js';
import { nothing } from './shared.js';

/**
 * Not of FastDFS: an append that makes a file outgrow its row, written by the client to
 * the I/O servers itself. The client says how much it has; the storage moves what there
 * is to a new data file and tells where the rest goes; the client writes that there and
 * says so; then the storage switches the file's record. Until that nothing has changed
 * for anybody.
 */

/** Stripes that one append of this kind may touch. */
export const MAX_ONWARD_STRIPES = 8192;
const MAX_ONWARD_SERVERS = 64;

export interface OnwardRequest {
  /** `M00/3F/A2/...` */
  readonly name: string;
  /** Bytes that are to be appended. */
  readonly size: number;
}

export interface OnwardServer {
  readonly id: string;
  /** The run of the server that the storage has seen; writes name it. */
  readonly run: string;
  readonly host: string;
  readonly port: number;
}

/** Where the bytes go. */
export interface OnwardGrant {
  /** Names this append when it is done. */
  readonly id: string;
  readonly owner: string;
  readonly handle: string;
  readonly stripeBytes: number;
  /** Size of the file so far. */
  readonly offset: number;
  /** CRC-32 of what the last stripe has so far; 0 for none. */
  readonly crc32: number;
  /** The parts of all servers are there; else whoever writes the first stripe of one makes it. */
  readonly isCreated: boolean;
  /** In the order of the parts. */
  readonly servers: readonly OnwardServer[];
}

/** WRITE_ONWARD (247): `size i64 | name`; no body in reply: append it as ever. */
export const writeOnward: Command<OnwardRequest, OnwardGrant | undefined> = {
  name: 'WRITE_ONWARD',
  code: CommandCode.writeOnward,
  request: {
    encode: ({ name, size }) => new ByteWriter().i64(size).restText(name).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      return { size: reader.size('size'), name: reader.restText() };
    },
  },
  reply: {
    encode(grant) {
      if (!grant) return Buffer.alloc(0);
      const writer = new ByteWriter()
        .text(grant.id, IO_NAME_CHARS, 'id')
        .text(grant.owner, IO_NAME_CHARS, 'owner')
        .text(grant.handle, IO_NAME_CHARS, 'handle')
        .i64(grant.stripeBytes)
        .i64(grant.offset)
        .crc32(grant.crc32)
        .u8(grant.isCreated ? 1 : 0);
      for (const { id, run, host, port } of grant.servers) {
        writer.text(id, IO_NAME_CHARS, 'id').text(run, IO_NAME_CHARS, 'run');
        writer.text(host, IP_BYTES.wide, 'host').i64(port);
      }
      return writer.toBuffer();
    },
    decode(bytes) {
      if (bytes.length === 0) return undefined;
      const reader = new ByteReader(bytes);
      const names = { id: name(reader), owner: name(reader), handle: name(reader) };
      const stripeBytes = reader.size('stripe');
      const offset = reader.size('offset');
      const crc32 = reader.crc32('crc32');
      const isCreated = reader.u8('created') === 1;
      const servers: OnwardServer[] = [];
      while (reader.remaining > 0) {
        const server = { id: name(reader), run: name(reader) };
        const host = reader.text(IP_BYTES.wide, 'host');
        servers.push({ ...server, host, port: reader.size('port') });
      }
      if (stripeBytes === 0 || servers.length === 0 || servers.length > MAX_ONWARD_SERVERS) {
        throw new ProtocolError('a data file of no stripes or servers');
      }
      return { ...names, stripeBytes, offset, crc32, isCreated, servers };
    },
  },
};

export interface OnwardDone {
  /** Of the grant. */
  readonly id: string;
  /** CRC-32 of every stripe that was written to, what it had before included. */
  readonly checks: readonly number[];
}

/**
 * ONWARD_DONE (248): `id str(16)`, then four bytes for each check. Status 16: the file
 * has been changed meanwhile or it took too long; nothing has happened, and the bytes
 * may be appended as ever.
 */
export const onwardDone: Command<OnwardDone, undefined> = {
  name: 'ONWARD_DONE',
  code: CommandCode.onwardDone,
  request: {
    encode({ id, checks }) {
      const bytes = Buffer.allocUnsafe(4 * checks.length);
      for (const [index, check] of checks.entries()) bytes.writeUInt32BE(check, 4 * index);
      return new ByteWriter().text(id, IO_NAME_CHARS, 'id').raw(bytes).toBuffer();
    },
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const id = name(reader);
      const rest = reader.rest();
      if (rest.length % 4 !== 0 || rest.length > 4 * MAX_ONWARD_STRIPES) {
        throw new ProtocolError(`checks of ${rest.length} bytes`);
      }
      const checks: number[] = [];
      for (let at = 0; at < rest.length; at += 4) checks.push(rest.readUInt32BE(at));
      return { id, checks };
    },
  },
  reply: nothing,
};

function name(reader: ByteReader): string {
  const text = reader.text(IO_NAME_CHARS, 'name');
  if (!isIoName(text)) throw new ProtocolError('a malformed name');
  return text;
}
