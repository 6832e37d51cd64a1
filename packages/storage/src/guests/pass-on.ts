import {
  AT_HOME_FLAG,
  type Command,
  type FetchTarget,
  type FileName,
  PASSED_ON_FLAG,
  queryFetch,
  Status,
} from '@stevedore/protocol';
import { AuthenticationError, StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import type { StreamedReply } from '../net/handler.js';
import type { Endpoint } from '../options.js';

/**
 * Requests for files of other groups that this storage does not answer for, or not any
 * more: a tracker that had not heard of it yet sent them here. They are passed on to the
 * member of the file's own group that a tracker names, which answers as it answers any
 * client. A request that was passed on is marked and goes no further: no way is longer
 * than client, this storage, home, and the storage that has the bytes.
 */

export interface PassOnOptions {
  readonly trackers: readonly Endpoint[];
  readonly timeoutMs: number;
  readonly access: PeerAccess;
  /** Requests that are passed on at a time; what is more is told to come back. */
  readonly maxAtOnce: number;
}

export class PassOn {
  readonly #options: PassOnOptions;
  readonly #stop = new AbortController();
  #running = 0;
  #passed = 0;

  constructor(options: PassOnOptions) {
    this.#options = options;
  }

  /** Requests that were passed on so far. */
  get passed(): number {
    return this.#passed;
  }

  close(): void {
    this.#stop.abort();
  }

  /** Status 11 where no tracker, or nobody of the group, answers. */
  async ask<Request extends FileName, Answer>(
    command: Command<Request, Answer>,
    request: Request,
    flags: number,
  ): Promise<Answer> {
    const client = await this.#connect(request);
    try {
      return await client.ask(command, request, flags | PASSED_ON_FLAG);
    } catch (error) {
      throw asAnswer(error);
    } finally {
      this.#end(client);
    }
  }

  /** As `ask`, the answer's bytes as they come. */
  async stream<Request extends FileName>(
    command: Command<Request, Buffer>,
    request: Request,
    chunkBytes: number,
  ): Promise<StreamedReply> {
    const client = await this.#connect(request);
    try {
      const { bytes, read } = await client.stream(command, request, PASSED_ON_FLAG);
      return {
        bytes,
        read: () => read(chunkBytes).catch((error: unknown) => Promise.reject(asAnswer(error))),
        release: () => this.#end(client),
      };
    } catch (error) {
      this.#end(client);
      throw asAnswer(error);
    }
  }

  async #connect(file: FileName): Promise<FrameClient> {
    const { maxAtOnce } = this.#options;
    if (this.#running >= maxAtOnce) throw new StatusError(Status.tryAgain, 'too many passed on');
    this.#running += 1;
    try {
      const { address, port } = await this.#home(file);
      const client = await this.#open({ host: address, port });
      this.#passed += 1;
      return client;
    } catch (error) {
      this.#running -= 1;
      throw asAnswer(error);
    }
  }

  #end(client: FrameClient): void {
    this.#running -= 1;
    client.close();
  }

  /** The first tracker that answers is believed. */
  async #home({ group, name }: FileName): Promise<FetchTarget> {
    let last: unknown = new StatusError(Status.tryAgain, 'there is no tracker');
    for (const tracker of this.#options.trackers) {
      let client: FrameClient | undefined;
      try {
        client = await this.#open(tracker);
        return await client.ask(queryFetch, { group, name }, AT_HOME_FLAG);
      } catch (error) {
        last = error;
      } finally {
        client?.close();
      }
    }
    throw last;
  }

  #open(endpoint: Endpoint): Promise<FrameClient> {
    const { timeoutMs, access } = this.#options;
    return FrameClient.open({ ...endpoint, timeoutMs, access }, this.#stop.signal);
  }
}

/** What the home answers is the answer; that it cannot be asked is nobody's fault here. */
function asAnswer(error: unknown): unknown {
  if (error instanceof StatusError || error instanceof AuthenticationError) return error;
  return new StatusError(Status.tryAgain, 'the home of the file does not answer');
}
