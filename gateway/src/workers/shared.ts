import { LocalMarks, type MarkState, type UploadMarks } from '@stevedore/middleware/core';
import {
  type KeyBytes,
  type Ledger,
  type Limited,
  LocalLedger,
  type SharedUsage,
} from '../access/ledger.js';
import type { Calls } from './calls.js';

/**
 * State that the workers of a gateway share: the ledger of API keys, and the marks of uploads. The
 * primary keeps it. A worker asks only about keys that have a limit. If a worker dies, what it
 * reserved is given back.
 */

/** Calls from a worker that only the primary answers. */
export type SharedCalls = {
  readonly request: (key: Limited) => void;
  readonly reserve: (key: Limited, least: number, wanted: number) => Promise<number>;
  readonly settle: (id: string, reservedBytes: number, storedBytes: number) => void;
  readonly giveBack: (id: string, day: number, bytes: number) => void;
  readonly beginUpload: (name: string) => MarkState;
  readonly endUpload: (name: string, isSpent: boolean) => void;
  readonly usedToday: () => Promise<readonly KeyBytes[]>;
};

/** The primary's side: one for all workers. */
export class Shared {
  readonly #ledger: LocalLedger;
  readonly #marks = new LocalMarks();

  /** `usage`: counts together with other servers of the deployment. */
  constructor(now: () => number, usage?: SharedUsage) {
    this.#ledger = new LocalLedger(now);
    if (usage) this.#ledger.share(usage);
  }

  /** Answers one worker; `end` releases what it holds. */
  for(): { readonly answers: SharedCalls; readonly end: () => void } {
    const ledger = this.#ledger;
    const reserved = new Map<string, number>();
    const marks = new Set<string>();
    let hasEnded = false;
    const hold = (id: string, bytes: number) => {
      const sum = (reserved.get(id) ?? 0) + bytes;
      if (sum > 0) reserved.set(id, sum);
      else reserved.delete(id);
    };
    const answers: SharedCalls = {
      request: (key) => ledger.request(key),
      reserve: async (key, least, wanted) => {
        const bytes = await ledger.reserve(key, least, wanted);
        if (hasEnded) ledger.settle(key.id, bytes, 0);
        else hold(key.id, bytes);
        return bytes;
      },
      settle: (id, reservedBytes, storedBytes) => {
        hold(id, -reservedBytes);
        ledger.settle(id, reservedBytes, storedBytes);
      },
      giveBack: (id, day, bytes) => ledger.giveBack(id, day, bytes),
      beginUpload: (name) => {
        const state = this.#marks.begin(name);
        if (state !== 'taken') marks.add(name);
        return state;
      },
      endUpload: (name, isSpent) => {
        if (marks.delete(name)) this.#marks.end(name, isSpent);
      },
      usedToday: () => ledger.today(),
    };
    const end = () => {
      hasEnded = true;
      for (const [id, bytes] of reserved) ledger.settle(id, bytes, 0);
      for (const name of marks) this.#marks.end(name, false);
    };
    return { answers, end };
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }
}

/** The worker's side. */
export interface SharedParts {
  readonly ledger: Ledger;
  readonly marks: UploadMarks;
}

export function askShared(primary: Calls<SharedCalls>): SharedParts {
  const limitsOf = ({ id, requestsPerSecond, bytesPerDay }: Limited): Limited => {
    return { id, requestsPerSecond, bytesPerDay };
  };
  return {
    ledger: {
      request: async (key) => {
        if (key.requestsPerSecond !== undefined) await primary.ask('request', limitsOf(key));
      },
      // Without a timeout: the primary would keep what nobody waits for any more.
      reserve: (key, least, wanted) =>
        primary.askWithin(0, 'reserve', limitsOf(key), least, wanted),
      settle: (id, reserved, stored) => primary.tell('settle', id, reserved, stored),
      giveBack: (id, day, bytes) => primary.tell('giveBack', id, day, bytes),
      today: () => primary.ask('usedToday'),
      // The primary keeps a small object for each key that a worker asked about.
      prune: () => undefined,
    },
    marks: {
      begin: (name) => primary.askWithin(0, 'beginUpload', name),
      end: (name, isSpent) => primary.tell('endUpload', name, isSpent),
    },
  };
}
