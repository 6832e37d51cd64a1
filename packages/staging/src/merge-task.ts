import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { MAX_ENTRIES, TRUNK_EXTENSION } from '@stevedore/protocol';
import { CandidateWindow } from './candidate-window.js';
import { chooseMembers, makeUnits } from './candidates.js';
import { mergeChannel } from './channels.js';
import type { FileMap, FileRow } from './filemap.js';
import { formatKey } from './key.js';
import {
  CANDIDATE_FACTOR,
  decideMerge,
  Inflow,
  MAX_WAIT_MS,
  type MergeDecision,
} from './schedule.js';
import { planTrunk, planWhole, TRUNK_END_BYTES, type TrunkPlan } from './trunk-plan.js';
import type { SentTrunk, TrunkSender } from './trunk-sender.js';
import { DamagedMember } from './trunk-stream.js';

/**
 * The Merge Task: watches what waits, decides when to merge, chooses the members,
 * and keeps sending until each trunk is confirmed. Large files go one by one
 * beside the trunks. While FastDFS is away, plans are tried again with growing
 * pauses and nothing is lost. A file whose staged bytes are damaged is left out.
 */
export interface MergeTaskOptions {
  readonly fileMap: FileMap;
  readonly sender: TrunkSender;
  readonly now: () => number;
  readonly random: () => number;
  readonly newTaskId: () => Buffer;
  readonly trunkBytes: number;
  readonly maxAgeMs: number;
  /** Files in segments before this one are left alone for now. */
  readonly firstSegment: () => number;
  /** True when the container is nearly full. */
  readonly isShort: () => boolean;
  /** Milliseconds from the plan to its confirmation. */
  readonly onSent: (sent: SentTrunk, durationMs: number) => void;
  /** A plan has ended and no longer needs the container. */
  readonly onReleased: () => void;
  readonly onError: (error: Error) => void;
  /** A file whose only copy is damaged; it is left out from now on. */
  readonly onDamaged: (row: FileRow) => void;
}

export interface MergeStats {
  readonly trunksInFlight: number;
  readonly largeFilesInFlight: number;
  /** Sends that failed and were tried again. */
  readonly sendRetries: number;
  /** Files left out of trunks because their staged bytes are damaged. */
  readonly unpackableFiles: number;
}

/** Trunks on their way at the same time: one is written by the storage while the next is read. */
const TRUNKS_IN_FLIGHT = 2;
const WHOLES_IN_FLIGHT = 2;
const PAGE_ROWS = 1_000;
/** Candidates considered for one trunk, as a multiple of its size. */
const CANDIDATE_BYTES_FACTOR = 2;
/** How many files later a member of a group may have come to be stored with the others. */
const FILES_BEYOND = 4_096;
const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 10_000;
const MAX_FILES = MAX_ENTRIES;

/** A place in the order of arrival. */
interface Place {
  readonly segment: number;
  readonly position: number;
}

const START: Place = { segment: 0, position: -1 };

export class MergeTask {
  readonly #options: MergeTaskOptions;
  readonly #inflow: Inflow;
  /** Keys (latin1) of members of plans under way. */
  readonly #packing = new Set<string>();
  /** Small files and their bytes in plans under way. */
  #plannedFiles = 0;
  #plannedBytes = 0;
  /** Bytes staged since the last decision, and how many of them call for the next. */
  #stagedSince = 0;
  #wantedBytes = 0;
  /** Everything up to here is in a plan: there is no need to look at it again. */
  #frontier: Place = START;
  /** Nothing waited at the last decision: the next file starts its clock. */
  #idle = true;
  readonly #damaged = new Set<string>();
  readonly #sending = new Map<Promise<void>, TrunkPlan['kind']>();
  readonly #plans = new Set<TrunkPlan>();
  readonly #stopped = new AbortController();
  /** Plans that wait before they are sent again. */
  readonly #pauses = new Set<AbortController>();
  #flushes = 0;
  #retries = 0;
  #wake: (() => void) | undefined;
  /** Somebody called `wake` since the last sleep. */
  #woken = false;
  #running: Promise<void> | undefined;

  constructor(options: MergeTaskOptions) {
    this.#options = options;
    this.#inflow = new Inflow(options.now());
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
    this.#woken = true;
    this.#wake?.();
  }

  /** Older files may be merged than before. */
  lookAgain(): void {
    this.#frontier = START;
    this.wake();
  }

  /** The file's only copy is damaged: no trunk can have it. */
  leaveOut(key: Buffer): void {
    this.#damaged.add(key.toString('latin1'));
    this.#frontier = START;
  }

