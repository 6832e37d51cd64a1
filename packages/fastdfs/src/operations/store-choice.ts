import { queryStore, queryStoreInGroup, type StoreTarget } from '@stevedore/protocol';
import type { Deadline } from '../deadline.js';
import type { TrackerReply, Trackers } from '../trackers.js';

/**
 * Chooses the storage of a new file by asking a tracker. Uploads that run at the same
 * time share an answer: those that want one at once share the question, and one that
 * begins while another with the same answer is still under way takes that answer, up
 * to a number of uploads and for a second at most. So uploads one after another ask
 * each time, as every FastDFS client does, and many at once still go around all
 * storages of a round robin. An upload that fails ends the use of its answer. A failed
 * question, which may be due to the asker's own deadline, is not shared: each of the
 * others asks for itself.
 */

export type StoreAnswer = TrackerReply<StoreTarget>;

/** An answer in the hands of one upload, which says whether it was of use; the first word counts. */
export interface StoreLease {
  readonly answer: StoreAnswer;
  readonly done: (stored: boolean) => void;
}

/** How long an answer may be taken by uploads that begin later. */
const MAX_ANSWER_AGE_MS = 1_000;

export class StoreChoice {
  readonly #trackers: Trackers;
  readonly #uploadsPerAnswer: number;
  readonly #nowMs: () => number;
  /** By group; the empty name is that of calls which leave the choice to the tracker. */
  readonly #asked = new Map<string, SharedQuestion>();
  readonly #shared = new Map<string, SharedAnswer>();

  constructor(
    trackers: Trackers,
    uploadsPerAnswer: number,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#trackers = trackers;
    this.#uploadsPerAnswer = uploadsPerAnswer;
    this.#nowMs = nowMs;
  }

  /** An answer for one upload: shared where uploads run together, asked for otherwise. */
  async lease(group: string | undefined, deadline: Deadline): Promise<StoreLease> {
    if (this.#uploadsPerAnswer === 1) {
      return { answer: await this.ask(group, deadline), done: () => undefined };
    }
    const name = group ?? '';
    const shared = this.#shared.get(name);
    if (shared && this.#isFresh(shared)) return this.#take(name, shared);
    const question = this.#asked.get(name);
    if (!question) return this.#take(name, await this.#askFor(name, group, deadline));
    const answer = await question.wait(deadline);
    return this.#take(name, answer ?? this.#keep(name, await this.ask(group, deadline)));
  }

  /** The answer to a question of its own. */
  ask(group: string | undefined, deadline: Deadline): Promise<StoreAnswer> {
    return group === undefined
      ? this.#trackers.ask(queryStore, undefined, deadline)
      : this.#trackers.ask(queryStoreInGroup, { group }, deadline);
  }

  async #askFor(
    name: string,
    group: string | undefined,
    deadline: Deadline,
  ): Promise<SharedAnswer> {
    const question = new SharedQuestion();
    this.#asked.set(name, question);
    let answer: SharedAnswer | undefined;
    try {
      answer = this.#keep(name, await this.ask(group, deadline));
      return answer;
    } finally {
      this.#asked.delete(name);
      question.settle(answer);
    }
  }

  #keep(name: string, answer: StoreAnswer): SharedAnswer {
    const shared = { answer, askedMs: this.#nowMs(), uploads: 0, running: 0 };
    this.#shared.set(name, shared);
    return shared;
  }

  #isFresh({ uploads, running, askedMs }: SharedAnswer): boolean {
    return (
      running > 0 && uploads < this.#uploadsPerAnswer && this.#nowMs() - askedMs < MAX_ANSWER_AGE_MS
    );
  }

  #take(name: string, shared: SharedAnswer): StoreLease {
    shared.uploads++;
    shared.running++;
    let isDone = false;
    return {
      answer: shared.answer,
      done: (stored) => {
        if (isDone) return;
        isDone = true;
        shared.running--;
        const ended = !stored || shared.running === 0;
        if (ended && this.#shared.get(name) === shared) this.#shared.delete(name);
      },
    };
  }
}

interface SharedAnswer {
  readonly answer: StoreAnswer;
  readonly askedMs: number;
  /** Those that took it so far, and those of them that are not done. */
  uploads: number;
  running: number;
}

class SharedQuestion {
  readonly #waiting = new Set<(answer: SharedAnswer | undefined) => void>();

  /** Undefined when the question was not answered; rejects when the deadline ends first. */
  wait(deadline: Deadline): Promise<SharedAnswer | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (answer: SharedAnswer | undefined): void => {
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

  settle(answer: SharedAnswer | undefined): void {
    for (const settle of this.#waiting) settle(answer);
    this.#waiting.clear();
  }
}
