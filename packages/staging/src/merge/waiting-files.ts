import assert from 'node:assert';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { MAX_ENTRIES } from '@stevedore/protocol';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import { nameOf } from '../key.js';
import { ExpirySums, expiryClassOf } from './expiry.js';
import type { TrunkPlan } from './trunk-plan.js';

/**
 * The files that wait for a trunk: all that the FileMap lists as waiting, except members of plans
 * in flight and files whose only copy is damaged. Files in a plan are skipped until a plan has
 * ended.
 */
const PAGE_ROWS = 1_000;
/** Maximum number of files in a trunk. */
export const MAX_FILES = MAX_ENTRIES;
/** Candidates for one trunk, as a multiple of its size; with this many files, less is enough. */
const CHOICE_BYTES_FACTOR = 2;
const CHOICE_FILES = 3_000;
const LEAST_BYTES_FACTOR = 1.1;
/** With several expiry classes, of which none fills a trunk, at most so many candidates. */
const MAX_CHOICE_FACTOR = 8;
const MAX_CHOICE_FILES = 2 * MAX_FILES;
/** Files examined after the candidates, for members of their groups. */
const FILES_BEYOND = 10_000;

/** A position in the order of arrival. */
export interface Place {
  readonly segment: number;
  readonly position: number;
}

const START: Place = { segment: 0, position: -1 };

export class WaitingFiles {
  readonly #fileMap: FileMap;
  /** Files in segments before this one are not merged for now. */
  firstSegment = 0;
  /** Keys (latin1) of members of plans in flight. */
  readonly #packing = new Set<string>();
  /** Small files in plans in flight, and their bytes. */
  #plannedFiles = 0;
  #plannedBytes = 0;
  /** Everything up to this position is in a plan, or merged, and need not be examined again. */
  #frontier: Place = START;
  /** The last candidates, up to the first free file that was not one, if the frontier still holds. */
  #examined: readonly FileRow[] = [];
  /** Excluded files. */
  readonly #damaged = new Map<string, FileRow>();
  readonly #plans = new Set<TrunkPlan>();
  /** How many plans there ever were: each may have taken files that were free before. */
  planCount = 0;
  /** Small files moved out of trunks while `isMoving`, and their bytes. */
  #movedFiles = 0;
  #movedBytes = 0;
  isMoving = false;

  constructor(fileMap: FileMap) {
    this.#fileMap = fileMap;
  }

  /** Starts again from the oldest file: older files may have become mergeable. */
  lookAgain(): void {
    this.#frontier = START;
    this.#examined = [];
  }

  /** Excludes a file whose only copy is damaged. */
  exclude(key: Buffer): void {
    const row = this.#fileMap.find(key);
    if (row && !row.trunk) this.#damaged.set(nameOf(key), row);
    this.lookAgain();
  }

  /** Includes a file that is sound again or gone. True if it was excluded. */
  include(key: Buffer): boolean {
    const isIncluded = this.#damaged.delete(nameOf(key));
    if (isIncluded) this.lookAgain();
    return isIncluded;
  }

  get damaged(): number {
    return this.#damaged.size;
  }

  isPacking(key: Buffer): boolean {
    return this.#packing.has(nameOf(key));
  }

