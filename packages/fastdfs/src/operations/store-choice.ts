import { queryStore, queryStoreInGroup, type StoreTarget } from '@stevedore/protocol';
import type { Deadline } from '../deadline.js';
import type { TrackerReply, Trackers } from '../trackers.js';
import { type Lease, SharedAnswers } from './shared-answers.js';

/** Asks a tracker for the storage of a new file; concurrent uploads share answers. */

export type StoreAnswer = TrackerReply<StoreTarget>;
export type StoreLease = Lease<StoreAnswer>;

export class StoreChoice {
  readonly #trackers: Trackers;
  readonly #answers: SharedAnswers<StoreAnswer>;

  constructor(trackers: Trackers, uploadsPerAnswer: number) {
    this.#trackers = trackers;
    this.#answers = new SharedAnswers(uploadsPerAnswer);
  }

  lease(group: string | undefined, deadline: Deadline): Promise<StoreLease> {
    // The empty name stands for calls that let the tracker choose.
    return this.#answers.lease(
      { name: group ?? '', ask: () => this.ask(group, deadline) },
      deadline,
    );
  }

  /** Asks without sharing. */
  ask(group: string | undefined, deadline: Deadline): Promise<StoreAnswer> {
    return group === undefined
      ? this.#trackers.ask(queryStore, undefined, deadline)
      : this.#trackers.ask(queryStoreInGroup, { group }, deadline);
  }
}
