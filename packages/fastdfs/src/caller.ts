import {
  activeTest,
  type Command,
  encodeRequest,
  encodeRequestHead,
  type PayloadCommand,
  ProtocolError,
  Status,
  statusText,
} from '@stevedore/protocol';
import {
  type Address,
  authenticate,
  type BodySource,
  type Call,
  CollectedReply,
  type Connection,
  MAX_SMALL_BODY_BYTES,
  type Pool,
  ReplyReader,
} from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { codeOfStatus, type FastdfsError, isLost, Redirect } from './errors.js';
import { connectChannel, type FailedExchange, requestChannel, traced } from './events.js';
import type { Settings } from './options.js';

/**
 * Sends commands to servers: `call` for complete requests, `callWithPayload` for those followed by
 * a file's bytes. If a pooled connection turns out dead before the first byte of a reply, it is
 * replaced once. A request that must not be sent twice, or cannot be, uses a connection that was
 * tested just before, and is not repeated.
 */

/** A body up to this size is copied behind its head: cheaper than a gathering write. */
const COPY_BODY_BYTES = 4 * 1024;

const SECOND_MS = 1_000;

/** How a call differs from the default. */
export interface CallPlan {
  /** Limits each wait: for a connection, for opening it, for progress. */
  readonly stepMs?: number;
  /** Status byte of the request. */
  readonly flags?: number;
  /** False for what must not be done twice: it is sent once, over a tested connection. */
  readonly repeatable?: boolean;
  readonly maxReplyBytes?: number;
  /** Called for each exchange that failed without an answer, including replaced ones. */
  readonly onFailed?: (failed: FailedExchange) => void;
}

export class Caller {
  readonly #pool: Pool;
  readonly #settings: Settings;
  /** Requests started, requests that failed, and requests repeated over a fresh connection. */
  requests = 0;
  failedRequests = 0;
  replacedConnections = 0;

  constructor(pool: Pool, settings: Settings) {
    this.#pool = pool;
    this.#settings = settings;
  }

  call<Request, Reply>(
    address: Address,
    command: Command<Request, Reply>,
    request: Request,
    deadline: Deadline,
    plan: CallPlan = {},
  ): Promise<Reply> {
    const frame = encodeRequest(command, request, plan.flags);
    return this.#ask(address, command, deadline, plan, false, (connection, reader, progressMs) =>
      connection.exchange([frame], reader, deadline, progressMs),
    );
  }

  /** Sends a command with the body behind its head. */
  callWithPayload<Request, Reply>(
    address: Address,
    command: PayloadCommand<Request, Reply>,
    request: Request,
    body: Buffer | BodySource,
    deadline: Deadline,
    plan: CallPlan = {},
  ): Promise<Reply> {
    const head = encodeRequestHead(command, request);
    if (Buffer.isBuffer(body)) {
      const parts = joinBody(head, body);
      return this.#ask(address, command, deadline, plan, true, (connection, reader, progressMs) =>
        connection.exchange(parts, reader, deadline, progressMs),
      );
    }
    const repeatable = body.repeatable && plan.repeatable !== false;
    const once = { ...plan, repeatable };
    return this.#ask(address, command, deadline, once, true, (connection, reader, progressMs) =>
      body.sendOver(connection, head, reader, deadline, progressMs),
    );
  }

  #ask<Reply>(
    address: Address,
    command: Pick<Command<never, Reply>, 'name' | 'reply'>,
    deadline: Deadline,
    plan: CallPlan,
    hasPayload: boolean,
    exchange: (connection: Connection, reader: ReplyReader, progressMs: number) => Promise<void>,
  ): Promise<Reply> {
    const { stepMs = Number.POSITIVE_INFINITY, repeatable = true } = plan;
    const progressMs = this.progressMs(stepMs);
    let begun = false;
    return this.withConnection(
      address,
      deadline,
      stepMs,
      async (connection) => {
        if (!repeatable && connection.replies > 0) {
          await this.#test(connection, deadline, progressMs);
        }
        begun = true;
        const reply = new CollectedReply(plan.maxReplyBytes ?? MAX_SMALL_BODY_BYTES);
        try {
          await exchange(connection, new ReplyReader(reply, hasPayload), progressMs);
        } catch (error) {
          plan.onFailed?.(failedExchange(connection, error));
          throw error;
        }
        // A server that refuses during the body may read the rest of it as requests, so this
        // connection is not reused.
        if (hasPayload && reply.status !== Status.ok) connection.destroy();
        checkStatus(connection, reply.status, deadline);
        if (hasPayload && connection.state === 'closed') {
          throw badReply(connection, 'success was reported before the body was sent', deadline);
        }
        return decodeReply(connection, command, reply.body, deadline, plan);
      },
      () => repeatable || !begun,
    );
  }

  /**
   * Runs one exchange on a leased connection and returns it. `use` must leave it between requests,
   * or closed.
   */
  async withConnection<T>(
    address: Address,
    deadline: Deadline,
    stepMs: number,
    use: (connection: Connection) => Promise<T>,
    repeatable: () => boolean = () => true,
  ): Promise<T> {
    this.requests += 1;
    const { operation, fileId } = deadline;
    try {
      return await traced(
        requestChannel,
        () => ({ address: address.text, operation, fileId }),
        () => this.#useAny(address, deadline, stepMs, use, repeatable),
      );
    } catch (error) {
      if (!(error instanceof Redirect)) this.failedRequests += 1;
      throw error;
    }
  }

  async #useAny<T>(
    address: Address,
    deadline: Deadline,
    stepMs: number,
    use: (connection: Connection) => Promise<T>,
    repeatable: () => boolean,
  ): Promise<T> {
    for (let fresh = false; ; fresh = true) {
      const connection = await this.#pool.lease(address, deadline, stepMs, fresh);
      const reused = connection.replies > 0;
      try {
        return await use(connection);
      } catch (error) {
        const stale = !fresh && reused && connection.unanswered && isLost(error);
        if (!stale || !repeatable()) throw error;
        this.replacedConnections += 1;
      } finally {
        this.#pool.release(connection);
      }
    }
  }

  /** Milliseconds that a server may take without any progress. */
  progressMs(stepMs: number): number {
    const { idleTimeoutMs } = this.#settings;
    // Rounded to whole seconds if there are many, so that a connection keeps its timer.
    const grainMs = stepMs > 10 * SECOND_MS ? SECOND_MS : 1;
    return Math.max(1, Math.min(idleTimeoutMs, Math.ceil(stepMs / grainMs) * grainMs));
  }

  async #test(connection: Connection, deadline: Deadline, progressMs: number): Promise<void> {
    const reply = new CollectedReply(MAX_SMALL_BODY_BYTES);
    const frame = encodeRequest(activeTest, undefined);
    await connection.exchange([frame], new ReplyReader(reply), deadline, progressMs);
    checkStatus(connection, reply.status, deadline);
    decodeReply(connection, activeTest, reply.body, deadline);
  }
}

