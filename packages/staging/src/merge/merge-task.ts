import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { News } from '@stevedore/async';
import { TRUNK_EXTENSION } from '@stevedore/protocol';
import { chooseMembers, makeUnits } from './candidates.js';
import { isThin, shareOf } from './joining.js';
import { FIRST_RETRY_MS, PlansInFlight, type PlansInFlightOptions } from './plans-in-flight.js';
import {
  CANDIDATE_FACTOR,
  decideMerge,
  Inflow,
  MAX_WAIT_MS,
  type MergeDecision,
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
  /** Trunks that are not full are joined with others later. */
  readonly joins: boolean;
  /** True when the container is nearly full. */
  readonly isShort: () => boolean;
}

export interface MergeStats {
  readonly trunksInFlight: number;
  readonly largeFilesInFlight: number;
  /** Sends that failed and were tried again. */
  readonly sendRetries: number;
  /** Files left out of trunks because their staged bytes are damaged. */
  readonly unpackableFiles: number;
}

/** Trunks in flight at the same time: one is written by the storage while the next is read. */
const TRUNKS_IN_FLIGHT = 2;
const WHOLES_IN_FLIGHT = 2;
/** Candidates considered for one trunk, as a multiple of its size. */
const CANDIDATE_BYTES_FACTOR = 2;

export class MergeTask {
  readonly #options: MergeTaskOptions;
  readonly #inflow: Inflow;
  readonly inFlight: PlansInFlight;
  /** Bytes staged since the last decision, and how many of them call for the next. */
  #stagedSince = 0;
  #wantedBytes = 0;
  /** Nothing waited at the last decision: the next file starts its clock. */
  #idle = true;
  #isStopped = false;
  #flushes = 0;
  readonly #news = new News();
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
    this.#news.wake();
  }

  stats(): MergeStats {
    return {
      trunksInFlight: this.inFlight.count('trunk'),
      largeFilesInFlight: this.inFlight.count('whole'),
      sendRetries: this.inFlight.retries,
      unpackableFiles: this.#options.files.damaged,
    };
  }

  /** Packs all that waits now; resolves when it is confirmed (or known to be damaged). */
  async flush(signal?: AbortSignal): Promise<void> {
    this.#flushes += 1;
    try {
      for (;;) {
        const ends = this.inFlight.ends();
        if (this.#options.files.count() <= 0 && ends.length === 0) return;
        signal?.throwIfAborted();
        if (this.#isStopped) return;
        this.wake();
        await Promise.race([...ends, sleep(25, undefined, { ref: true })]);
      }
    } finally {
      this.#flushes -= 1;
    }
  }

  /** Ends the task. Plans in progress are given up; their files stay staged. */
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
        if (decision.action === 'merge' && (await this.#mergeOnce())) continue;
        if (!begun)
          await this.#news.next(decision.action === 'wait' ? decision.waitMs : MAX_WAIT_MS);
      } catch (error) {
        this.#options.onError(error as Error);
        await this.#news.next(FIRST_RETRY_MS);
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

  /** True if a trunk was planned. */
  async #mergeOnce(): Promise<boolean> {
    const { now, random, trunkBytes, maxAgeMs, newTaskId, joins } = this.#options;
    const waiting = this.#options.files.small();
    const capacityBytes = trunkBytes - TRUNK_END_BYTES;
    const rows = await this.#options.files.candidates(capacityBytes * CANDIDATE_BYTES_FACTOR);
    const units = makeUnits(rows, { capacityBytes, now: now(), maxAgeMs });
    const limits = { capacityBytes, maxFiles: MAX_FILES };
    const members = await chooseMembers(units, limits, random, () => nextTurn());
    if (members.length === 0) return false;
    const plan = planTrunk(newTaskId(), members, TRUNK_EXTENSION);
    const full = { bytes: trunkBytes, files: MAX_FILES };
    const share = shareOf({ bytes: plan.size, files: members.length }, full);
    await this.inFlight.begin({ ...plan, isThin: joins && isThin(share, shareOf(waiting, full)) });
    return true;
  }

  /** Sends large files that wait; true if any was begun. */
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
