import { type Environment, nowSeconds } from '@stevedore/wire';
import type { Binlog, Position } from './binlog.js';
import type { LogRecord, Operation } from './log-record.js';
import type { Tombstones } from './tombstones.js';

/**
 * One change of stored files on its way: where it is written down and what time it
 * carries. The code that makes it does not know whether it came from a client or from
 * another member of the group.
 *
 * What alters or removes something is noted before it is done, so that no crash
 * leaves an altered file that the log does not know; a member that reads the log
 * looks at the file itself and finds out whether it was done. A new file, which
 * is not known yet, is noted once it is there.
 */
export interface Change {
  /** Unix seconds of the change: what the first call gives, later than `after`. */
  seconds(after?: number): number;
  /** Writes it down; durable when it resolves. */
  note(operation: Operation, name: string, extra?: string): Promise<void>;
}

/**
 * Changes in the log, and the times they carry. Own records are in the order of their
 * times, even if the clock is set back meanwhile: by the latest time that a member has been sent
 * the trackers judge which files it has. So a record waits until every change that took
 * an earlier second is in the log, or has failed.
 */
export class Journal {
  readonly log: Binlog;
  readonly #tombstones: Tombstones;
  readonly #environment: Environment;
  /** Seconds that were taken by changes that are not in the log yet. */
  readonly #underWay = new Map<OwnChange, number>();
  #waiting: (() => void)[] = [];
  /** The latest that was taken. */
  #lastSeconds = 0;

  constructor(log: Binlog, tombstones: Tombstones, environment: Environment) {
    this.log = log;
    this.#tombstones = tombstones;
    this.#environment = environment;
  }

  /** A change made here; `end` it, whatever came of it. */
  begin(): OwnChange {
    return new OwnChange(this);
  }

  /** The time of a change, which is to be noted at once. */
  take(change: OwnChange, after: number): number {
    this.#lastSeconds = Math.max(nowSeconds(this.#environment), this.#lastSeconds, after + 1);
    this.#underWay.set(change, this.#lastSeconds);
    return this.#lastSeconds;
  }

  /** Durable when it resolves, behind all own records of earlier seconds. */
  async appendOwn(change: OwnChange, record: LogRecord): Promise<Position> {
    // Its own seconds hold up no other record any more.
    while (this.#isEarlierUnderWay(record.atSeconds)) await this.#news();
    const appended = this.append(record);
    this.release(change);
    return appended;
  }

  /** Durable when it resolves. */
  async append(record: LogRecord): Promise<Position> {
    this.#tombstones.note(record);
    const end = await this.log.append(record);
    this.#tombstones.note(record, end);
    this.#tombstones.saveAtTimes(this.log.end);
    return end;
  }

  release(change: OwnChange): void {
    if (!this.#underWay.delete(change)) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #isEarlierUnderWay(seconds: number): boolean {
    for (const each of this.#underWay.values()) if (each < seconds) return true;
    return false;
  }

  #news(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

export class OwnChange implements Change {
  readonly #journal: Journal;
  #seconds: number | undefined;
  #end: Position = 0;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** Behind its last record; 0 if it has none. */
  get position(): Position {
    return this.#end;
  }

  seconds(after = 0): number {
    this.#seconds ??= this.#journal.take(this, after);
    return this.#seconds;
  }

  async note(operation: Operation, name: string, extra = ''): Promise<void> {
    const record: LogRecord = { atSeconds: this.seconds(), operation, own: true, name, extra };
    const end = await this.#journal.appendOwn(this, record);
    this.#end = Math.max(this.#end, end);
  }

  end(): void {
    this.#journal.release(this);
  }
}

/** A change that another member sends: it keeps the time that it has there. */
export class ReceivedChange implements Change {
  readonly #journal: Journal;
  readonly #atSeconds: number;
  readonly #restores: boolean;
  readonly #check: () => void;

  /**
   * `restores`: a file of this storage itself that it had lost; it is passed on as its
   * own. `check` throws if the change is not to be made, at the last moment.
   */
  constructor(journal: Journal, atSeconds: number, restores = false, check = () => {}) {
    this.#journal = journal;
    this.#check = check;
    this.#atSeconds = Math.max(atSeconds, 0);
    this.#restores = restores;
  }

  seconds(): number {
    return this.#atSeconds;
  }

  async note(operation: Operation, name: string, extra = ''): Promise<void> {
    this.#check();
    const atSeconds = this.#atSeconds;
    const own = this.#restores && (operation === 'C' || operation === 'L');
    await this.#journal.append({ atSeconds, operation, own, name, extra });
  }
}
