import type { Binlog, Entry, Position } from './binlog.js';
import type { Delivery } from './delivery.js';
import { Flights } from './flights.js';
import type { LogRecord } from './log-record.js';
import type { MarkKeeper } from './mark-keeper.js';
import type { News } from './news.js';
import type { Sending } from './sending.js';

/**
 * Sends the log from the mark to its end, in one session. Changes of one file go in
 * order, others side by side, a bounded number of them; all else stays in the log,
 * however slow the member is.
 */

export interface LogPassageParts {
  readonly log: Binlog;
  readonly sending: Sending;
  readonly delivery: Delivery;
  readonly keeper: MarkKeeper;
  readonly maxFlights: number;
  readonly news: News;
  /** Runs something beside; it never rejects. */
  readonly beside: (what: Promise<void>, done: () => void) => Promise<void>;
  /** Called now and then while what is to be sent waits for what is under way. */
  readonly waiting: () => void;
  /** Called whenever more has been answered. */
  readonly progressed: () => void;
  readonly report: (error: unknown) => void;
}

/** How long a wait may last of which nobody tells the end. */
const LOOK_INTERVAL_MS = 1000;

export class LogPassage {
  readonly flights: Flights;
  readonly #parts: LogPassageParts;
  /** Up to where the log has been looked at. */
  #read: Position;

  constructor(parts: LogPassageParts) {
    this.#parts = parts;
    this.flights = new Flights(parts.maxFlights);
    this.#read = parts.keeper.acknowledged;
  }

  /** Reads on in the log and sends what is there; true if there may be more. */
  async step(): Promise<boolean> {
    const { log, keeper, report } = this.#parts;
    const { entries, next, damaged } = await log.read(this.#read);
    if (damaged > 0) report(new Error(`${damaged} damaged lines in the log`));
    for (const entry of entries) await this.#launch(entry);
    const more = next !== this.#read;
    this.#read = next;
    if (this.flights.isEmpty) keeper.acknowledge(next);
    this.#settle();
    return more;
  }

  /** Sends the entry once nothing before it is in its way. */
  async #launch({ record, end }: Entry): Promise<void> {
    const { sending, delivery, news, waiting, beside } = this.#parts;
    if (!this.#concerns(record, end)) {
      this.flights.pass(end);
      return;
    }
    const key = sending.keyOf(record);
    while (this.flights.blocks(key)) {
      waiting();
      await news.next(LOOK_INTERVAL_MS);
    }
    this.flights.add(end, key, (done) =>
      beside(delivery.deliver(record, end), () => {
        done();
        this.#settle();
      }),
    );
  }

  /** Own changes, and in a first copy what others changed as well. */
  #concerns({ own, operation }: LogRecord, end: Position): boolean {
    if (own) return true;
    const isWhole = operation !== 'A' && operation !== 'M' && operation !== 'T';
    return isWhole && end <= this.#parts.keeper.mark.everythingUntil;
  }

  /** Moves what has been answered on, and tells those who wait. */
  #settle(): void {
    this.#parts.keeper.acknowledge(this.flights.settle());
    this.#parts.progressed();
  }
}
