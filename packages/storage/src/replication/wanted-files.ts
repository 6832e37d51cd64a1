import { setTimeout as sleep } from 'node:timers/promises';
import { type Delivery, WAIT_MS } from './delivery.js';
import type { Flights } from './flights.js';
import type { LogRecord } from './log-record.js';
import type { Sending } from './sending.js';

/**
 * Files that one member is to have as they are here, beside the log: another one has asked
 * for that, or they came when this storage lacked changes itself.
 */
export class WantedFiles {
  readonly #sending: Sending;
  readonly #wanted = new Set<string>();
  /** To be compared once this storage lacks nothing itself. */
  readonly #owed = new Set<string>();

  constructor(sending: Sending) {
    this.#sending = sending;
  }

  /** None is to be sent, and none is under way. */
  get isEmpty(): boolean {
    return this.#wanted.size === 0 && this.#owed.size === 0;
  }

  want(name: string): void {
    this.#wanted.add(name);
  }

  owe(name: string): void {
    this.#owed.add(name);
  }

  /**
   * Sends them all, and those that come to be wanted meanwhile. None waits for another:
   * what somebody else is to pass on comes again after the others, since that one may be
   * waiting for one of these.
   */
  async send(flights: Flights, delivery: Delivery, check: () => void): Promise<void> {
    for (const name of this.#owed) this.#wanted.add(name);
    this.#owed.clear();
    for (let turn = 0; this.#wanted.size > 0; turn++) {
      let isAnySent = false;
      for (const name of [...this.#wanted]) {
        check();
        if (await this.#send(name, turn, flights, delivery)) isAnySent = true;
      }
      if (!isAnySent) await sleep(WAIT_MS);
    }
  }

  async #send(name: string, turn: number, flights: Flights, delivery: Delivery): Promise<boolean> {
    const record: LogRecord = { atSeconds: 0, operation: 'U', own: true, name, extra: '' };
    const key = this.#sending.keyOf(record);
    if (key === undefined) return this.#wanted.delete(name);
    const release = flights.hold(key);
    // A change of it is on its way.
    if (!release) return false;
    try {
      // If it comes to be wanted again meanwhile, it is sent again.
      this.#wanted.delete(name);
      const isThere = await delivery.attempt(record, 0, turn);
      if (!isThere) this.#wanted.add(name);
      return isThere;
    } catch (error) {
      this.#wanted.add(name);
      throw error;
    } finally {
      release();
    }
  }
}
