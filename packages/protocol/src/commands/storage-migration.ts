import { ProtocolError } from '../bytes.js';
import { type BodyOf, type Codec, only, record, size } from '../layout.js';
import { command, raw } from './shared.js';

/**
 * Not part of FastDFS: operators' commands to a storage that migrates its small files, and what
 * such storages ask each other before they move load.
 */

const MIGRATION_ACTIONS = ['status', 'pause', 'resume', 'dry-run', 'recall'] as const;
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

/** An action as text; the reply is the resulting status as JSON. */
export const migrationControl = command('MIGRATION_CONTROL', 210, action, raw);

/**
 * A metadata server's forecast for the next interval and the load that it accepts, in bytes per
 * second.
 */
const roomFields = record(
  {
    /** B_logic. */
    capacityBytes: size,
    metadataBytes: size,
    smallFileBytes: size,
    /** The efficiency that it wants not to exceed, in thousandths. */
    markPerMille: size,
    /**
     * The part of the offered load that it accepts in this interval. It accepts none from others.
     */
    takenBytes: size,
  },
  'MIGRATION_ROOM',
);
export type MigrationRoom = BodyOf<typeof roomFields>;

const room: Codec<MigrationRoom> = {
  ...roomFields,
  decode(bytes) {
    const value = roomFields.decode(bytes);
    if (value.capacityBytes < 1) throw new ProtocolError('a server that does nothing');
    return value;
  },
};

/** Bytes per second to move there in the next interval; 0 only asks. */
export const migrationRoom = command('MIGRATION_ROOM', 211, only(size, 'MIGRATION_ROOM'), room);
