import type { Deadline } from '../deadline.js';

/**
 * Shares a tracker's answers among concurrent calls. Calls that need the same answer at once share
 * the request. A call that starts while another with the same answer is in progress uses that
 * answer, up to a number of calls and for at most a second. So sequential calls ask each time, as
 * with every FastDFS client, and many concurrent calls still use all storages of a round robin. A
 * failed call ends the use of its answer. A failed request is not shared, because its caller's
 * deadline may have caused it: each of the others asks for itself.
 */

/** An answer used by one call, which reports whether it worked; the first report counts. */
export interface Lease<Answer> {
  readonly answer: Answer;
  /** Undefined if nobody shares it, or once it is reported. */
  shared: Shared<Answer> | undefined;
}

export interface Question<Answer> {
  /** Calls with the same name may share an answer. */
  readonly name: string;
  /** Latest time for which the answer holds. */
  readonly time: number;
  readonly ask: () => Promise<Answer>;
}

interface Shared<Answer> {
  readonly name: string;
  readonly answer: Answer;
  readonly time: number;
  readonly askedMs: number;
  /** Calls that used it so far, and those still running. */
  calls: number;
  running: number;
}

/** A request in progress, and who waits for its answer; undefined if it failed. */
interface Asking<Answer> {
  readonly time: number;
  readonly waiting: Set<(answer: Shared<Answer> | undefined) => void>;
}

/** How long calls that start later may use an answer. */
const MAX_ANSWER_AGE_MS = 1_000;

/** An answer that is not shared. */
export async function alone<Answer>(ask: () => Promise<Answer>): Promise<Lease<Answer>> {
  return { answer: await ask(), shared: undefined };
}

export class SharedAnswers<Answer> {
  readonly #callsPerAnswer: number;
  readonly #asked = new Map<string, Asking<Answer>>();
  readonly #shared = new Map<string, Shared<Answer>>();

  constructor(callsPerAnswer: number) {
    this.#callsPerAnswer = callsPerAnswer;
  }

  /** An answer for one call, shared among concurrent calls. */
  async lease(question: Question<Answer>, deadline: Deadline): Promise<Lease<Answer>> {
    const { name, time, ask } = question;
    if (this.#callsPerAnswer === 1) return alone(ask);
    const shared = this.#shared.get(name);
    if (shared && shared.time >= time && this.#isFresh(shared)) return leased(shared);
    const asking = this.#asked.get(name);
    if (asking && asking.time >= time) {
      const answer = await answerTo(asking, deadline);
      return leased(answer ?? this.#keep(question, await ask()));
    }
    const own: Asking<Answer> = { time, waiting: new Set() };
    this.#asked.set(name, own);
    let kept: Shared<Answer> | undefined;
    try {
      kept = this.#keep(question, await ask());
      return leased(kept);
    } finally {
      if (this.#asked.get(name) === own) this.#asked.delete(name);
      for (const settle of own.waiting) settle(kept);
    }
  }

  /** The call is over. */
  done(lease: Lease<Answer>, wasGood: boolean): void {
    const { shared } = lease;
    if (!shared) return;
    lease.shared = undefined;
    shared.running--;
    const ended = !wasGood || shared.running === 0;
    if (ended && this.#shared.get(shared.name) === shared) this.#shared.delete(shared.name);
  }

  #keep({ name, time }: Question<Answer>, answer: Answer): Shared<Answer> {
    const askedMs = performance.now();
    const shared = { name, answer, time, askedMs, calls: 0, running: 0 };
    this.#shared.set(name, shared);
    return shared;
  }

  #isFresh({ calls, running, askedMs }: Shared<Answer>): boolean {
    return (
      running > 0 && calls < this.#callsPerAnswer && performance.now() - askedMs < MAX_ANSWER_AGE_MS
    );
  }
}

function leased<Answer>(shared: Shared<Answer>): Lease<Answer> {
  shared.calls++;
  shared.running++;
  return { answer: shared.answer, shared };
}

/** Undefined if the request failed; rejects if the deadline ends first. */
function answerTo<Answer>(
  { waiting }: Asking<Answer>,
  deadline: Deadline,
): Promise<Shared<Answer> | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (answer: Shared<Answer> | undefined): void => {
      deadline.unwatch();
      resolve(answer);
    };
    waiting.add(settle);
    deadline.watch((error) => {
      waiting.delete(settle);
      reject(error);
    });
  });
}
