import type { KeysUnderWay } from '@stevedore/middleware/core';
import { ProblemError } from '@stevedore/middleware/core';
import type { ApiKey } from '../access/api-keys.js';
import {
  type CountsUse,
  type KeyBytes,
  type KnowsSpent,
  type SetAside,
  SpentMarks,
  spent,
  Usage,
} from '../access/quotas.js';
import type { Calls } from './calls.js';

/**
 * State that the workers of a gateway share: the usage of API keys, uploads in progress, used
 * one-time URLs. The primary keeps it. A worker asks only about keys that have a limit. If a worker
 * dies, its reservations are released.
 */

type Limited = Pick<ApiKey, 'id' | 'requestsPerSecond' | 'bytesPerDay'>;

/** A refusal by the primary, serialised for the worker. */
interface Refusal {
  readonly refused: 'rate_limited' | 'quota_exceeded';
  readonly message: string;
  readonly retryAfter: string;
}

interface Part {
  readonly id: number;
  readonly bytes: number;
}

/** Calls from a worker that only the primary answers. */
export type SharedCalls = {
  readonly request: (key: Limited) => Refusal | undefined;
  readonly setAside: (key: Limited, bytes: number) => Part | Refusal | undefined;
  readonly settle: (id: number, storedBytes: number) => void;
  readonly beginUpload: (name: string) => boolean;
  readonly endUpload: (name: string) => void;
  readonly isSpent: (mark: Uint8Array) => boolean;
  readonly spend: (mark: Uint8Array, until: number) => void;
  readonly usedToday: () => readonly KeyBytes[];
};

/** The primary's side: one for all workers. */
export class Shared {
  readonly #usage: Usage;
  readonly #spent: SpentMarks;
  readonly #underWay = new Set<string>();
  #lastPart = 0;

  constructor(now: () => number = Date.now) {
    this.#usage = new Usage(now);
    this.#spent = new SpentMarks(now);
  }

  /** Answers one worker; `end` releases what it holds. */
  for(): { readonly answers: SharedCalls; readonly end: () => void } {
    const parts = new Map<number, SetAside>();
    const uploads = new Set<string>();
    const endUpload = (name: string) => {
      if (uploads.delete(name)) this.#underWay.delete(name);
    };
    const settle = (id: number, storedBytes: number) => {
      parts.get(id)?.settle(storedBytes);
      parts.delete(id);
    };
    const answers: SharedCalls = {
      request: (key) => refusalOf(() => void this.#usage.request(key as ApiKey)),
      setAside: (key, bytes) =>
        refusalOf(() => {
          const part = this.#usage.setAside(key as ApiKey, bytes);
          if (!part) return undefined;
          this.#lastPart += 1;
          parts.set(this.#lastPart, part);
          return { id: this.#lastPart, bytes: part.bytes };
        }),
      settle,
      beginUpload: (name) => {
        if (this.#underWay.has(name)) return false;
        this.#underWay.add(name);
        uploads.add(name);
        return true;
      },
      endUpload,
      isSpent: (mark) => this.#spent.has(Buffer.from(mark)),
      spend: (mark, until) => this.#spent.add(Buffer.from(mark), until),
      usedToday: () => this.#usage.today(),
    };
    const end = () => {
      for (const id of [...parts.keys()]) settle(id, 0);
      for (const name of [...uploads]) endUpload(name);
    };
    return { answers, end };
  }
}

function refusalOf<Result>(count: () => Result): Result | Refusal {
  try {
    return count();
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    return {
      refused: error.code as Refusal['refused'],
      message: error.message,
      retryAfter: String(error.headers['retry-after']),
    };
  }
}

/** The worker's side. */
export interface SharedParts {
  readonly usage: CountsUse;
  readonly spent: KnowsSpent;
  readonly underWay: KeysUnderWay;
}

export function askShared(primary: Calls<SharedCalls>): SharedParts {
  const limitsOf = ({ id, requestsPerSecond, bytesPerDay }: ApiKey): Limited => ({
    id,
    ...(requestsPerSecond === undefined ? {} : { requestsPerSecond }),
    ...(bytesPerDay === undefined ? {} : { bytesPerDay }),
  });
  return {
    usage: {
      request: async (key) => {
        if (key.requestsPerSecond !== undefined) {
          demand(await primary.ask('request', limitsOf(key)));
        }
      },
      setAside: async (key, bytes) => {
        if (key.bytesPerDay === undefined) return undefined;
        const part = demand(await primary.ask('setAside', limitsOf(key), bytes));
        if (!part) return undefined;
        const settle = (stored: number) => primary.tell('settle', part.id, stored);
        return { bytes: part.bytes, settle };
      },
      today: () => primary.ask('usedToday'),
      // The primary keeps a small object for each key that a worker asked about.
      prune: () => undefined,
    },
    spent: {
      add: (mark, until) => primary.tell('spend', mark, until),
      demandUnspent: async (mark) => {
        if (await primary.ask('isSpent', mark)) throw spent();
      },
    },
    underWay: {
      begin: (name) => primary.ask('beginUpload', name),
      end: (name) => primary.tell('endUpload', name),
    },
  };
}

function demand<Result>(answer: Result | Refusal): Result {
  if (typeof answer !== 'object' || answer === null || !('refused' in answer)) {
    return answer as Result;
  }
  const { refused, message, retryAfter } = answer as Refusal;
  throw new ProblemError(refused, message, undefined, { 'retry-after': retryAfter });
}
