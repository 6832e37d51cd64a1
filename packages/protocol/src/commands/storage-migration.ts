import type { Codec, Command } from '../command.js';
import { CommandCode } from '../constants.js';
import { ProtocolError } from '../errors.js';

/** Not of FastDFS: what operators ask of a storage that moves files between its tiers. */

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
