import type { Environment } from '../environment.js';
import { asError } from '../errors.js';
import type { StorageSettings } from '../storage/options.js';
import type { Binlog, Position } from './binlog.js';
import type { Change } from './change.js';
import { Deletions } from './deletions.js';
import { Journal, type OwnChange } from './journal.js';
import { Members } from './members.js';
import { SyncedTimes } from './synced-times.js';

/**
 * What a storage does so that the other members of its group have what it has: it
 * keeps a log of its changes, and answers for one when enough members have it.
 */

/** Those who pass changes on; see peers.ts. */
export interface Copiers {
  /** Status 11 if there are too few members for another change. */
  ready(): Promise<void>;
  /** Resolves when enough members have all that is in the log up to there; else status 11. */
  copied(position: Position): Promise<void>;
  /** A member has lost its log: what came from it is to be compared with all others. */
  repair(): void;
}

export interface ReplicationParts {
  readonly log: Binlog;
  readonly deletions: Deletions;
  readonly synced: SyncedTimes;
  /** Told to the other members: another one means that everything was lost. */
  readonly instance: string;
  readonly environment: Environment;
}

export class Replication {
  readonly log: Binlog;
  readonly deletions: Deletions;
  readonly synced: SyncedTimes;
  readonly instance: string;
  readonly members = new Members();
  readonly journal: Journal;
  /** Latest change that came from another member, unix seconds. */
  lastReceivedSeconds = 0;
  /** Bytes of files sent to other members. */
  sentBytes = 0;
  #copiers: Copiers | undefined;

  constructor({ log, deletions, synced, instance, environment }: ReplicationParts) {
    this.log = log;
    this.deletions = deletions;
    this.synced = synced;
    this.instance = instance;
    this.journal = new Journal(log, deletions, environment);
  }

  /** Another member has lost its log, and with it what it had not passed on to all. */
  lostBy(id: string): void {
    if (this.members.find(id)) this.#copiers?.repair();
  }

  /** From now on, changes are answered when `copiers` say so. */
  passTo(copiers: Copiers): void {
    this.#copiers = copiers;
  }

  /**
   * Makes a change that a client asked for; resolves when enough members have it. If
   * too few get it, `undo` is called with what was made.
   */
  async run<Result>(
    make: (change: Change) => Promise<Result>,
    undo?: (result: Result) => Promise<void>,
  ): Promise<Result> {
    await this.#copiers?.ready();
    const change = this.journal.begin();
    let result: Result;
    try {
      result = await make(change);
    } finally {
      change.end();
    }
    try {
      await this.#copied(change);
    } catch (error) {
      await undo?.(result);
      throw error;
    }
    return result;
  }

  async close(): Promise<void> {
    try {
      await this.deletions.close(this.log.end);
      await this.synced.close();
    } finally {
      await this.log.close();
    }
  }

  async #copied(change: OwnChange): Promise<void> {
    if (change.position > 0) await this.#copiers?.copied(change.position);
  }
}

/** Opens what a storage remembers of its group. */
export async function openReplication(
  log: Binlog,
  instance: string,
  directory: string,
  { disk, environment, onError }: StorageSettings,
): Promise<Replication> {
  const deletions = new Deletions(disk, directory, onError);
  const synced = new SyncedTimes(disk, directory, onError);
  try {
    await deletions.load(log);
    await synced.load();
  } catch (error) {
    await log.close().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
  return new Replication({ log, deletions, synced, instance, environment });
}