  isFree({ key, was }: FileRow): boolean {
    // The trunk that it was moved from still has it.
    if (this.isMoving && was.length > 0) return false;
    // Usually none is, and no name is made for each file.
    if (this.#packing.size === 0 && this.#damaged.size === 0) return true;
    const name = nameOf(key);
    return !this.#packing.has(name) && !this.#damaged.has(name);
  }

  /** The oldest segment that a plan in flight reads from; Infinity if there is none. */
  oldestSegmentInUse(): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const plan of this.#plans) {
      for (const row of plan.rows) oldest = Math.min(oldest, row.local.segment);
    }
    return oldest;
  }

  /** Small files that are in no plan, and their bytes. */
  small(): { readonly files: number; readonly bytes: number } {
    const { waitingFiles, waitingBytes } = this.#fileMap.counters();
    let files = waitingFiles - this.#plannedFiles - this.#movedFiles;
    let bytes = waitingBytes - this.#plannedBytes - this.#movedBytes;
    for (const { size, local } of this.#damaged.values()) {
      if (local.at !== 'container') continue;
      files -= 1;
      bytes -= size;
    }
    return { files, bytes };
  }

  /** All waiting files that can go into a trunk, small and large. */
  count(): number {
    const { waitingFiles, spooledFiles } = this.#fileMap.counters();
    return waitingFiles + spooledFiles - this.#damaged.size;
  }

  /** The place of the last file that waits now, in a plan or not. */
  last(): Place {
    return this.#fileMap.lastWaiting()?.local ?? START;
  }

  /** True while a file up to this place waits, unless it is damaged. */
  isWaitingUpTo({ segment, position }: Place): boolean {
    // One more than may be damaged.
    const oldest = this.#fileMap.waiting(0, -1, this.#damaged.size + 1);
    return oldest.some(
      ({ key, local }) =>
        (local.segment < segment || (local.segment === segment && local.position <= position)) &&
        !this.#damaged.has(nameOf(key)),
    );
  }

  /**
   * Reserves the plan's members for it, until the returned function is called. `isStored`: they are
   * merged now; otherwise they wait again.
   */
  hold(plan: TrunkPlan): (isStored: boolean) => void {
    const names = plan.rows.map((row) => nameOf(row.key));
    const bytes = plan.rows.reduce((sum, row) => sum + row.size, 0);
    for (const name of names) this.#packing.add(name);
    const small = plan.kind === 'trunk';
    if (small) this.#plannedFiles += names.length;
    if (small) this.#plannedBytes += bytes;
    this.#plans.add(plan);
    this.planCount += 1;
    this.#advance();
    return (isStored) => {
      this.#plans.delete(plan);
      if (!isStored) this.lookAgain();
      for (const name of names) this.#packing.delete(name);
      if (small) this.#plannedFiles -= names.length;
      if (small) this.#plannedBytes -= bytes;
      assert(this.#plannedFiles >= 0 && this.#plannedBytes >= 0);
    };
  }

  /**
   * Files moved out of trunks wait until `work` is done, so that they go into one trunk, not into
   * one per page. New files do not wait for them.
   */
  async whileMoving(work: () => Promise<void>): Promise<void> {
    this.isMoving = true;
    try {
      await work();
    } finally {
      this.isMoving = false;
      this.#movedFiles = 0;
      this.#movedBytes = 0;
      this.lookAgain();
    }
  }

  noteMoved(files: number, bytes: number): void {
    if (!this.isMoving) return;
    this.#movedFiles += files;
    this.#movedBytes += bytes;
  }

  /** The small files from which a trunk is chosen, read in pages so that uploads get their turn. */
  async candidates(capacityBytes: number, now: number): Promise<FileRow[]> {
    const window = candidateWindow(capacityBytes, now);
    // `lookAgain` replaces it, and then what follows says nothing about the oldest files.
    const examined: FileRow[] = [];
    this.#examined = examined;
    for (let at = this.#firstPlace(); ; ) {
      const page = this.#fileMap.waiting(at.segment, at.position, PAGE_ROWS);
      let isFull = page.length < PAGE_ROWS;
      for (const row of page) {
        if (row.local.at === 'spool' || !this.isFree(row)) continue;
        if (window.take(row)) continue;
        isFull = true;
        break;
      }
      if (isFull) {
        if (this.#examined === examined) this.#examined = window.oldest();
        return window.rows;
      }
      at = page.at(-1)!.local;
      await nextTurn();
    }
  }

  /** Free large files among the `limit` oldest sound ones, oldest first. */
  large(limit: number): FileRow[] {
    return this.#fileMap
      .waitingSpooled(limit + this.#damaged.size)
      .filter((row) => this.isFree(row) && row.local.segment >= this.firstSegment);
  }

  /** The oldest small file that is in no plan. */
  oldest(): FileRow | undefined {
    // Usually the first one is free.
    for (let limit = 1; ; limit = PAGE_ROWS) {
      const { segment, position } = this.#firstPlace();
      const page = this.#fileMap.waiting(segment, position, limit);
      const index = page.findIndex((row) => row.local.at === 'container' && this.isFree(row));
      const last = index === -1 ? page.at(-1) : page[index - 1];
      if (last) this.#frontier = last.local;
      if (index !== -1 || page.length < limit) return page[index];
    }
  }

  /**
   * Past the candidates that are in a plan now. Otherwise the search for the oldest file would read
   * all files of the plans in flight, a hundred thousand of them where files are tiny.
   */
  #advance(): void {
    const first = this.#examined.findIndex(({ key }) => !this.#packing.has(nameOf(key)));
    const last = this.#examined.at(first === -1 ? -1 : first - 1);
    if (first !== 0 && last) this.#frontier = last.local;
    this.#examined = [];
  }

  /** Where to start searching. */
  #firstPlace(): Place {
    const segment = this.firstSegment;
    return segment > this.#frontier.segment ? { segment, position: -1 } : this.#frontier;
  }
}

