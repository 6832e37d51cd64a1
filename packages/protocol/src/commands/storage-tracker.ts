import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import {
  CommandCode,
  GROUP_WIDE_BYTES,
  IP_BYTES,
  MAX_PORT,
  STORAGE_ID_BYTES,
  VERSION_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';

/** What a storage sends its trackers. A storage keeps one long connection to each. */

export interface GetMyIpRequest {
  readonly group: string;
  readonly port: number;
}

/** `group str(17) | port i32` */
const getMyIpRequest: Codec<GetMyIpRequest> = {
  encode: ({ group, port }) =>
    new ByteWriter().text(group, GROUP_WIDE_BYTES, 'group').i32(port).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_WIDE_BYTES, 'group');
    const port = reader.i32('port');
    reader.end('GET_MY_IP');
    return { group, port };
  },
};

const addressText: Codec<string> = {
  encode: (value) => Buffer.from(value, 'latin1'),
  decode: (bytes) => new ByteReader(bytes).restText(),
};

/** STORAGE_GET_MY_IP (60): the caller's address as the tracker sees it. */
export const getMyIp: Command<GetMyIpRequest, string> = {
  name: 'STORAGE_GET_MY_IP',
  code: CommandCode.storageGetMyIp,
  request: getMyIpRequest,
  reply: addressText,
};

export type Parameters = ReadonlyMap<string, string>;

/** One `key=value` a line. */
const parameters: Codec<Parameters> = {
  encode: (value) =>
    Buffer.from([...value].map(([key, text]) => `${key}=${text}\n`).join(''), 'latin1'),
  decode(bytes) {
    const map = new Map<string, string>();
    for (const line of bytes.toString('latin1').split('\n')) {
      const equals = line.indexOf('=');
      if (equals > 0) map.set(line.slice(0, equals).trim(), line.slice(equals + 1).trim());
    }
    return map;
  },
};

/** STORAGE_PARAMETER_REQ (75): the cluster's settings, as the tracker has them. */
export const parameterReq: Command<undefined, Parameters> = {
  name: 'STORAGE_PARAMETER_REQ',
  code: CommandCode.storageParameterReq,
  request: nothing,
  reply: parameters,
};

export interface JoinRequest {
  readonly group: string;
  readonly port: number;
  readonly storePathCount: number;
  readonly subdirectoriesPerPath: number;
  readonly uploadPriority: number;
  /** Unix seconds of this storage's very first start. */
  readonly joinedAtSeconds: number;
  /** Unix seconds of this start. */
  readonly startedAtSeconds: number;
  readonly version: string;
  /** True until the first synchronisation with the group is done. */
  readonly initial: boolean;
  /** Last own status learnt from a tracker; -1 if one has not told yet. */
  readonly status: number;
  /** Empty unless the cluster names storages by ids. */
  readonly storageId: string;
  /** This tracker's address as the storage knows it. */
  readonly trackerAddress: string;
  /** All trackers, `ip:port`. */
  readonly trackers: readonly string[];
}

const MAX_TRACKERS = 16;

/** 145 bytes and a line for each tracker; the layout is in FORMAT.md. */
const joinRequest: Codec<JoinRequest> = {
  encode: (join) =>
    new ByteWriter()
      .text(join.group, GROUP_WIDE_BYTES, 'group')
      .i64(join.port)
      .i64(join.storePathCount)
      .i64(join.subdirectoriesPerPath)
      .i64(join.uploadPriority)
      .i64(join.joinedAtSeconds)
      .i64(join.startedAtSeconds)
      .text(join.version, VERSION_BYTES, 'version')
      .u8(join.initial ? 1 : 0)
      .u8(join.status)
      .text(join.storageId, STORAGE_ID_BYTES, 'storage id')
      .text(join.trackerAddress, IP_BYTES.wide, 'tracker ip')
      .i64(join.trackers.length)
      .restText(join.trackers.map((tracker) => `${tracker}\n`).join(''))
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const join = {
      group: reader.text(GROUP_WIDE_BYTES, 'group'),
      port: reader.size('port'),
      storePathCount: reader.size('store path count'),
      subdirectoriesPerPath: reader.size('subdirectory count'),
      uploadPriority: reader.i64('upload priority'),
      joinedAtSeconds: reader.i64('join time'),
      startedAtSeconds: reader.i64('up time'),
      version: reader.text(VERSION_BYTES, 'version'),
      initial: reader.u8('init flag') === 1,
      status: (reader.u8('status') << 24) >> 24,
      storageId: reader.text(STORAGE_ID_BYTES, 'storage id'),
      trackerAddress: reader.text(IP_BYTES.wide, 'tracker ip'),
    };
    const count = reader.size('tracker count');
    const trackers = reader.restText().split('\n').filter(Boolean);
    if (count < 1 || count > MAX_TRACKERS || trackers.length !== count) {
      throw new ProtocolError(
        `a join that announces ${count} trackers and lists ${trackers.length}`,
      );
    }
    if (join.port < 1 || join.port > MAX_PORT) throw new ProtocolError(`port ${join.port}`);
    return { ...join, trackers };
  },
};

export interface JoinReply {
  readonly status: number;
  /** Storage to take the first synchronisation from; empty if there is none. */
  readonly sourceId: string;
}

/** `status u8 | src_id str(16)` */
const joinReply: Codec<JoinReply> = {
  encode: ({ status, sourceId }) =>
    new ByteWriter().u8(status).text(sourceId, STORAGE_ID_BYTES, 'src id').toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    return { status: reader.u8('status'), sourceId: reader.text(STORAGE_ID_BYTES, 'src id') };
  },
};

