import type { Command } from '@stevedore/protocol';
import { type Address, ConnectionError, Peer, type PeerAccess, StatusError } from '@stevedore/wire';

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
