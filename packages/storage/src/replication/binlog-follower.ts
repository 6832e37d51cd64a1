import type { Wakeup } from '@stevedore/async';
import type { Binlog, Entry, Position } from './binlog.js';
import type { LogRecord } from './log-record.js';
import type { MarkKeeper } from './progress.js';
import type { Sending } from './sending.js';
import { isWholeFile } from './tombstones.js';

/**
 * Sends the binlog from the cursor to its end, in one session. Changes of one file are sent
 * in order, others of the same second in parallel. The number in flight is bounded: the
 * backlog of a slow member stays on disk. An own record of a later second waits for all
 * before it, because the member reports the latest second that it received, and from that
 * the trackers infer which files it has, as in FastDFS.
 */

export interface LogFollowerParts {
  readonly log: Binlog;
  readonly sending: Sending;
  readonly keeper: MarkKeeper;
  readonly maxInFlight: number;
  readonly wakeup: Wakeup;
  /** True once the member has it or it is given up, false if the session failed; never rejects. */
  readonly deliver: (record: LogRecord, end: Position) => Promise<boolean>;
  /** Throws if the session has failed. */
  readonly check: () => void;
  /** Called when the member may have acknowledged more. */
  readonly progressed: () => void;
  readonly report: (error: unknown) => void;
}

/** Longest wait without a new check. */
const LOOK_INTERVAL_MS = 1000;

export class BinlogFollower {
  readonly window: SendWindow;
  readonly #parts: LogFollowerParts;
  /** The binlog has been read up to here. */
  #read: Position;
  /** Time of the latest own record that was sent. */
  #seconds = 0;

  constructor(parts: LogFollowerParts) {
    this.#parts = parts;
    this.window = new SendWindow(parts.maxInFlight);
    this.#read = parts.keeper.acknowledged;
  }

  /** Reads and sends the next records; true if there may be more. */
  async step(): Promise<boolean> {
    const { log, keeper, report } = this.#parts;
    const { entries, next, damaged } = await log.read(this.#read);
    if (damaged > 0) report(new Error(`${damaged} damaged lines in the log`));
    for (const entry of entries) await this.#launch(entry);
    const hasMore = next !== this.#read;
    this.#read = next;
    if (this.window.isEmpty) keeper.acknowledge(next);
    this.#settle();
    return hasMore;
  }

  /** Sends the entry once no earlier one blocks it. */
  async #launch({ record, end }: Entry): Promise<void> {
    const { sending, deliver } = this.#parts;
    if (!this.#concerns(record, end)) {
      this.window.pass(end);
      return;
    }
    if (record.own && record.atSeconds > this.#seconds) {
      await this.#until(() => !this.window.hasPending);
      this.#seconds = record.atSeconds;
    }
    const key = sending.keyOf(record);
    await this.#until(() => !this.window.blocks(key));
    this.window.add(end, key, async (done) => {
      if (!(await deliver(record, end))) return;
      done();
      this.#settle();
      this.#parts.wakeup.wake();
    });
  }

  async #until(isSo: () => boolean): Promise<void> {
    const { wakeup, check } = this.#parts;
    while (!isSo()) {
      check();
      await wakeup.next(LOOK_INTERVAL_MS);
    }
  }

  /** Own changes, file deletions of any member, and in a first copy all but `a`, `m` and `t`. */
  #concerns({ own, operation, name }: LogRecord, end: Position): boolean {
    if (own || (operation === 'D' && isWholeFile(name))) return true;
    const isWhole = operation !== 'A' && operation !== 'M' && operation !== 'T';
    return isWhole && end <= this.#parts.keeper.mark.everythingUntil;
  }

  #settle(): void {
    this.#parts.keeper.acknowledge(this.window.settle());
    this.#parts.progressed();
  }
}

/**
 * Records in flight to one member, in the order of the binlog. The member has acknowledged
 * all before the first that is not done.
 */

interface Flight {
  readonly end: Position;
  readonly key: string | undefined;
  done: boolean;
  settled: Promise<void>;
}

export class SendWindow {
  readonly #max: number;
  readonly #all: Flight[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  get isEmpty(): boolean {
    return this.#all.length === 0;
  }

  get hasPending(): boolean {
    return this.#all.some(({ done }) => !done);
  }

  /** True if the record that ends there is done. */
  has(position: Position): boolean {
    return this.#all.some(({ end, done }) => done && end === position);
  }

  /** True if this key must wait. A record without a key waits for all others, and they for it. */
  blocks(key: string | undefined): boolean {
    const under = this.#all.filter(({ done }) => !done);
    if (under.length >= this.#max) return true;
    return under.some((each) => key === undefined || each.key === undefined || each.key === key);
  }

  /** Adds a record that need not be sent. */
  pass(end: Position): void {
    this.#all.push({ end, key: undefined, done: true, settled: Promise.resolve() });
  }

  /** `fly` sends the record and calls `done` once the member has it; it must not reject. */
  add(end: Position, key: string | undefined, fly: (done: () => void) => Promise<void>): void {
    const flight: Flight = { end, key, done: false, settled: Promise.resolve() };
    this.#all.push(flight);
    flight.settled = fly(() => {
      flight.done = true;
    });
  }

  /** Removes the done records at the front; returns the end of the last of them, or 0. */
  settle(): Position {
    let end: Position = 0;
    let count = 0;
    for (const flight of this.#all) {
      if (!flight.done) break;
      end = flight.end;
      count += 1;
    }
    this.#all.splice(0, count);
    return end;
  }

  /** Resolves when all have succeeded or failed. */
  async settled(): Promise<void> {
    await Promise.all(this.#all.map(({ settled }) => settled));
  }
}
