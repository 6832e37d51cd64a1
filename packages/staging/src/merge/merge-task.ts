import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Wakeup } from '@stevedore/async';
import { TRUNK_EXTENSION } from '@stevedore/protocol';
import { StoreError } from '../errors.js';
import type { FileRow, Thin } from '../filemap/filemap.js';
import type { LocalBytes } from '../repair/local-bytes.js';
import type { State } from '../state.js';
import {
  chooseMembers,
  inSteps,
  seededRandom,
  sumOf,
  unitsInSteps,
  unitsToChooseFrom,
} from './candidates.js';
import { isThin, shareOf } from './joining.js';
import { keepThinTrunks } from './keep-thin.js';
import { FIRST_RETRY_MS, PlansInFlight } from './plans-in-flight.js';
import {
  CANDIDATE_FACTOR,
  decideMerge,
  MAX_WAIT_MS,
  type MergeDecision,
  type MergeReason,
  MIN_WAIT_MS,
} from './schedule.js';
import { planTrunk, planWhole, TRUNK_END_BYTES } from './trunk-plan.js';
import { MAX_FILES } from './waiting-files.js';

/**
 * The Merge Task: decides when to merge, chooses the members of a trunk and has the plan sent.
 * Large files are sent one by one, alongside the trunks.
 */
export interface MergeStats {
  readonly trunksInFlight: number;
  readonly largeFilesInFlight: number;
  /** Sends that failed and were retried. */
  readonly sendRetries: number;
  /** Files left out of trunks because their staged bytes are damaged. */
  readonly unpackableFiles: number;
}

/** Trunks in flight at the same time: one is written by the storage while the next is read. */
const TRUNKS_IN_FLIGHT = 2;
const WHOLES_IN_FLIGHT = 2;
/**
 * With this many trunks' bytes waiting, groups are split although more of their files may follow.
 */
const OPEN_TRUNKS = 8;
/** Interval at which incomplete groups are checked again. */
const GROUP_LOOK_MS = 500;
/** How often, until the age limit, files of several expiry classes are checked again. */
const EXPIRY_LOOKS = 30;

export class MergeTask {
  readonly #state: State;
  readonly #random: () => number;
  readonly inFlight: PlansInFlight;
  /** Bytes staged since the last decision, and how many of them trigger the next. */
  #stagedSince = 0;
  #wantedBytes = 0;
  /** Nothing waited at the last decision: the next file starts its clock. */
  #idle = true;
  /** Callers that wait for a merge. */
  #flushes = 0;
  /** Of these, callers that wait for ids. */
  #finishes = 0;
  readonly #wakeup = new Wakeup();
  #running: Promise<void> | undefined;

