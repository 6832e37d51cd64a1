import type { Environment } from '../environment.js';
import type { Binlog } from './binlog.js';
import type { Change } from './change.js';
import { Journal } from './journal.js';

/**
 * What a storage does so that the other members of its group have what it has: it
 * keeps a log of its changes.
 */
export class Replication {
  readonly log: Binlog;
  readonly #journal: Journal;

  constructor(log: Binlog, environment: Environment) {
    this.log = log;
    this.#journal = new Journal(log, environment);
  }

  /** Makes a change that a client asked for. */
  async run<Result>(make: (change: Change) => Promise<Result>): Promise<Result> {
    const change = this.#journal.begin();
    try {
      return await make(change);
    } finally {
      change.end();
    }
  }

  close(): Promise<void> {
    return this.log.close();
  }
}
