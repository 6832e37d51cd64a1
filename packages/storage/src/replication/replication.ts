import { type FileId, type PeerStanding, Status } from '@stevedore/protocol';
import type { Environment } from '../environment.js';
import { asError, StatusError } from '../errors.js';
import type { StorageSettings } from '../storage/options.js';
import type { Binlog, Position } from './binlog.js';
import type { Change } from './change.js';
import { Deletions } from './deletions.js';
import { Journal } from './journal.js';
import { Members } from './members.js';
import { Standing } from './standing.js';
import { SyncedTimes } from './synced-times.js';

/**
 * What a storage does so that the other members of its group have what it has: it
 * keeps a log of its changes, and answers for one when enough members have it.
 */

/** Those who pass changes on; see peers.ts. */
export interface Copiers {
  /**
   * Resolves when such a change may be made here, with the turn of the standing; status
   * 11 if there are too few members for it, or others are to make it.
   */
  ready(kind: ChangeKind): Promise<number>;
  /** Whether what was allowed in that turn is so still. */
  isAllowed(kind: ChangeKind, turn: number): boolean;
  /** Resolves when enough members have all that is in the log up to there. */
  copied(position: Position, kind: ChangeKind, turn: number): Promise<void>;
  /** What a member says of who goes on without whom; true if this storage does without it. */
  said(id: string, { word, name }: PeerStanding): Promise<boolean>;
  /** A tracker may have forgotten who is out. */
  rejoined(): void;
  /** A member has lost its log: what came from it is to be compared with all others. */
  repair(): void;
}

/**
 * A new file, which nobody can have but from here; a file that goes; or a change of one
 * that is there, which one member makes at a time.
 */
export type ChangeKind = 'new' | 'gone' | { readonly changed: FileId };

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
  readonly standing = new Standing();
  readonly journal: Journal;
  /** Latest change that came from another member, unix seconds. */
  lastReceivedSeconds = 0;
  /** Bytes of files sent to other members. */
  sentBytes = 0;
  readonly #pending = new Map<string, Set<{ isReplaced: boolean }>>();
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
    // What it had answered without this storage is lost.
    this.standing.levelWith(id);
    if (this.members.find(id)) this.#copiers?.repair();
  }

  /** From now on, changes are answered when `copiers` say so. */
  passTo(copiers: Copiers): void {
    this.#copiers = copiers;
  }

  /**
   * Makes a change that a client asked for; resolves when enough members have it. If
   * too few get it, `undo` is called with what was made, and the status is 11; without
   * it the status is 110: the change has been made and may stay, or not.
   */
  async run<Result>(
    kind: ChangeKind,
    make: (change: Change) => Promise<Result>,
    undo?: (result: Result) => Promise<void>,
  ): Promise<Result> {
    const copiers = this.#copiers;
    const turn = (await copiers?.ready(kind)) ?? this.standing.turn;
    const change = this.journal.begin();
    const pending = typeof kind === 'string' ? undefined : this.#pend(kind.changed.name);
    let result: Result;
    try {
      const isAllowed = (): boolean => copiers?.isAllowed(kind, turn) ?? true;
      const making = (): Promise<Result> => make(change);
      result = await (kind === 'new' ? making() : this.standing.make(isAllowed, making));
    } catch (error) {
      pending?.end();
      throw error;
    } finally {
      change.end();
    }
    try {
      if (change.position > 0) await copiers?.copied(change.position, kind, turn);
      if (pending?.isReplaced) {
        throw new StatusError(Status.tryAgain, 'the file was replaced by another state of it');
      }
    } catch (error) {
      await undo?.(result);
      if (undo || !(error instanceof StatusError)) throw error;
      throw new StatusError(Status.timedOut, error.message);
    } finally {
      pending?.end();
    }
    return result;
  }

  /** The file, or its metadata, has been replaced by what another member has of it. */
  replaced(name: string): void {
    for (const pending of this.#pending.get(name) ?? []) pending.isReplaced = true;
  }

  /** A change of the file that is still to be answered. */
  #pend(name: string): { isReplaced: boolean; end(): void } {
    const all = this.#pending.get(name) ?? new Set();
    const pending = {
      isReplaced: false,
      end: () => {
        all.delete(pending);
        if (all.size === 0 && this.#pending.get(name) === all) this.#pending.delete(name);
      },
    };
    all.add(pending);
    this.#pending.set(name, all);
    return pending;
  }

  /** What a member says; see `Copiers`. */
  async said(id: string, what: PeerStanding): Promise<boolean> {
    return (await this.#copiers?.said(id, what)) ?? false;
  }

  rejoined(): void {
    this.#copiers?.rejoined();
  }

  async close(): Promise<void> {
    try {
      await this.deletions.close(this.log.end);
      await this.synced.close();
    } finally {
      await this.log.close();
    }
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