  constructor(state: State, local: LocalBytes) {
    this.#state = state;
    this.#random = seededRandom(state.options.packingSeed);
    this.inFlight = new PlansInFlight(state, local);
    state.changes
      .on('staged', (bytes, isSpooled) => {
        this.#stagedSince += bytes;
        const isEnough = this.#idle || this.#stagedSince >= this.#wantedBytes;
        if (isSpooled || isEnough) this.#wakeup.wake();
      })
      .on('mergeable', () => this.#wakeup.wake())
      .on('released', () => this.#wakeup.wake());
  }

  start(): void {
    this.#running = this.#run();
  }

  stats(): MergeStats {
    return {
      trunksInFlight: this.inFlight.count('trunk'),
      largeFilesInFlight: this.inFlight.count('whole'),
      sendRetries: this.inFlight.retries,
      unpackableFiles: this.#state.files.damaged,
    };
  }

  /**
   * Merges the files that wait now, and not those that come meanwhile. Resolves when they are
   * confirmed or known to be damaged.
   */
  async flush(signal?: AbortSignal): Promise<void> {
    const { files } = this.#state;
    await this.#mergeUntil(() => !files.isMoving, signal);
    // The FileMap may be closed by now.
    if (this.#state.changes.isOver) return;
    const last = files.last();
    await this.#mergeUntil(() => !files.isWaitingUpTo(last), signal);
    const sent = new Set(this.inFlight.ends());
    await this.#mergeUntil(() => !this.inFlight.ends().some((end) => sent.has(end)), signal);
  }

  /**
   * The same, and gives every file in FastDFS its id: trunks that are not full stay as they are.
   * Rejects with `storage_unavailable` after `timeoutMs`, `aborted`, and `closed`.
   */
  async finish(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const { files, fileMap } = this.#state;
    const late = AbortSignal.timeout(timeoutMs);
    const ends = signal ? AbortSignal.any([signal, late]) : late;
    this.#finishes += 1;
    try {
      do {
        await this.#mergeUntil(() => !files.isMoving, ends);
        // Before it merges, so that none of them is joined meanwhile.
        if (!this.#state.changes.isOver) await keepThinTrunks(this.#state);
        await this.flush(ends);
      } while (!this.#state.changes.isOver && (files.isMoving || fileMap.thinTrunks().length > 0));
    } catch (error) {
      if (this.#state.changes.isOver) throw closed();
      if (signal?.aborted) {
        throw new StoreError('aborted', 'the flush was aborted', { cause: signal.reason });
      }
      throw late.aborted ? this.#unfinished(timeoutMs) : error;
    } finally {
      this.#finishes -= 1;
    }
    if (this.#state.changes.isOver) throw closed();
  }

  #unfinished(timeoutMs: number): StoreError {
    const { failure } = this.inFlight;
    const why = failure ? `FastDFS takes no trunk: ${failure.message}` : 'it takes longer';
    const left = `${this.#state.files.count()} files still wait after ${timeoutMs} ms`;
    return new StoreError(
      'storage_unavailable',
      `${left} (${why}); they stay on this disk and are stored later`,
      { cause: failure },
    );
  }

  /**
   * Resolves once FastDFS has all of these files that are not deleted. Small ones are merged now;
   * large ones are on their way.
   */
  async store(keys: readonly Buffer[], signal: AbortSignal): Promise<void> {
    const { fileMap } = this.#state;
    const isStored = (key: Buffer): boolean => {
      const row = fileMap.find(key);
      return !row || row.trunk !== undefined || row.was.length > 0;
    };
    let stored = 0;
    const areStored = (): boolean => {
      while (stored < keys.length && isStored(keys[stored]!)) stored += 1;
      return stored === keys.length;
    };
    const isSmall = (key: Buffer): boolean => fileMap.find(key)?.local.at !== 'spool';
    await this.#mergeUntil(areStored, signal, keys.some(isSmall));
    // The FileMap may be closed by now.
    if (stored < keys.length) throw closed();
  }

  /** Also ends when the task is stopped. `hasSmall`: false leaves small files waiting. */
  async #mergeUntil(
    isDone: () => boolean,
    signal: AbortSignal | undefined,
    hasSmall = true,
  ): Promise<void> {
    const flushes = hasSmall ? 1 : 0;
    this.#flushes += flushes;
    try {
      while (!this.#state.changes.isOver && !isDone()) {
        signal?.throwIfAborted();
        this.#wakeup.wake();
        await Promise.race([...this.inFlight.ends(), sleep(25, undefined, { ref: true })]);
      }
    } finally {
      this.#flushes -= flushes;
    }
  }

  /** Resolves when the task has stopped. Plans in flight are abandoned; their files stay staged. */
  async ended(): Promise<void> {
    this.#wakeup.wake();
    await this.#running;
    await this.inFlight.ended();
  }

  async #run(): Promise<void> {
    const ended = this.#state.changes.outcomes();
    while (!this.#state.changes.isOver) {
      try {
        await this.#sendWholes();
        const decision = this.#decide();
        const isDue = decision.action === 'merge';
        const waitMs = isDue ? await this.#mergeOnce(decision.reason) : decision.waitMs;
        ended();
        await this.#wakeup.next(waitMs);
      } catch (error) {
        ended(error as Error);
        await this.#wakeup.next(FIRST_RETRY_MS);
      }
    }
  }

  #decide(): MergeDecision {
    const { now, files, room } = this.#state;
    const { trunkSize, mergeMaxAge: maxAgeMs } = this.#state.options;
    if (this.inFlight.count('trunk') >= TRUNKS_IN_FLIGHT) {
      // The end of a trunk in flight wakes the task; uploads do not.
      this.#idle = false;
      this.#wantedBytes = Number.POSITIVE_INFINITY;
      return { action: 'wait', waitMs: MAX_WAIT_MS };
    }
    const { files: waitingFiles, bytes: waitingBytes } = files.small();
    const oldest = waitingFiles > 0 ? files.oldest() : undefined;
    this.#idle = oldest === undefined;
    this.#stagedSince = 0;
    this.#wantedBytes = Math.max(0, CANDIDATE_FACTOR * trunkSize - waitingBytes);
    if (this.#flushes > 0 && oldest) return { action: 'merge', reason: 'flush' };
    return decideMerge({
      now: now(),
      waitingBytes,
      waitingFiles,
      oldestStagedAt: oldest?.stagedAt,
      targetBytes: trunkSize,
      maxFiles: MAX_FILES,
      maxAgeMs,
      short: room.isShort,
    });
  }

  /**
   * Plans one trunk. Resolves with the wait until the next: 0 if one was planned, less than the
   * longest if it is early: too many of the waiting bytes belong to groups that may still grow, or
   * the files of no expiry class fill a trunk yet.
   */
  async #mergeOnce(reason: MergeReason): Promise<number> {
    const { now, keys, files } = this.#state;
    const { trunkSize, mergeMaxAge: maxAgeMs } = this.#state.options;
    const capacityBytes = trunkSize - TRUNK_END_BYTES;
    const { planCount } = files;
    const rows = await files.candidates(capacityBytes, now());
    const limits = { capacityBytes, maxFiles: MAX_FILES };
    const pause = () => nextTurn();
    const unitLimits = { ...limits, now: now(), maxAgeMs };
    const units = await inSteps(unitsInSteps(rows, unitLimits), pause);
    const mayWait = reason === 'full' && this.#mayWait(rows[0]);
    const choice = unitsToChooseFrom(units, limits, mayWait);
    if (!choice) {
      const leftMs = rows[0]!.stagedAt + maxAgeMs - now();
      const isOpen = units.some((unit) => unit.isOpen);
      const lookMs = isOpen ? GROUP_LOOK_MS : Math.ceil(maxAgeMs / EXPIRY_LOOKS);
      // Uploads do not wake the task while it waits.
      this.#wantedBytes = Number.POSITIVE_INFINITY;
      return Math.max(MIN_WAIT_MS, Math.min(lookMs, leftMs));
    }
    const { rows: members, bytes } = await chooseMembers(choice, limits, this.#random, pause);
    if (members.length === 0 || this.#state.changes.isOver) return MAX_WAIT_MS;
    // With tens of thousands of files, each of these steps takes milliseconds.
    await pause();
    const plan = planTrunk(keys.next(), members, TRUNK_EXTENSION, bytes);
    const full = { bytes: trunkSize, files: MAX_FILES };
    const share = shareOf({ bytes: plan.size, files: members.length }, full);
    // Not of all that wait: while files are being moved, those that were moved before are left out.
    const choiceShare = shareOf(sumOf(choice), full);
    const thin = isThin(share, choiceShare) ? this.#thin(members) : undefined;
    await pause();
    // Since its files were read, a trunk was adopted that may have some of them.
    if (files.planCount !== planCount) return 0;
    await this.inFlight.begin({ ...plan, thin });
    return 0;
  }

  /** True if merging may wait for the rest of incomplete groups, or for more of one class. */
  #mayWait(oldest: FileRow | undefined): boolean {
    const { files, now, room, options } = this.#state;
    if (room.isShort || files.small().bytes >= OPEN_TRUNKS * options.trunkSize) return false;
    return oldest !== undefined && now() - oldest.stagedAt < options.mergeMaxAge;
  }

  /** Undefined if the trunk is final, because one of its files must get its id. */
  #thin(members: readonly FileRow[]): Thin | undefined {
    const { fileMap, now, options } = this.#state;
    const { idMaxAge = 0 } = options;
    // Not left to the comparison of ages: they are negative if the clock was set back.
    if (idMaxAge === 0 || this.#finishes > 0) return undefined;
    const oldestAt = members.reduce((oldest, row) => Math.min(oldest, row.stagedAt), Infinity);
    if (now() - oldestAt >= idMaxAge) return undefined;
    const sources = new Set(members.flatMap(({ was }) => was.slice(-1).map(([fileId]) => fileId)));
    const levels = [...sources].map((fileId) => fileMap.trunkByFileId(fileId)?.thin ?? 0);
    return { level: 1 + Math.max(0, ...levels), oldestAt };
  }

  /** Sends waiting large files. */
  async #sendWholes(): Promise<void> {
    const wholes = this.inFlight.count('whole');
    if (wholes >= WHOLES_IN_FLIGHT) return;
    for (const row of this.#state.files.large(WHOLES_IN_FLIGHT + wholes)) {
      if (this.inFlight.count('whole') >= WHOLES_IN_FLIGHT) return;
      await this.inFlight.begin(planWhole(this.#state.keys.next(), row));
    }
  }
}

function closed(): StoreError {
  return new StoreError('closed', 'the store is closed');
}
