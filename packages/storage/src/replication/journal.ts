import { type Environment, nowSeconds } from '@stevedore/wire';
import type { Binlog, Position } from './binlog.js';
import type { LogRecord, Operation } from './log-record.js';
import type { Tombstones } from './tombstones.js';

/**
 * One change in flight: gives it a time and appends its binlog records. The code that makes
 * the change does not know whether a client or another member sent it.
 *
 * Changes and deletions are recorded in advance, so that a crash leaves no changed file
 * without a record; a sender looks at the file itself to see whether the change happened. A
 * new file, which nobody knows yet, is recorded once it exists.
 */
export interface Change {
  /** Unix seconds of the change, fixed by the first call, which makes them later than `after`. */
  seconds(after?: number): number;
  /** Appends a record to the binlog, durable when this resolves. */
  note(operation: Operation, name: string, extra?: string): Promise<void>;
}

/**
 * Appends changes to the binlog and gives them their times. Own records are in the order of
 * their times, even if the clock is set back: from the latest time that a member received,
 * the trackers infer which files it has. So a record waits until every change with an earlier
 * second is in the binlog or has failed.
 */
export class Journal {
  readonly log: Binlog;
  readonly #tombstones: Tombstones;
  readonly #environment: Environment;
  /** Times of changes that are not in the binlog yet. */
  readonly #underWay = new Map<OwnChange, number>();
  #waiting: (() => void)[] = [];
  /** The latest time of an own change. */
  #lastSeconds = 0;

  constructor(log: Binlog, tombstones: Tombstones, environment: Environment) {
    this.log = log;
    this.#tombstones = tombstones;
    this.#environment = environment;
  }

  /** Begins an own change. Call its `end` in any case. */
  begin(): OwnChange {
    return new OwnChange(this);
  }

  /**
   * A change that another member sent: it keeps the time that it has there. `restores`: the file's
   * source is this storage, which had lost it; it is recorded as its own. `check` runs right before
   * each record and throws to stop the change.
   */
  received(atSeconds: number, restores = false, check = () => {}): Change {
    const seconds = Math.max(atSeconds, 0);
    return {
      seconds: () => seconds,
      note: async (operation, name, extra = '') => {
        check();
        const own = restores && (operation === 'C' || operation === 'L');
        await this.append({ atSeconds: seconds, operation, own, name, extra });
      },
    };
  }

  /** Gives a change its time. Later records wait until it is in the binlog or released. */
  take(change: OwnChange, after: number): number {
    this.#lastSeconds = Math.max(nowSeconds(this.#environment), this.#lastSeconds, after + 1);
    this.#underWay.set(change, this.#lastSeconds);
    return this.#lastSeconds;
  }

  /** Appends after all own records of earlier seconds; durable when it resolves. */
  async appendOwn(change: OwnChange, record: LogRecord): Promise<Position> {
    // Wait for earlier seconds. Once this record is queued, later seconds may follow.
    while (this.#isEarlierUnderWay(record.atSeconds)) await this.#nextEnd();
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

  #nextEnd(): Promise<void> {
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

  /** End of its last record; 0 if it has none. */
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