/** STORAGE_JOIN (81): makes the storage known to the tracker. */
export const join: Command<JoinRequest, JoinReply> = {
  name: 'STORAGE_JOIN',
  code: CommandCode.storageJoin,
  request: joinRequest,
  reply: joinReply,
};

const STATISTICS_BYTES = 348;

/** A beat carries nothing or the 348-byte statistics block, kept here as it is. */
const beatRequest: Codec<Buffer | undefined> = {
  encode: (value) => value ?? Buffer.alloc(0),
  decode(bytes) {
    if (bytes.length !== 0 && bytes.length !== STATISTICS_BYTES) {
      throw new ProtocolError(`a beat of ${bytes.length} bytes`);
    }
    return bytes.length === 0 ? undefined : bytes;
  },
};

const BRIEF_BYTES = 1 + 4 + STORAGE_ID_BYTES + IP_BYTES.wide;

/** A server as change lists name it. */
export interface ServerBrief {
  readonly status: number;
  readonly port: number;
  readonly id: string;
  readonly address: string;
}

/** What has changed since the last beat; absent parts have not. */
export interface ChangeList {
  readonly leader?: ServerBrief;
  readonly trunkServer?: ServerBrief;
  readonly members?: readonly ServerBrief[];
}

const ChangeFlag = { leader: 1, trunkServer: 2, members: 4 } as const;

/** `flags u8`, then 67-byte briefs: leader, trunk server, members, each if its flag is set. */
export const changeList: Codec<ChangeList> = {
  encode(changes) {
    const writer = new ByteWriter().u8(
      (changes.leader ? ChangeFlag.leader : 0) |
        (changes.trunkServer ? ChangeFlag.trunkServer : 0) |
        (changes.members ? ChangeFlag.members : 0),
    );
    if (changes.leader) writeBrief(writer, changes.leader);
    if (changes.trunkServer) writeBrief(writer, changes.trunkServer);
    for (const member of changes.members ?? []) writeBrief(writer, member);
    return writer.toBuffer();
  },
  decode(bytes) {
    if (bytes.length === 0) return {};
    const reader = new ByteReader(bytes);
    const flags = reader.u8('flags');
    if (reader.remaining % BRIEF_BYTES !== 0) {
      throw new ProtocolError(`a change list of ${bytes.length} bytes`);
    }
    return {
      ...(flags & ChangeFlag.leader ? { leader: readBrief(reader) } : {}),
      ...(flags & ChangeFlag.trunkServer ? { trunkServer: readBrief(reader) } : {}),
      ...(flags & ChangeFlag.members ? { members: readBriefs(reader) } : {}),
    };
  },
};

/** STORAGE_BEAT (83): I am alive. Needs a joined connection. */
export const beat: Command<Buffer | undefined, ChangeList> = {
  name: 'STORAGE_BEAT',
  code: CommandCode.storageBeat,
  request: beatRequest,
  reply: changeList,
};

/** Room of one store path. */
export interface DiskUsage {
  readonly totalMegabytes: number;
  readonly freeMegabytes: number;
}

const DISK_USAGE_BYTES = 16;

/** `total_mb i64 | free_mb i64` for each store path */
const diskUsage: Codec<readonly DiskUsage[]> = {
  encode(paths) {
    const writer = new ByteWriter();
    for (const path of paths) writer.i64(path.totalMegabytes).i64(path.freeMegabytes);
    return writer.toBuffer();
  },
  decode(bytes) {
    if (bytes.length === 0 || bytes.length % DISK_USAGE_BYTES !== 0) {
      throw new ProtocolError(`a disk report of ${bytes.length} bytes`);
    }
    const reader = new ByteReader(bytes);
    const paths: DiskUsage[] = [];
    while (reader.remaining > 0) {
      paths.push({ totalMegabytes: reader.size('total'), freeMegabytes: reader.size('free') });
    }
    return paths;
  },
};

/** STORAGE_REPORT_DISK_USAGE (84). Needs a joined connection. */
export const reportDiskUsage: Command<readonly DiskUsage[], ChangeList> = {
  name: 'STORAGE_REPORT_DISK_USAGE',
  code: CommandCode.storageReportDiskUsage,
  request: diskUsage,
  reply: changeList,
};

/** One brief record of `bytes` bytes: `status u8 | port i32 | id str(16) | ip str(46)` */
export const serverBrief: Codec<ServerBrief> & { readonly bytes: number } = {
  bytes: BRIEF_BYTES,
  encode(brief) {
    const writer = new ByteWriter();
    writeBrief(writer, brief);
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const brief = readBrief(reader);
    reader.end('a brief record');
    return brief;
  },
};

function writeBrief(writer: ByteWriter, brief: ServerBrief): void {
  writer
    .u8(brief.status)
    .i32(brief.port)
    .text(brief.id, STORAGE_ID_BYTES, 'id')
    .text(brief.address, IP_BYTES.wide, 'ip');
}

function readBrief(reader: ByteReader): ServerBrief {
  return {
    status: reader.u8('status'),
    port: reader.i32('port'),
    id: reader.text(STORAGE_ID_BYTES, 'id'),
    address: reader.text(IP_BYTES.wide, 'ip'),
  };
}

function readBriefs(reader: ByteReader): ServerBrief[] {
  const briefs: ServerBrief[] = [];
  while (reader.remaining > 0) briefs.push(readBrief(reader));
  return briefs;
}