/** Waiting files, small and large, in order of arrival, whose records are in this segment or later. */
export function* waitingFrom(fileMap: FileMap, segment: number): Generator<FileRow> {
  for (let after: Place = { segment, position: -1 }; ; ) {
    const page = fileMap.waiting(after.segment, after.position, PAGE_ROWS);
    yield* page;
    if (page.length < PAGE_ROWS) return;
    after = page.at(-1)!.local;
  }
}

/** Those whose records are in the segment. */
export function* waitingIn(fileMap: FileMap, segment: number): Generator<FileRow> {
  for (const row of waitingFrom(fileMap, segment)) {
    if (row.local.segment > segment) return;
    yield row;
  }
}

/**
 * The waiting files from which a trunk is chosen: the oldest, in order of arrival, until there are
 * enough of one expiry class for a choice. An affinity group is not cut off at the end: members
 * that arrived soon after are included, so that files of interleaved uploads are still stored side
 * by side. Does no I/O; rows are passed in one by one.
 */

type WindowLimits = ReturnType<typeof windowLimits>;

/** For one trunk of this size. */
function windowLimits(capacityBytes: number, now: number) {
  return {
    now,
    /** Enough for a choice. */
    bytes: capacityBytes * CHOICE_BYTES_FACTOR,
    /** With so many files, `leastBytes` are enough. */
    choiceFiles: CHOICE_FILES,
    leastBytes: capacityBytes * LEAST_BYTES_FACTOR,
    files: MAX_FILES,
    /** Of all expiry classes. */
    maxBytes: capacityBytes * MAX_CHOICE_FACTOR,
    maxFiles: MAX_CHOICE_FILES,
    /** Files examined beyond that, for members of the included groups. */
    filesBeyond: FILES_BEYOND,
  };
}

export function candidateWindow(capacityBytes: number, now: number): CandidateWindow {
  return new CandidateWindow(windowLimits(capacityBytes, now));
}

export class CandidateWindow {
  readonly rows: FileRow[] = [];
  readonly #limits: WindowLimits;
  readonly #groups = new Set<string | undefined>();
  readonly #sums = new ExpirySums();
  #bytes = 0;
  #isEnough = false;
  #beyond = 0;
  /** Rows before the first one that was not taken. */
  #unbroken: number | undefined;

  constructor(limits: WindowLimits) {
    this.#limits = limits;
  }

  /** Takes the row if it belongs here; false once no later row can. */
  take(row: FileRow): boolean {
    const { filesBeyond } = this.#limits;
    if (!this.#isEnough) {
      this.rows.push(row);
      this.#isEnough = this.#isEnoughWith(row);
      if (row.group !== undefined) this.#groups.add(row.group);
      return true;
    }
    if (this.#groups.has(row.group)) this.rows.push(row);
    else this.#unbroken ??= this.rows.length;
    this.#beyond += 1;
    return this.#groups.size > 0 && this.#beyond < filesBeyond;
  }

  /** The rows that were taken before the first one that was not. */
  oldest(): readonly FileRow[] {
    return this.rows.slice(0, this.#unbroken);
  }

  #isEnoughWith({ expiresAt, size }: FileRow): boolean {
    const limits = this.#limits;
    this.#bytes += size;
    const own = this.#sums.add(expiryClassOf(expiresAt, limits.now), size);
    const wanted = own.files < limits.choiceFiles ? limits.bytes : limits.leastBytes;
    if (own.bytes >= wanted || own.files >= limits.files) return true;
    return this.#bytes >= limits.maxBytes || this.rows.length >= limits.maxFiles;
  }
}
