import { reportStanding, type StandingPair, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { Members } from './members.js';
import type { TrackerCalls } from './tracker-calls.js';

/** What the trackers know of who is out, and for whom. C trackers know nothing of it. */

export interface StandingsOptions {
  readonly group: string;
  readonly calls: TrackerCalls;
  readonly members: Members;
}

export class Standings {
  readonly #options: StandingsOptions;

  constructor(options: StandingsOptions) {
    this.#options = options;
  }

  /** Throws if no tracker can be reached. */
  async pairs(): Promise<readonly StandingPair[]> {
    return (await this.#ask('', 'ask')).flatMap(({ answer }) => answer ?? []);
  }

  /** False if a tracker knows that this storage is out itself. Throws if none can be reached. */
  async report(memberId: string, says: 'out' | 'level'): Promise<boolean> {
    const told = await this.#ask(memberId, says);
    if (!told.some(({ status }) => status === Status.tryAgain)) return true;
    if (says === 'out') await this.#ask(memberId, 'level');
    return false;
  }

  #ask(memberId: string, says: 'ask' | 'out' | 'level') {
    const { calls, group, members } = this.#options;
    const { ownId } = members;
    if (ownId === undefined) throw new StatusError(Status.tryAgain, 'no tracker has told an id');
    return calls.askAll(reportStanding, { group, memberId, byId: ownId, says });
  }
}
