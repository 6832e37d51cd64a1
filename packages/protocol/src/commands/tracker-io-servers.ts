import { ByteReader, ByteWriter } from '../bytes.js';
import type { Command } from '../command.js';
import { CommandCode, IP_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { IO_NAME_CHARS, isIoName } from './io-server.js';
import { nothing } from './shared.js';

/** Not of FastDFS: how a tracker knows of I/O servers, and storages learn of them. */

/** I/O servers in one list. */
export const MAX_IO_SERVERS = 1024;

/** What an I/O server says of itself; it says so again and again, on one connection. */
export interface IoServerReport {
  readonly id: string;
  readonly port: number;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** IO_SERVER_REPORT (245): `id str(16) | port i64 | total i64 | free i64` */
export const ioServerReport: Command<IoServerReport, undefined> = {
  name: 'IO_SERVER_REPORT',
  code: CommandCode.ioServerReport,
  request: {
    encode: ({ id, port, totalBytes, freeBytes }) =>
      new ByteWriter()
        .text(id, IO_NAME_CHARS, 'id')
        .i64(port)
        .i64(totalBytes)
        .i64(freeBytes)
        .toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const report = {
        id: serverId(reader),
        port: port(reader),
        totalBytes: reader.size('total'),
        freeBytes: reader.size('free'),
      };
      reader.end('IO_SERVER_REPORT');
      return report;
    },
  },
  reply: nothing,
};

/** An I/O server as a tracker knows it. */
export interface IoServerRecord extends IoServerReport {
  readonly host: string;
  /** It is connected and has reported lately. */
  readonly isActive: boolean;
}

/** IO_SERVER_LIST (246): for each `id str(16) | host str(46) | port i64 | total i64 | free i64 | active u8` */
export const ioServerList: Command<undefined, readonly IoServerRecord[]> = {
  name: 'IO_SERVER_LIST',
  code: CommandCode.ioServerList,
  request: nothing,
  reply: {
    encode(servers) {
      const writer = new ByteWriter();
      for (const { id, host, port, totalBytes, freeBytes, isActive } of servers) {
        writer.text(id, IO_NAME_CHARS, 'id').text(host, IP_BYTES.wide, 'host').i64(port);
        writer
          .i64(totalBytes)
          .i64(freeBytes)
          .u8(isActive ? 1 : 0);
      }
      return writer.toBuffer();
    },
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const servers: IoServerRecord[] = [];
      while (reader.remaining > 0) {
        servers.push({
          id: serverId(reader),
          host: reader.text(IP_BYTES.wide, 'host'),
          port: port(reader),
          totalBytes: reader.size('total'),
          freeBytes: reader.size('free'),
          isActive: reader.u8('active') === 1,
        });
        if (servers.length > MAX_IO_SERVERS) throw new ProtocolError('too many I/O servers');
      }
      return servers;
    },
  },
};

function serverId(reader: ByteReader): string {
  const id = reader.text(IO_NAME_CHARS, 'id');
  if (!isIoName(id)) throw new ProtocolError('a malformed id of an I/O server');
  return id;
}

function port(reader: ByteReader): number {
  const value = reader.size('port');
  if (value < 1 || value > 65_535) throw new ProtocolError(`port ${value}`);
  return value;
}
