import {
  type Command,
  reportStatus,
  type ServerBrief,
  Status,
  StorageStatus,
  syncSrcReq,
} from '@stevedore/protocol';
import { type Address, ConnectionError, Peer, type PeerAccess, StatusError } from '@stevedore/wire';
import { isUnfinished, type Members } from './members.js';

/** Questions to all trackers at once, each over a connection of its own. */

export interface TrackerCallsOptions {
  readonly trackers: readonly Address[];
  readonly localAddress: string | undefined;
  readonly timeoutMs: number;
  readonly access: PeerAccess;
}

/** What one tracker said: an answer, or the status of its refusal. */
export type Told<Answer> =
  | { readonly answer: Answer; readonly status: 0 }
  | { readonly answer: undefined; readonly status: number };

export class TrackerCalls {
  readonly #options: TrackerCallsOptions;
  readonly #stop = new AbortController();

  constructor(options: TrackerCallsOptions) {
    this.#options = options;
  }

  /** What those say that can be reached; throws if none can. */
  async askAll<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
  ): Promise<Told<Answer>[]> {
    const outcomes = await Promise.allSettled(
      this.#options.trackers.map((tracker) => this.#ask(tracker, command, request)),
    );
    const told = outcomes.filter((each) => each.status === 'fulfilled');
    if (told.length === 0) {
      throw new ConnectionError('ERR_CONNECTION_LOST', `no tracker answers ${command.name}`);
    }
    return told.map(({ value }) => value);
  }

  close(): void {
    this.#stop.abort();
  }

  async #ask<Request, Answer>(
    tracker: Address,
    command: Command<Request, Answer>,
    request: Request,
  ): Promise<Told<Answer>> {
    const { localAddress, timeoutMs, access } = this.#options;
    const peer = { address: tracker, localAddress, timeoutMs, access };
    try {
      return { answer: await Peer.ask(peer, command, request, this.#stop.signal), status: 0 };
    } catch (error) {
      if (error instanceof StatusError) return { answer: undefined, status: error.status };
      throw error;
    }
  }
}

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
  readonly calls: TrackerCalls;
  readonly members: Members;
}

export class FirstCopies {
  readonly #options: FirstCopiesOptions;

  constructor(options: FirstCopiesOptions) {
    this.#options = options;
  }

  /** The member's last first copy, which it may still wait for; undefined if it had none. */
  async of({ id, status }: ServerBrief): Promise<FirstCopy | undefined> {
    const { group, members } = this.#options;
    const answers = await this.#askAll(syncSrcReq, { group, id }, [Status.notFound]);
    const own = answers.find((each) => each?.sourceId === members.ownId);
    const source = own ?? answers.find((each) => each !== undefined);
    const isSource = own !== undefined && isUnfinished(status);
    return source && { seconds: source.untilSeconds, isSource };
  }

  /** Tells the trackers that the member is being sent everything. */
  begun(peer: ServerBrief): Promise<void> {
    return this.#report(peer, StorageStatus.syncing);
  }

  /** Tells the trackers that the member has everything: it is alive with its next beat. */
  ended(peer: ServerBrief): Promise<void> {
    return this.#report(peer, StorageStatus.offline);
  }

  async #report(peer: ServerBrief, status: number): Promise<void> {
    const { group } = this.#options;
    const request = { group, brief: { ...peer, status } };
    await this.#askAll(reportStatus, request, [Status.notFound]);
  }

  /** The answers of the trackers that can be reached; throws if none can. */
  async #askAll<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
    ignored: readonly number[],
  ): Promise<(Answer | undefined)[]> {
    const told = await this.#options.calls.askAll(command, request);
    const heard = told.filter(({ status }) => status === 0 || ignored.includes(status));
    if (heard.length === 0) throw new Error(`no tracker answers ${command.name}`);
    return heard.map(({ answer }) => answer);
  }
}
