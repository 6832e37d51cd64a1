import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import { CommandCode } from '../constants.js';
import { ProtocolError } from '../errors.js';

/**
 * Not of FastDFS: what operators ask of a storage that moves its small files, and what
 * such storages ask each other before they move load.
 */

export const MIGRATION_ACTIONS = ['status', 'pause', 'resume', 'dry-run', 'recall'] as const;
export type MigrationAction = (typeof MIGRATION_ACTIONS)[number];

const action: Codec<MigrationAction> = {
  encode: (value) => Buffer.from(value),
  decode(bytes) {
    const text = bytes.toString();
    const known = MIGRATION_ACTIONS.find((each) => each === text);
    if (!known) throw new ProtocolError('no action of migration');
    return known;
  },
};

const json: Codec<Buffer> = { encode: (value) => value, decode: (bytes) => bytes };

/** MIGRATION_CONTROL (210): an action as text; the reply is the status after it, as JSON. */
export const migrationControl: Command<MigrationAction, Buffer> = {
  name: 'MIGRATION_CONTROL',
  code: CommandCode.migrationControl,
  request: action,
  reply: json,
};

/** What a metadata server expects of the coming interval, and what it takes; bytes a second. */
export interface MigrationRoom {
  /** B_logic. */
  readonly capacityBytes: number;
  readonly metadataBytes: number;
  readonly smallFileBytes: number;
  /** The efficiency that it wants to stay at or below, in thousandths. */
  readonly markPerMille: number;
  /** Of the load that was asked for, what it takes in this interval; nobody else may bring any. */
  readonly takenBytes: number;
}

const load: Codec<number> = {
  encode: (bytes) => new ByteWriter().i64(bytes).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const value = reader.size('load');
    reader.end('MIGRATION_ROOM');
    return value;
  },
};

/** `capacity | metadata | small files | mark | taken`, i64 each */
const room: Codec<MigrationRoom> = {
  encode: (value) =>
    new ByteWriter()
      .i64(value.capacityBytes)
      .i64(value.metadataBytes)
      .i64(value.smallFileBytes)
      .i64(value.markPerMille)
      .i64(value.takenBytes)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const value = {
      capacityBytes: reader.size('capacity'),
      metadataBytes: reader.size('metadata'),
      smallFileBytes: reader.size('small files'),
      markPerMille: reader.size('mark'),
      takenBytes: reader.size('taken'),
    };
    reader.end('MIGRATION_ROOM');
    if (value.capacityBytes < 1) throw new ProtocolError('a server that does nothing');
    return value;
  },
};

/** MIGRATION_ROOM (211): `load i64`, bytes a second to bring in the coming interval; 0 only asks. */
export const migrationRoom: Command<number, MigrationRoom> = {
  name: 'MIGRATION_ROOM',
  code: CommandCode.migrationRoom,
  request: load,
  reply: room,
};
