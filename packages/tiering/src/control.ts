import { isError, type MigrationAction, migrationControl, Status } from '@stevedore/protocol';
import {
  AuthenticationError,
  checkAddress,
  DEFAULT_STORAGE_PORT,
  Peer,
  type PeerOptions,
  StatusError,
} from '@stevedore/wire';
import type { MigrationStatus } from './migration/status.js';

/** Operator commands for a storage with a metadata tier. The daemons do not use them. */
export type { MigrationAction } from '@stevedore/protocol';
export type { ClassStatus, MigrationStatus } from './migration/status.js';

/** The storage has no tier, or is not one of ours. */
export class NoMigrationError extends Error {
  override readonly name = 'NoMigrationError';
  readonly code = 'no_migration';
}

export interface AskOptions {
  readonly timeoutMs?: number;
  /** The cluster's secret, if it has one. */
  readonly secret?: string | undefined;
}

/** Sends a migration command to a storage and returns the status after it. */
export async function askMigration(
  storage: string,
  action: MigrationAction,
  { timeoutMs = 10_000, secret }: AskOptions = {},
): Promise<MigrationStatus> {
  const address = checkAddress(storage, DEFAULT_STORAGE_PORT);
  const peer: PeerOptions = { address, timeoutMs, access: { secret, withoutSecret: 'nothing' } };
  try {
    const answer = await Peer.ask(peer, migrationControl, action);
    return JSON.parse(answer.toString()) as MigrationStatus;
  } catch (error) {
    // A storage that does not know the command answers with a status and closes, or just closes.
    const isEnd = isError(error) && 'code' in error && error.code === 'connection_lost';
    if (!(error instanceof StatusError) && !isEnd) throw error;
    if (error instanceof StatusError && error.status === Status.accessDenied) {
      throw new AuthenticationError(`${storage} asks for the secret of its cluster`);
    }
    throw new NoMigrationError(
      `${storage} moves no files: it is no storage with a metadata tier (--metadata-tier)`,
    );
  }
}
