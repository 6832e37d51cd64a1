import { decodeFields, type FileId } from '@stevedore/protocol';
import { asError, type Environment } from '@stevedore/wire';
import type { StorageSettings } from '../storage-options.js';
import type { Binlog, Position } from './binlog.js';
import { type Change, Journal } from './journal.js';
import { Members } from './members.js';
import type { OpenedLog } from './open-log.js';
import { SyncedTimes } from './progress.js';
import { Tombstones } from './tombstones.js';

/**
 * Replication as in FastDFS: a storage records its changes in the binlog, and one sender for
 * each other member of the group pushes them. Only its source changes a file. A new file is
 * answered once `writeCopies` members have it.
 */

/** The senders; see peers.ts. */
export interface Copiers {
  /** Throws status 11 if a new file could not get enough copies now. */
  checkCopies(): void;
  /** Resolves when enough members have the record that ends there; status 11 if too late. */
  copied(position: Position): Promise<void>;
  /** Throws status 11 if another member makes the changes of this file. */
  checkSource(id: FileId): void;
}

/** A new file, a deletion, or a change of an existing file, which only its source makes. */
export type ChangeKind = 'new' | 'gone' | { readonly changed: FileId };

export interface ReplicationParts {
  readonly log: Binlog;
  readonly tombstones: Tombstones;
  readonly synced: SyncedTimes;
  readonly environment: Environment;
}

export class Replication {
  readonly log: Binlog;
  readonly tombstones: Tombstones;
  readonly synced: SyncedTimes;
  readonly members = new Members();
  readonly journal: Journal;
  /** Latest change that came from another member, unix seconds. */
  lastReceivedSeconds = 0;
  /** Bytes of files sent to other members. */
  sentBytes = 0;
  #copiers: Copiers | undefined;

  constructor({ log, tombstones, synced, environment }: ReplicationParts) {
    this.log = log;
    this.tombstones = tombstones;
    this.synced = synced;
    this.journal = new Journal(log, tombstones, environment);
  }

  /** From now on, `copiers` decide which changes are made and answered. */
  passTo(copiers: Copiers): void {
    this.#copiers = copiers;
  }

  /**
   * Makes a change that a client requested. If too few members get a new file, `undo` removes
   * it and the status is 11. The removal has the time of the creation, because another member
   * may have stored a slave of the same name since.
   */
  async run<Result>(
    kind: ChangeKind,
    make: (change: Change) => Promise<Result>,
    undo?: (result: Result, change: Change) => Promise<void>,
  ): Promise<Result> {
    const copiers = this.#copiers;
    if (kind === 'new') copiers?.checkCopies();
    else if (kind !== 'gone') copiers?.checkSource(kind.changed);
    const change = this.journal.begin();
    let result: Result;
    try {
      result = await make(change);
    } finally {
      change.end();
    }
    if (kind !== 'new') return result;
    try {
      await copiers?.copied(change.position);
    } catch (error) {
      await undo?.(result, change);
      throw error;
    }
    return result;
  }

  /** True if that member is the file's source. */
  isSource(memberId: string, { base }: FileId): boolean {
    const { source } = decodeFields(base);
    return source === memberId || source === this.members.find(memberId)?.address;
  }

  async close(): Promise<void> {
    try {
      await this.tombstones.close(this.log.end);
      await this.synced.save();
    } finally {
      await this.log.close();
    }
  }
}

/** Loads the replication state. */
export async function openReplication(
  { log, lostFiles }: OpenedLog,
  directory: string,
  { disk, environment, onError }: StorageSettings,
): Promise<Replication> {
  const tombstones = new Tombstones(disk, directory, onError);
  const synced = new SyncedTimes(disk, directory, onError);
  try {
    await tombstones.load(log);
    if (lostFiles) await synced.clear();
    else await synced.load();
  } catch (error) {
    await log.close().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
  return new Replication({ log, tombstones, synced, environment });
}
