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
  readonly done: (wasGood: boolean) => void;
}

export interface Question<Answer> {
  /** Calls with the same name may share an answer. */
  readonly name: string;
  /** Latest time for which the answer holds. Default 0. */
  readonly time?: number;
  readonly ask: () => Promise<Answer>;
}

/** How long calls that start later may use an answer. */
const MAX_ANSWER_AGE_MS = 1_000;

export class SharedAnswers<Answer> {
  readonly #callsPerAnswer: number;
  readonly #nowMs: () => number;
  readonly #asked = new Map<string, Asking<Answer>>();
  readonly #shared = new Map<string, Shared<Answer>>();

  constructor(callsPerAnswer: number, nowMs: () => number = () => performance.now()) {
    this.#callsPerAnswer = callsPerAnswer;
    this.#nowMs = nowMs;
  }

  /** An answer for one call, shared among concurrent calls. */
  async lease(question: Question<Answer>, deadline: Deadline): Promise<Lease<Answer>> {
    const { name, time = 0, ask } = question;
    if (this.#callsPerAnswer === 1) return { answer: await ask(), done: () => undefined };
    const shared = this.#shared.get(name);
    if (shared && shared.time >= time && this.#isFresh(shared)) return this.#take(name, shared);
    const asking = this.#asked.get(name);
    if (!asking || asking.time < time) return this.#take(name, await this.#ask(question, time));
    const answer = await asking.wait(deadline);
    return this.#take(name, answer ?? this.#keep(name, time, await ask()));
  }

  async #ask({ name, ask }: Question<Answer>, time: number): Promise<Shared<Answer>> {
    const asking = new Asking<Answer>(time);
    this.#asked.set(name, asking);
    let answer: Shared<Answer> | undefined;
    try {
      answer = this.#keep(name, time, await ask());
      return answer;
    } finally {
      if (this.#asked.get(name) === asking) this.#asked.delete(name);
      asking.settle(answer);
    }
  }

  #keep(name: string, time: number, answer: Answer): Shared<Answer> {
    const shared = { answer, time, askedMs: this.#nowMs(), calls: 0, running: 0 };
    this.#shared.set(name, shared);
    return shared;
  }

  #isFresh({ calls, running, askedMs }: Shared<Answer>): boolean {
    return (
      running > 0 && calls < this.#callsPerAnswer && this.#nowMs() - askedMs < MAX_ANSWER_AGE_MS
    );
  }

  #take(name: string, shared: Shared<Answer>): Lease<Answer> {
    shared.calls++;
    shared.running++;
    let isDone = false;
    return {
      answer: shared.answer,
      done: (wasGood) => {
        if (isDone) return;
        isDone = true;
        shared.running--;
        const ended = !wasGood || shared.running === 0;
        if (ended && this.#shared.get(name) === shared) this.#shared.delete(name);
      },
    };
  }
}

interface Shared<Answer> {
  readonly answer: Answer;
  readonly time: number;
  readonly askedMs: number;
  /** Calls that used it so far, and those still running. */
  calls: number;
  running: number;
}

class Asking<Answer> {
  readonly time: number;
  readonly #waiting = new Set<(answer: Shared<Answer> | undefined) => void>();

  constructor(time: number) {
    this.time = time;
  }

  /** Undefined if the request failed; rejects if the deadline ends first. */
  wait(deadline: Deadline): Promise<Shared<Answer> | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (answer: Shared<Answer> | undefined): void => {
        deadline.unwatch();
        resolve(answer);
      };
      this.#waiting.add(settle);
      deadline.watch((error) => {
        this.#waiting.delete(settle);
        reject(error);
      });
    });
  }

  settle(answer: Shared<Answer> | undefined): void {
    for (const settle of this.#waiting) settle(answer);
    this.#waiting.clear();
  }
}