/** Throws the error of a reply whose status is not 0. */
export function checkStatus(connection: Connection, status: number, deadline: Deadline): void {
  if (status === Status.ok) return;
  // A storage closes the connection right after this status, so it is not reused.
  if (status === Status.invalid) connection.destroy();
  throw deadline.error(codeOfStatus(status), `the server answered ${statusText(status)}`, {
    address: connection.address.text,
    status,
  });
}

/** A violation of the protocol; closes the connection. */
function badReply(
  connection: Connection,
  message: string,
  deadline: Deadline,
  cause?: unknown,
): FastdfsError {
  connection.destroy();
  return deadline.error('bad_reply', message, { address: connection.address.text, cause });
}

function decodeReply<Reply>(
  connection: Connection,
  command: Pick<Command<never, Reply>, 'name' | 'reply'>,
  body: Buffer,
  deadline: Deadline,
  plan: CallPlan = {},
): Reply {
  try {
    return command.reply.decode(body);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    const bad = badReply(connection, `${command.name}: ${error.message}`, deadline, error);
    plan.onFailed?.({ error: bad, address: connection.address.text, sent: true, answered: true });
    throw bad;
  }
}

function failedExchange(connection: Connection, error: unknown): FailedExchange {
  return {
    error,
    address: connection.address.text,
    sent: connection.requestComplete,
    answered: !connection.unanswered,
  };
}

function joinBody(head: Buffer, body: Buffer): readonly Buffer[] {
  if (body.length === 0) return [head];
  return body.length <= COPY_BODY_BYTES ? [Buffer.concat([head, body])] : [head, body];
}

/** Opens a new connection: proves the secret, if the cluster has one. */
export function greet(
  secret: string | undefined,
  connection: Connection,
  connected: Promise<void>,
  call: Call,
  timeoutMs: number,
): Promise<void> {
  const address = connection.address.text;
  const introduced = async (): Promise<void> => {
    await connected;
    if (secret === undefined || (await authenticate(connection, secret, call, timeoutMs))) return;
    throw call.error('access_denied', 'the server has no secret', { address });
  };
  return traced(connectChannel, () => ({ address }), introduced);
}
