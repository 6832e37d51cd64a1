import { GrowingPause } from '@stevedore/async';
import {
  type Command,
  type GroupRecord,
  listAllGroups,
  queryFetch,
  queryFetchAll,
  queryStore,
  queryStoreInGroup,
  queryUpdate,
} from '@stevedore/protocol';
import type { Address, Caller } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { FastdfsError, isUnreachable } from './errors.js';

/**
 * Asks one of several trackers. Each call starts with the next one. A tracker that cannot be
 * reached is tried last, for a time that grows with each failure.
 */

const PAUSES = { firstMs: 100, lastMs: 10_000 };

/** Trackers know storages, not files: ENOENT to one of these means that no storage is available. */
const NAMES_A_STORAGE: ReadonlySet<number> = new Set(
  [queryFetch, queryFetchAll, queryStore, queryStoreInGroup, queryUpdate].map(({ code }) => code),
);

interface TrackerState {
  readonly address: Address;
  readonly pause: GrowingPause;
  /** In milliseconds of `performance.now()`. */
  pausedUntilMs: number;
}

export interface TrackerReply<Reply> {
  readonly reply: Reply;
  readonly tracker: Address;
}

export class Trackers {
  readonly #caller: Caller;
  readonly #trackers: readonly TrackerState[];
  #next = 0;

  constructor(caller: Caller, addresses: readonly Address[]) {
    this.#caller = caller;
    this.#trackers = addresses.map((address) => ({
      address,
      pause: new GrowingPause(PAUSES),
      pausedUntilMs: 0,
    }));
  }

  /**
   * The first answer of any tracker, an error status included. Rejects with
   * `no_tracker` when none could be reached.
   */
  async ask<Request, Reply>(
    command: Command<Request, Reply>,
    request: Request,
    deadline: Deadline,
  ): Promise<TrackerReply<Reply>> {
    const candidates = this.#order();
    let lastError: FastdfsError | undefined;
    let noStorage: FastdfsError | undefined;
    for (const [index, tracker] of candidates.entries()) {
      // A tracker that hangs leaves time for the others and for the rest of the call.
      const stepMs = deadline.remainingMs / (candidates.length - index + 1);
      try {
        const reply = await this.#caller.call(tracker.address, command, request, deadline, {
          stepMs,
        });
        tracker.pause.reset();
        tracker.pausedUntilMs = 0;
        return { reply, tracker: tracker.address };
      } catch (error) {
        deadline.throwIfEnded();
        if (hasNoStorage(command, error)) {
          noStorage = error;
          continue;
        }
        if (!isUnreachable(error)) throw error;
        lastError = error;
        // A full pool is our own limit and says nothing about the tracker.
        if (error.code === 'pool_exhausted') continue;
        tracker.pausedUntilMs = performance.now() + tracker.pause.next();
      }
    }
    if (noStorage) throw await this.#explain(noStorage, request, deadline);
    if (lastError?.code === 'pool_exhausted' || lastError?.code === 'access_denied') {
      throw lastError;
    }
    throw deadline.error('no_tracker', `no tracker can be reached: ${lastError?.message}`, {
      address: lastError?.address,
      cause: lastError,
    });
  }

  /**
   * This status means that the group does not exist, or that its storages are away. Only a tracker
   * that knows active storages of other groups is believed to know all groups: one that has just
   * started knows none yet.
   */
  async #explain(error: FastdfsError, request: unknown, deadline: Deadline): Promise<FastdfsError> {
    const details = { address: error.address, status: error.status, cause: error };
    const { group } = Object(request) as { readonly group?: string };
    const groups = group === undefined ? [] : await this.#groups(deadline);
    const isKnown = groups.some(({ name }) => name === group);
    if (isKnown || !groups.some(({ readableCount }) => readableCount > 0)) {
      return deadline.error('no_storage', 'the trackers know no active storage', details);
    }
    return deadline.error(
      'unknown_group',
      `the trackers know no storage group "${group}"`,
      details,
    );
  }

  /** Empty if no tracker knows. */
  async #groups(deadline: Deadline): Promise<readonly GroupRecord[]> {
    try {
      return (await this.ask(listAllGroups, undefined, deadline)).reply;
    } catch {
      deadline.throwIfEnded();
      return [];
    }
  }

  /** Each once, the next one first, and last those that are paused. */
  #order(): readonly TrackerState[] {
    const all = this.#trackers;
    if (all.length === 1) return all;
    const now = performance.now();
    const start = this.#next;
    this.#next = (this.#next + 1) % all.length;
    const pauseMs = ({ pausedUntilMs }: TrackerState): number => Math.max(pausedUntilMs, now);
    return [...all.slice(start), ...all.slice(0, start)].sort((a, b) => pauseMs(a) - pauseMs(b));
  }
}

function hasNoStorage(command: { readonly code: number }, error: unknown): error is FastdfsError {
  return (
    error instanceof FastdfsError && error.code === 'not_found' && NAMES_A_STORAGE.has(command.code)
  );
}
