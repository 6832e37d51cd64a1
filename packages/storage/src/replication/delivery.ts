import { setTimeout as sleep } from 'node:timers/promises';
import { Status } from '@stevedore/protocol';
import { asError, ConnectionError, StatusError } from '../errors.js';
import type { Position } from './binlog.js';
import type { LogRecord } from './log-record.js';
import type { PeerConnections } from './peer-connections.js';
import { type InCharge, type Sending, SentFiles } from './sending.js';

/**
 * Brings to one member, in one session, what a record is about, so that it has the file
 * as the one in charge of it has it: from here, or by asking that one.
 */

export interface DeliveryParts {
  readonly sending: Sending;
  readonly connections: PeerConnections;
  /** The member that is sent to. */
  readonly member: InCharge;
  readonly ownId: string;
  /** What is before it was in the log when the session began: the member may have it. */
  readonly beginning: Position;
  /** The file is to be compared once this storage lacks nothing itself. */
  readonly owe: (name: string) => void;
  /** The member would not take it, nor will it another time. */
  readonly refused: (error: Error) => void;
  /** Throws if the session cannot go on. */
  readonly check: () => void;
  readonly timeoutMs: number;
  readonly retryDelayMs: number;
  readonly signal: AbortSignal;
}

/** Between two looks at what somebody else is to do. */
export const WAIT_MS = 20;
/** Looks after which somebody is asked again. */
const ASK_TURNS = 16;
/** Times that a file is tried which cannot be read here. */
const LOCAL_ATTEMPTS = 3;
/** Statuses that may pass: not a member yet, no room, a failing disk. */
const PASSING: readonly number[] = [
  Status.accessDenied,
  Status.noSpace,
  Status.ioError,
  Status.tryAgain,
];

export class Delivery {
  readonly #parts: DeliveryParts;
  readonly #sent = new SentFiles();

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
  }

  /** Resolves when it is there; status 11 if who is in charge does not bring it in time. */
  async deliver(record: LogRecord, end: Position): Promise<void> {
    const { timeoutMs, check } = this.#parts;
    const giveUpAt = performance.now() + timeoutMs;
    for (let turn = 0; !(await this.attempt(record, end, turn)); turn++) {
      if (performance.now() > giveUpAt) {
        throw new StatusError(Status.tryAgain, `${record.name} is not passed on`);
      }
      await sleep(WAIT_MS);
      check();
    }
  }

  /** False if it is for another one to bring it; then it is to be seen to again, `turn` by turn. */
  async attempt(record: LogRecord, end: Position, turn: number): Promise<boolean> {
    const { retryDelayMs, signal, refused, check } = this.#parts;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(record, end, turn);
      } catch (error) {
        if (error instanceof ConnectionError || signal.aborted) throw error;
        const isAnswer = error instanceof StatusError;
        if (isAnswer && PASSING.includes(error.status)) throw error;
        if (isAnswer || attempt >= LOCAL_ATTEMPTS) {
          // It will not go another time either, and all that follows matters more.
          refused(asError(error));
          return true;
        }
        await sleep(retryDelayMs, undefined, { signal }).catch(() => {});
        check();
      }
    }
  }

  async #attempt(record: LogRecord, end: Position, turn: number): Promise<boolean> {
    const { sending, connections, member, ownId, beginning, owe } = this.#parts;
    const about = { end, again: end <= beginning, sent: this.#sent };
    const other = await connections.use((peer) => sending.send(record, peer, about));
    if (!other) return true;
    if (other === 'nobody') {
      owe(record.name);
      return true;
    }
    if (other.id === member.id) {
      // What it has itself is what counts, and comes here.
      await other.passOn(ownId, record.name);
      return true;
    }
    if (turn % ASK_TURNS === 0) await other.passOn(member.id, record.name);
    // Still otherwise there: it may be this storage that has an earlier state.
    if (turn % ASK_TURNS === 1) await other.passOn(ownId, record.name);
    return false;
  }
}
