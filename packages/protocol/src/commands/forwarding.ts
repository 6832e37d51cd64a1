import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import {
  CommandCode,
  GROUP_BYTES,
  MAX_NAME_BYTES,
  MAX_PORT,
  QUERY_IP_BYTES,
  STORAGE_ID_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';

/**
 * Not of FastDFS: how a storage lets the one that has taken in the bytes of its small
 * files answer for them, for as long as a lease lasts, and tells the trackers so.
 */

/** Longest lease: what a storage that has lost its memory waits before it changes such a file. */
export const MAX_LEASE_MS = 2000;
/** Longest metadata of a file that another storage answers for. */
export const MAX_LEASED_METADATA_BYTES = 4096;
/** Bytes of the lists in one request; it has to fit what a daemon takes at once. */
export const MAX_LEASE_LIST_BYTES = 48 * 1024;
export const SESSION_CHARS = 16;

/** Status byte of QUERY_FETCH_ONE: who asks wants a member of the group, wherever the bytes are. */
export const AT_HOME_FLAG = 0x80;
/** Status byte of a request for a file that another storage has passed on: it goes no further. */
export const PASSED_ON_FLAG = 0x80;

/** What a storage needs to know to answer for a file of another one. */
export interface LeasedFile {
  /** `M00/3F/A2/base`, as its home has it. */
  readonly name: string;
  /** What its bytes are called at the storage that is to answer. */
  readonly guest: string;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes. */
  readonly crc32: number;
  /** Address of the storage that first took it; empty if nobody knows it. */
  readonly sourceAddress: string;
  /** Undefined: it has none. */
  readonly metadata: Buffer | undefined;
}

export interface LeaseRequest {
  readonly homeGroup: string;
  readonly homeId: string;
  /** 16 hexadecimal digits; another one: nothing that was leased before counts. */
  readonly session: string;
  /** The clock of an earlier reply, from which on the lease counts; 0: it is not prolonged. */
  readonly echo: number;
  readonly leaseMs: number;
  /** Names at home that are not to be answered for any more. */
  readonly revoked: readonly string[];
  readonly granted: readonly LeasedFile[];
}

export interface LeaseReply {
  /** False: the session is new here; it begins with a request that has this clock for its echo. */
  readonly isKnown: boolean;
  readonly clock: number;
  /** Places in `granted` of what is not answered for after all. */
  readonly refused: readonly number[];
}

/**
 * `home group str(16) | home id str(16) | session (8) | echo i64 | lease i64 | revoked i64 |
 * granted i64`, then for each that is revoked `name`; for each that is granted `name | guest |
 * size i64 | mtime i64 | crc32 i64 | source ip str(45) | metadata length i64, -1 for none |
 * metadata`; a name is `length u8 | text`
 */
const leaseRequest: Codec<LeaseRequest> = {
  encode(value) {
    const writer = new ByteWriter()
      .text(value.homeGroup, GROUP_BYTES, 'group')
      .text(value.homeId, STORAGE_ID_BYTES, 'id')
      .raw(Buffer.from(value.session, 'hex'))
      .i64(value.echo)
      .i64(value.leaseMs)
      .i64(value.revoked.length)
      .i64(value.granted.length);
    for (const name of value.revoked) writeName(writer, name);
    for (const file of value.granted) writeFile(writer, file);
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const homeGroup = reader.text(GROUP_BYTES, 'group');
    const homeId = reader.text(STORAGE_ID_BYTES, 'id');
    const session = reader.bytes(SESSION_CHARS / 2, 'session').toString('hex');
    const echo = reader.size('echo');
    const leaseMs = reader.size('lease');
    if (leaseMs > MAX_LEASE_MS) throw new ProtocolError(`a lease of ${leaseMs} ms`);
    const revokedCount = reader.size('revoked');
    const grantedCount = reader.size('granted');
    const revoked = readMany(reader, revokedCount, readName);
    const granted = readMany(reader, grantedCount, readFile);
    reader.end('GUEST_LEASE');
    return { homeGroup, homeId, session, echo, leaseMs, revoked, granted };
  },
};

/** `known u8 | clock i64`, then `place i64` of each that is refused */
const leaseReply: Codec<LeaseReply> = {
  encode({ isKnown, clock, refused }) {
    const writer = new ByteWriter().u8(isKnown ? 1 : 0).i64(clock);
    for (const place of refused) writer.i64(place);
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const isKnown = reader.u8('known') === 1;
    const clock = reader.size('clock');
    const refused: number[] = [];
    while (reader.remaining > 0) refused.push(reader.size('place'));
    return { isKnown, clock, refused };
  },
};

/** GUEST_LEASE (213), to a storage that has guests of the sender. */
export const guestLease: Command<LeaseRequest, LeaseReply> = {
  name: 'GUEST_LEASE',
  code: CommandCode.guestLease,
  request: leaseRequest,
  reply: leaseReply,
};

/** Bytes that a file takes in the list of those granted. */
export function leasedFileBytes(file: LeasedFile): number {
  return (
    2 +
    file.name.length +
    file.guest.length +
    4 * 8 +
    QUERY_IP_BYTES.wide +
    (file.metadata?.length ?? 0)
  );
}

/** Where reads of a file are to go. */
export interface ForwardTarget {
  readonly group: string;
  readonly id: string;
}

export interface Forward {
  /** `M00/3F/A2/base` */
  readonly name: string;
  /** Undefined: to its home again. */
  readonly target: ForwardTarget | undefined;
}

export interface ForwardReport {
  readonly group: string;
  readonly id: string;
  readonly port: number;
  /** What was told before is forgotten. */
  readonly begins: boolean;
  readonly forwards: readonly Forward[];
}

/**
 * `group str(16) | id str(16) | port i64 | begins u8`, then for each `name length u8 | name |
 * target group str(16) | target id str(16)`, both empty where there is none any more
 */
const forwardReportRequest: Codec<ForwardReport> = {
  encode({ group, id, port, begins, forwards }) {
    const writer = new ByteWriter()
      .text(group, GROUP_BYTES, 'group')
      .text(id, STORAGE_ID_BYTES, 'id')
      .i64(port)
      .u8(begins ? 1 : 0);
    for (const { name, target } of forwards) {
      writeName(writer, name)
        .text(target?.group ?? '', GROUP_BYTES, 'group')
        .text(target?.id ?? '', STORAGE_ID_BYTES, 'id');
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    const id = reader.text(STORAGE_ID_BYTES, 'id');
    const port = reader.size('port');
    if (port < 1 || port > MAX_PORT) throw new ProtocolError(`port ${port}`);
    const begins = reader.u8('begins') === 1;
    const forwards: Forward[] = [];
    while (reader.remaining > 0) {
      const name = readName(reader);
      const target = {
        group: reader.text(GROUP_BYTES, 'group'),
        id: reader.text(STORAGE_ID_BYTES, 'id'),
      };
      forwards.push({ name, target: target.group === '' ? undefined : target });
    }
    return { group, id, port, begins, forwards };
  },
};

/** FORWARD_REPORT (214), to a tracker: which storages of other groups answer for files of the sender. */
export const forwardReport: Command<ForwardReport, undefined> = {
  name: 'FORWARD_REPORT',
  code: CommandCode.forwardReport,
  request: forwardReportRequest,
  reply: nothing,
};

/** Bytes that a forward takes in a report. */
export function forwardBytes({ name }: Forward): number {
  return 1 + name.length + GROUP_BYTES + STORAGE_ID_BYTES;
}

function writeFile(writer: ByteWriter, file: LeasedFile): void {
  writeName(writeName(writer, file.name), file.guest)
    .i64(file.size)
    .i64(file.mtimeSeconds)
    .i64(file.crc32)
    .text(file.sourceAddress, QUERY_IP_BYTES.wide, 'source')
    .i64(file.metadata?.length ?? -1)
    .raw(file.metadata ?? Buffer.alloc(0));
}

function readFile(reader: ByteReader): LeasedFile {
  const name = readName(reader);
  const guest = readName(reader);
  const size = reader.size('size');
  const mtimeSeconds = reader.size('mtime');
  const crc32 = reader.size('crc32');
  const sourceAddress = reader.text(QUERY_IP_BYTES.wide, 'source');
  const bytes = reader.i64('metadata length');
  if (bytes > MAX_LEASED_METADATA_BYTES) throw new ProtocolError(`metadata of ${bytes} bytes`);
  // A copy: the request's own buffer is not kept for it.
  const metadata = bytes < 0 ? undefined : Buffer.from(reader.bytes(bytes, 'metadata'));
  return { name, guest, size, mtimeSeconds, crc32, sourceAddress, metadata };
}

function writeName(writer: ByteWriter, name: string): ByteWriter {
  return writer.u8(name.length).raw(Buffer.from(name, 'latin1'));
}

function readName(reader: ByteReader): string {
  const length = reader.u8('name length');
  if (length > MAX_NAME_BYTES) throw new ProtocolError('a name too long');
  return reader.bytes(length, 'name').toString('latin1');
}

/** The count is the sender's word: what is not there ends it. */
function readMany<Each>(
  reader: ByteReader,
  count: number,
  read: (reader: ByteReader) => Each,
): Each[] {
  const all: Each[] = [];
  while (all.length < count) all.push(read(reader));
  return all;
}
