import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Wakeup } from '@stevedore/async';
import { TRUNK_EXTENSION } from '@stevedore/protocol';
import { StoreError } from '../errors.js';
import type { FileRow, Thin } from '../filemap/filemap.js';
import { chooseMembers, inSteps, sumOf, unitsInSteps, unitsToChooseFrom } from './candidates.js';
import { isThin, shareOf } from './joining.js';
import { FIRST_RETRY_MS, PlansInFlight, type PlansInFlightOptions } from './plans-in-flight.js';
import {
  CANDIDATE_FACTOR,
  decideMerge,
  Inflow,
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
export interface MergeTaskOptions extends PlansInFlightOptions {
  readonly random: () => number;
  readonly newTaskId: () => Buffer;
  readonly trunkBytes: number;
  readonly maxAgeMs: number;
  /** Thin trunks may be joined with others until their files reach this age. */
  readonly idMaxAgeMs: number;
  /** True when the container is nearly full. */
  readonly isShort: () => boolean;
}

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
  readonly #options: MergeTaskOptions;
  readonly #inflow: Inflow;
  readonly inFlight: PlansInFlight;
  /** Bytes staged since the last decision, and how many of them trigger the next. */
  #stagedSince = 0;
  #wantedBytes = 0;
  /** Nothing waited at the last decision: the next file starts its clock. */
  #idle = true;
  #isStopped = false;
  /** When to look again if it is early. */
  #lookMs = GROUP_LOOK_MS;
  #flushes = 0;
  readonly #wakeup = new Wakeup();
  #running: Promise<void> | undefined;

  constructor(options: MergeTaskOptions) {
    this.#options = options;
    this.#inflow = new Inflow(options.now());
    this.inFlight = new PlansInFlight({
      ...options,
      onReleased: (plan) => {
        options.onReleased(plan);
        this.wake();
      },
    });
  }

  start(): void {
    this.#running = this.#run();
  }

  /** A file was staged. */
  noteStaged(bytes: number, spooled: boolean): void {
    if (spooled) {
      this.wake();
      return;
    }
    this.#inflow.add(bytes);
    this.#stagedSince += bytes;
    if (this.#idle || this.#stagedSince >= this.#wantedBytes) this.wake();
  }

  wake(): void {
    this.#wakeup.wake();
  }

  stats(): MergeStats {
    return {
      trunksInFlight: this.inFlight.count('trunk'),
      largeFilesInFlight: this.inFlight.count('whole'),
      sendRetries: this.inFlight.retries,
      unpackableFiles: this.#options.files.damaged,
    };
  }

  /** Merges all files that wait now. Resolves when they are confirmed or known to be damaged. */
  async flush(signal?: AbortSignal): Promise<void> {
    const { files } = this.#options;
    await this.#mergeUntil(() => files.count() <= 0 && this.inFlight.ends().length === 0, signal);
  }

  /** Merges these files now. Resolves once FastDFS has all that are not deleted. */
  async store(keys: readonly Buffer[], signal: AbortSignal): Promise<void> {
    const { fileMap } = this.#options;
    const isStored = (key: Buffer): boolean => {
      const row = fileMap.find(key);
      return !row || row.trunk !== undefined || row.was.length > 0;
    };
    let stored = 0;
    const areStored = (): boolean => {
      while (stored < keys.length && isStored(keys[stored]!)) stored += 1;
      return stored === keys.length;
    };
    await this.#mergeUntil(areStored, signal);
    if (!areStored()) throw new StoreError('closed', 'the store is closed');
  }

  /** Also ends when the task is stopped. */
  async #mergeUntil(isDone: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    this.#flushes += 1;
    try {
      while (!isDone()) {
        signal?.throwIfAborted();
        if (this.#isStopped) return;
        this.wake();
        await Promise.race([...this.inFlight.ends(), sleep(25, undefined, { ref: true })]);
      }
    } finally {
      this.#flushes -= 1;
    }
  }

  /** Stops the task. Plans in flight are abandoned; their files stay staged. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.inFlight.stop();
    this.wake();
    await this.#running;
    await this.inFlight.settled();
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        const begun = await this.#sendWholes();
        const decision = this.#decide();
        let waitMs = decision.action === 'wait' ? decision.waitMs : MAX_WAIT_MS;
        if (decision.action === 'merge') {
          const outcome = await this.#mergeOnce(decision.reason);
          if (outcome === 'planned') continue;
          if (outcome === 'early') waitMs = this.#wait(this.#lookMs);
        }
        if (!begun) await this.#wakeup.next(waitMs);
      } catch (error) {
        this.#options.onError(error as Error);
        await this.#wakeup.next(FIRST_RETRY_MS);
      }
    }
  }

  #decide(): MergeDecision {
    const { now, trunkBytes, maxAgeMs, isShort } = this.#options;
    // The end of a trunk in flight wakes the task.
    if (this.inFlight.count('trunk') >= TRUNKS_IN_FLIGHT)
      return { action: 'wait', waitMs: MAX_WAIT_MS };
    const { files: waitingFiles, bytes: waitingBytes } = this.#options.files.small();
    const oldest = waitingFiles > 0 ? this.#options.files.oldest() : undefined;
    this.#idle = oldest === undefined;
    this.#stagedSince = 0;
    this.#wantedBytes = Math.max(0, CANDIDATE_FACTOR * trunkBytes - waitingBytes);
    if (this.#flushes > 0 && oldest) return { action: 'merge', reason: 'flush' };
    return decideMerge({
      now: now(),
      waitingBytes,
      waitingFiles,
      oldestStagedAt: oldest?.stagedAt,
      inflowBytesPerSecond: this.#inflow.bytesPerSecond(now()),
      targetBytes: trunkBytes,
      maxFiles: MAX_FILES,
      maxAgeMs,
      short: isShort(),
    });
  }

  /** Uploads do not wake the task while it waits. */
  #wait(ms: number): number {
    this.#wantedBytes = Number.POSITIVE_INFINITY;
    return ms;
  }

  /**
   * `early`: too many of the waiting bytes belong to groups that may still grow, or the files of no
   * expiry class fill a trunk yet.
   */
  async #mergeOnce(reason: MergeReason): Promise<'planned' | 'early' | 'nothing'> {
    const { now, random, trunkBytes, maxAgeMs, newTaskId } = this.#options;
    const capacityBytes = trunkBytes - TRUNK_END_BYTES;
    const rows = await this.#options.files.candidates(capacityBytes, now());
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
      this.#lookMs = Math.max(MIN_WAIT_MS, Math.min(lookMs, leftMs));
      return 'early';
    }
    const { rows: members, bytes } = await chooseMembers(choice, limits, random, pause);
    if (members.length === 0 || this.#isStopped) return 'nothing';
    // With tens of thousands of files, each of these steps takes milliseconds.
    await pause();
    const plan = planTrunk(newTaskId(), members, TRUNK_EXTENSION, bytes);
    const full = { bytes: trunkBytes, files: MAX_FILES };
    const share = shareOf({ bytes: plan.size, files: members.length }, full);
    // Not of all that wait: while files are being moved, those that were moved before are left out.
    const choiceShare = shareOf(sumOf(choice), full);
    const thin = isThin(share, choiceShare) ? this.#thin(members) : undefined;
    await pause();
    await this.inFlight.begin({ ...plan, thin });
    return 'planned';
  }

  /** True if merging may wait for the rest of incomplete groups, or for more of one class. */
  #mayWait(oldest: FileRow | undefined): boolean {
    const { files, now, trunkBytes, maxAgeMs, isShort } = this.#options;
    if (isShort() || files.small().bytes >= OPEN_TRUNKS * trunkBytes) return false;
    return oldest !== undefined && now() - oldest.stagedAt < maxAgeMs;
  }

  /** Undefined if the trunk is final, because one of its files must get its id. */
  #thin(members: readonly FileRow[]): Thin | undefined {
    const { fileMap, now, idMaxAgeMs } = this.#options;
    // Not left to the comparison of ages: they are negative if the clock was set back.
    if (idMaxAgeMs === 0) return undefined;
    const oldestAt = members.reduce((oldest, row) => Math.min(oldest, row.stagedAt), Infinity);
    if (now() - oldestAt >= idMaxAgeMs) return undefined;
    const sources = new Set(members.flatMap(({ was }) => was.slice(-1).map(([fileId]) => fileId)));
    const levels = [...sources].map((fileId) => fileMap.trunkByFileId(fileId)?.thin ?? 0);
    return { level: 1 + Math.max(0, ...levels), oldestAt };
  }

  /** Sends waiting large files; true if any was begun. */
  async #sendWholes(): Promise<boolean> {
    const wholes = this.inFlight.count('whole');
    if (wholes >= WHOLES_IN_FLIGHT) return false;
    let begun = false;
    for (const row of this.#options.files.large(WHOLES_IN_FLIGHT + wholes)) {
      if (this.inFlight.count('whole') >= WHOLES_IN_FLIGHT) break;
      await this.inFlight.begin(planWhole(this.#options.newTaskId(), row));
      begun = true;
    }
    return begun;
  }
}
