import {
  type Command,
  reportStatus,
  type ServerBrief,
  StorageStatus,
  syncSrcReq,
} from '@stevedore/protocol';
import { type Address, ConnectionError, Peer, type PeerOptions } from '@stevedore/wire';
import { ifThere } from '../refusals.js';
import { isUnfinished, type Members } from './members.js';

/**
 * First copies, as the trackers arrange them. A member that starts empty is assigned another
 * member as its source, and gets no requests until that source reports the copy complete. The
 * other members send everything too: each may have files that the source lacks, from an
 * absent member or from the empty one itself.
 */

export interface FirstCopy {
  /** When the member was assigned a source, unix seconds. */
  readonly seconds: number;
  /** This storage is the source, and the copy is not complete. */
  readonly isSource: boolean;
}

export interface FirstCopiesOptions {
  readonly group: string;
  readonly members: Members;
  readonly trackers: readonly Address[];
  /** Connection options for requests to a tracker. */
  readonly peer: Omit<PeerOptions, 'address'>;
}

export class FirstCopies {
  readonly #options: FirstCopiesOptions;
  readonly #stop = new AbortController();

  constructor(options: FirstCopiesOptions) {
    this.#options = options;
  }

  /** The member's latest first copy, complete or not; undefined if it had none. */
  async of({ id, status }: ServerBrief): Promise<FirstCopy | undefined> {
    const { group, members } = this.#options;
    const answers = await this.#askAll(syncSrcReq, { group, id });
    const own = answers.find((each) => each?.sourceId === members.ownId);
    const source = own ?? answers.find((each) => each !== undefined);
    const isSource = own !== undefined && isUnfinished(status);
    return source && { seconds: source.untilSeconds, isSource };
  }

  /** Reports to the trackers that the first copy has begun. */
  begun(peer: ServerBrief): Promise<void> {
    return this.#report(peer, StorageStatus.syncing);
  }

  /** Reports that it is complete: the member becomes active with its next heartbeat. */
  ended(peer: ServerBrief): Promise<void> {
    return this.#report(peer, StorageStatus.offline);
  }

  async #report(peer: ServerBrief, status: number): Promise<void> {
    const { group } = this.#options;
    const request = { group, brief: { ...peer, status } };
    await this.#askAll(reportStatus, request);
  }

  close(): void {
    this.#stop.abort();
  }

  /** The trackers' answers, undefined for an unknown member; throws if no tracker answers. */
  async #askAll<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
  ): Promise<(Answer | undefined)[]> {
    const { trackers, peer } = this.#options;
    const asked = trackers.map((address) =>
      ifThere(Peer.ask({ ...peer, address }, command, request, this.#stop.signal)),
    );
    const outcomes = await Promise.allSettled(asked);
    const heard = outcomes.filter((each) => each.status === 'fulfilled');
    if (heard.length > 0) return heard.map(({ value }) => value);
    throw new ConnectionError('connection_lost', `no tracker answers ${command.name}`);
  }
}
