import { queryStore, queryStoreInGroup, type StoreTarget } from '@stevedore/protocol';
import type { Deadline } from '../deadline.js';
import type { TrackerReply, Trackers } from '../trackers.js';

/**
 * Asks a tracker where a new file goes. Calls that want to know at the same time share
 * one question: an answer that comes after a call began is as fresh as its own would be.
 * Only answers are shared. A failure, which may be the asker's own deadline, makes each
 * of the others ask for itself.
 */

export type StoreAnswer = TrackerReply<StoreTarget>;

export class StoreChoice {
  readonly #trackers: Trackers;
  /** By group; the empty name is that of calls which leave the choice to the tracker. */
  readonly #asked = new Map<string, SharedQuestion>();

  constructor(trackers: Trackers) {
    this.#trackers = trackers;
  }

  async ask(group: string | undefined, deadline: Deadline): Promise<StoreAnswer> {
    const name = group ?? '';
    const shared = this.#asked.get(name);
    if (shared) return (await shared.wait(deadline)) ?? this.#askAlone(group, deadline);
    const question = new SharedQuestion();
    this.#asked.set(name, question);
    let answer: StoreAnswer | undefined;
    try {
      answer = await this.#askAlone(group, deadline);
      return answer;
    } finally {
      this.#asked.delete(name);
      question.settle(answer);
    }
  }

  #askAlone(group: string | undefined, deadline: Deadline): Promise<StoreAnswer> {
    return group === undefined
      ? this.#trackers.ask(queryStore, undefined, deadline)
      : this.#trackers.ask(queryStoreInGroup, { group }, deadline);
  }
}

class SharedQuestion {
  readonly #waiting = new Set<(answer: StoreAnswer | undefined) => void>();

  /** Undefined when the question was not answered; rejects when the deadline ends first. */
  wait(deadline: Deadline): Promise<StoreAnswer | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (answer: StoreAnswer | undefined): void => {
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

  settle(answer: StoreAnswer | undefined): void {
    for (const settle of this.#waiting) settle(answer);
    this.#waiting.clear();
  }
}
