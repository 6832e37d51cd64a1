import { type Environment, nowSeconds } from '../environment.js';
import type { Binlog, Position } from './binlog.js';
import type { Change } from './change.js';
import type { Deletions } from './deletions.js';
import type { LogRecord, Operation } from './log-record.js';

/**
 * Own changes in the log, and the times they carry. A member that has got the log
 * up to a checkpoint has every file that was named here up to the checkpoint's
 * second: no later change gets a time that has been promised to be complete, even
 * if the clock is set back.
 */

export interface Checkpoint {
  readonly position: Position;
  readonly seconds: number;
}

export class Journal {
  readonly log: Binlog;
  readonly #deletions: Deletions;
  readonly #environment: Environment;
  /** Times taken by changes that are not in the log yet. */
  readonly #underWay = new Map<OwnChange, number>();
  #promisedSeconds = 0;

  constructor(log: Binlog, deletions: Deletions, environment: Environment) {
    this.log = log;
    this.#deletions = deletions;
    this.#environment = environment;
  }

  /** A change made here; `end` it, whatever came of it. */
  begin(): OwnChange {
    return new OwnChange(this);
  }

  /** The time of a change that begins to be made now. */
  take(change: OwnChange, after: number): number {
    const now = nowSeconds(this.#environment);
    const seconds = Math.max(now, this.#promisedSeconds + 1, after + 1);
    this.#underWay.set(change, seconds);
    return seconds;
  }

  /** Durable when it resolves. */
  append(record: LogRecord): Promise<Position> {
    this.#deletions.note(record);
    this.#deletions.saveAtTimes(this.log.end);
    return this.log.append(record);
  }

  release(change: OwnChange): void {
    this.#underWay.delete(change);
  }

  checkpoint(): Checkpoint {
    const first = Math.min(nowSeconds(this.#environment), ...this.#underWay.values());
    this.#promisedSeconds = Math.max(this.#promisedSeconds, first - 1);
    return { position: this.log.end, seconds: first - 1 };
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
    const end = await this.#journal.append(record);
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