  /** It is sound again, or gone. */
  takeIn(key: Buffer): void {
    if (this.#damaged.delete(key.toString('latin1'))) this.wake();
  }

  isPacking(key: Buffer): boolean {
    return this.#packing.has(key.toString('latin1'));
  }

  stats(): MergeStats {
    return {
      trunksInFlight: this.#inFlight('trunk'),
      largeFilesInFlight: this.#inFlight('whole'),
      sendRetries: this.#retries,
      unpackableFiles: this.#damaged.size,
    };
  }

  /** The oldest segment that a plan under way reads from; Infinity when there is none. */
  oldestSegmentInUse(): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const plan of this.#plans) {
      for (const row of plan.rows) oldest = Math.min(oldest, row.segment);
    }
    return oldest;
  }

  /** Packs all that waits now; resolves when it is confirmed (or known to be damaged). */
  async flush(signal?: AbortSignal): Promise<void> {
    this.#flushes += 1;
    try {
      while (this.#waitingFiles() > 0 || this.#sending.size > 0) {
        signal?.throwIfAborted();
        if (this.#stopped.signal.aborted) return;
        this.wake();
        await Promise.race([...this.#sending.keys(), sleep(25, undefined, { ref: true })]);
      }
    } finally {
      this.#flushes -= 1;
    }
  }

  /** Ends the task. Plans under way are given up; their files stay staged. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.wake();
    await this.#running;
    await Promise.allSettled(this.#sending.keys());
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      try {
        const begun = await this.#sendWholes();
        const decision = this.#decide();
        if (decision.action === 'merge' && (await this.#mergeOnce())) continue;
        if (!begun) await this.#sleep(decision.action === 'wait' ? decision.waitMs : MAX_WAIT_MS);
      } catch (error) {
        this.#options.onError(error as Error);
        await this.#sleep(FIRST_RETRY_MS);
      }
    }
  }

  #decide(): MergeDecision {
    const { fileMap, now, trunkBytes, maxAgeMs, isShort } = this.#options;
    // The end of a trunk on its way wakes the task.
    if (this.#inFlight('trunk') >= TRUNKS_IN_FLIGHT) return { action: 'wait', waitMs: MAX_WAIT_MS };
    const counters = fileMap.counters();
    const waitingBytes = counters.waitingBytes - this.#plannedBytes;
    const waitingFiles = counters.waitingFiles - this.#plannedFiles - this.#damaged.size;
    const oldest = waitingFiles > 0 ? this.#oldestUnplanned() : undefined;
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
    const { now, random, trunkBytes, maxAgeMs, newTaskId } = this.#options;
    const capacityBytes = trunkBytes - TRUNK_END_BYTES;
    const rows = await this.#candidates(capacityBytes * CANDIDATE_BYTES_FACTOR);
    const units = makeUnits(rows, { capacityBytes, now: now(), maxAgeMs });
    const members = chooseMembers(units, { capacityBytes, maxFiles: MAX_FILES }, random);
    if (members.length === 0) return false;
    await this.#begin(planTrunk(newTaskId(), members, TRUNK_EXTENSION));
    return true;
  }

  /** Sends large files that wait; true if any was begun. */
  async #sendWholes(): Promise<boolean> {
    let begun = false;
    for (const row of this.#spooledWaiting()) {
      if (this.#inFlight('whole') >= WHOLES_IN_FLIGHT) break;
      await this.#begin(planWhole(this.#options.newTaskId(), row));
      begun = true;
    }
    return begun;
  }

  async #begin(plan: TrunkPlan): Promise<void> {
    const release = this.#hold(plan);
    try {
      await this.#options.sender.announce(plan);
    } catch (error) {
      release();
      throw error;
    }
    const sending = this.#sendUntilDone(plan).finally(() => {
      release();
      this.#sending.delete(sending);
      this.#options.onReleased();
      this.wake();
    });
    this.#sending.set(sending, plan.kind);
  }

  /** Keeps the plan's members for it alone, until the function that it gives is called. */
  #hold(plan: TrunkPlan): () => void {
    const names = plan.rows.map((row) => row.key.toString('latin1'));
    const bytes = plan.rows.reduce((sum, row) => sum + row.size, 0);
    for (const name of names) this.#packing.add(name);
    const small = plan.kind === 'trunk';
    if (small) this.#plannedFiles += names.length;
    if (small) this.#plannedBytes += bytes;
    this.#plans.add(plan);
    return () => {
      this.#plans.delete(plan);
      // If it was not sent, its files wait again.
      this.#frontier = START;
      for (const name of names) this.#packing.delete(name);
      if (small) this.#plannedFiles -= names.length;
      if (small) this.#plannedBytes -= bytes;
    };
  }

  /**
   * Takes a stored trunk whose record was cut off by a crash, instead of sending its
   * files again. False if any of them is in another plan by now, or it is another trunk.
   */
  async adopt(plan: TrunkPlan, fileId: string): Promise<boolean> {
    if (this.#stopped.signal.aborted || !plan.rows.every((row) => this.#isFree(row))) return false;
    const { sender, onSent, onReleased } = this.#options;
    const release = this.#hold(plan);
    const adopting = sender.adopt(plan, fileId, this.#stopped.signal);
    const settled = adopting.then(
      () => undefined,
      () => undefined,
    );
    this.#sending.set(settled, plan.kind);
    try {
      const isAdopted = await adopting;
      if (isAdopted) this.#tell(() => onSent({ plan, fileId }, 0));
      return isAdopted;
    } catch (error) {
      if (damagedMember(error)) return false;
      throw error;
    } finally {
      release();
      this.#sending.delete(settled);
      onReleased();
      this.wake();
    }
  }

  /** Never rejects: failures are reported and tried again until the task is stopped. */
  async #sendUntilDone(plan: TrunkPlan): Promise<void> {
    const { onSent, onError, fileMap, now } = this.#options;
    const { signal } = this.#stopped;
    const startedAt = now();
    for (let pauseMs = FIRST_RETRY_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_RETRY_MS)) {
      try {
        const sent = await this.#send(plan, signal);
        this.#endPauses();
        // A listener that throws is no reason to send again.
        this.#tell(() => onSent(sent, Math.max(0, now() - startedAt)));
        return;
      } catch (error) {
        if (signal.aborted) return;
        onError(error as Error);
        const damaged = damagedMember(error);
        if (damaged) {
          this.leaveOut(damaged.key);
          this.#options.onDamaged(damaged);
          fileMap.abandonTrunk(fileMap.trunkByTask(plan.taskId)!.id, now());
          return;
        }
        this.#retries += 1;
        await this.#pause(pauseMs);
        if (signal.aborted) return;
      }
    }
  }

  #send(plan: TrunkPlan, signal: AbortSignal): Promise<SentTrunk> {
    const { sender } = this.#options;
    if (!mergeChannel.hasSubscribers) return sender.send(plan, signal);
    const { taskId, kind, rows, size } = plan;
    const message = { taskId: formatKey(taskId), kind, files: rows.length, bytes: size };
    return mergeChannel.tracePromise(() => sender.send(plan, signal), message);
  }

  async #pause(ms: number): Promise<void> {
    const pause = new AbortController();
    this.#pauses.add(pause);
    const signal = AbortSignal.any([this.#stopped.signal, pause.signal]);
    await sleep(ms, undefined, { signal }).catch(() => undefined);
    this.#pauses.delete(pause);
  }

  /** FastDFS has taken a trunk: it is back for all of them. */
  #endPauses(): void {
    for (const pause of this.#pauses) pause.abort();
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#options.onError(error as Error);
    }
  }

  /** Waiting small files in order of arrival, read in pages so that uploads get their turn. */
  async #candidates(bytes: number): Promise<FileRow[]> {
    const files = MAX_FILES * CANDIDATE_BYTES_FACTOR;
    const window = new CandidateWindow({ bytes, files, filesBeyond: FILES_BEYOND });
    let at = this.#firstPlace();
    for (;;) {
      const page = this.#options.fileMap.waiting(at.segment, at.position, PAGE_ROWS);
      for (const row of page) {
        if (row.spooled === 1 || !this.#isFree(row)) continue;
        if (!window.take(row)) return window.rows;
      }
      if (page.length < PAGE_ROWS) return window.rows;
      at = page.at(-1)!;
      await nextTurn();
    }
  }

  #spooledWaiting(): FileRow[] {
    if (this.#inFlight('whole') >= WHOLES_IN_FLIGHT) return [];
    return this.#options.fileMap
      .waitingSpooled(WHOLES_IN_FLIGHT + this.#damaged.size + this.#inFlight('whole'))
      .filter((row) => this.#isFree(row) && row.segment >= this.#options.firstSegment());
  }

  /** The oldest small file that is in no plan. */
  #oldestUnplanned(): FileRow | undefined {
    for (;;) {
      const { segment, position } = this.#firstPlace();
      const page = this.#options.fileMap.waiting(segment, position, PAGE_ROWS);
      const index = page.findIndex((row) => row.spooled === 0 && this.#isFree(row));
      const last = index === -1 ? page.at(-1) : page[index - 1];
      if (last) this.#frontier = last;
      if (index !== -1 || page.length < PAGE_ROWS) return page[index];
    }
  }

  /** Where the search for files begins. */
  #firstPlace(): Place {
    const segment = this.#options.firstSegment();
    return segment > this.#frontier.segment ? { segment, position: -1 } : this.#frontier;
  }

  #isFree(row: FileRow): boolean {
    const name = row.key.toString('latin1');
    return !this.#packing.has(name) && !this.#damaged.has(name);
  }

  #waitingFiles(): number {
    const { waitingFiles, spooledFiles } = this.#options.fileMap.counters();
    return waitingFiles + spooledFiles - this.#damaged.size;
  }

  #inFlight(kind: TrunkPlan['kind']): number {
    let count = 0;
    for (const sending of this.#sending.values()) if (sending === kind) count += 1;
    return count;
  }

  async #sleep(ms: number): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        timer.unref();
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#woken = false;
    this.#wake = undefined;
  }
}

function damagedMember(error: unknown): FileRow | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof DamagedMember) return at.row;
  }
  return undefined;
}
