import {
  type Command,
  reportStatus,
  type ServerBrief,
  StorageStatus,
  syncSrcReq,
} from '@stevedore/protocol';
import { type Address, ConnectionError, Peer, type PeerOptions } from '@stevedore/wire';
import { ifThere } from '../files/file-backend.js';
import { isUnfinished, type Members } from './members.js';

/**
 * First copies, as the trackers arrange them: a member that starts empty is given one
 * other member to take everything from, and gets no requests until that one says that
 * it has. The others send all they have as well: each may have files of a member that
 * is away, or of the empty one itself, that its source has not.
 */

export interface FirstCopy {
  /** When the member was given a source, unix seconds. */
  readonly seconds: number;
  /** This storage is the source, and the copy is not whole. */
  readonly isSource: boolean;
}

export interface FirstCopiesOptions {
  readonly group: string;
  readonly members: Members;
  readonly trackers: readonly Address[];
  /** How a tracker is asked. */
  readonly peer: Omit<PeerOptions, 'address'>;
}

export class FirstCopies {
  readonly #options: FirstCopiesOptions;
  readonly #stop = new AbortController();

  constructor(options: FirstCopiesOptions) {
    this.#options = options;
  }

  /** The member's last first copy, which it may still wait for; undefined if it had none. */
  async of({ id, status }: ServerBrief): Promise<FirstCopy | undefined> {
    const { group, members } = this.#options;
    const answers = await this.#askAll(syncSrcReq, { group, id });
    const own = answers.find((each) => each?.sourceId === members.ownId);
    const source = own ?? answers.find((each) => each !== undefined);
    const isSource = own !== undefined && isUnfinished(status);
    return source && { seconds: source.untilSeconds, isSource };
  }

  /** Tells the trackers that the member is being sent everything. */
  begun(peer: ServerBrief): Promise<void> {
    return this.#report(peer, StorageStatus.syncing);
  }

  /** Reports to the trackers that the member has everything: it is active with its next beat. */
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

  /** The answers of the trackers, undefined for one that knows no such member; throws if none answers. */
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
