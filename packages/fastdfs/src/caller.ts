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
import { connectChannel, requestChannel, traced } from './channels.js';
import type { Deadline } from './deadline.js';
import { codeOfStatus, Elsewhere, FastdfsError } from './errors.js';
import type { Settings } from './options.js';

/**
 * Carries commands to servers: `call` for those whose request is whole at once,
 * `callWithPayload` for those that bytes of a file follow. A pooled connection that
 * turns out dead before the first byte of a reply is replaced once, silently. What
 * must not be sent twice, or cannot be, goes over a connection that was tested just
 * before, and is not repeated.
 */

/** A body up to here is copied behind its head: cheaper than a gathering write. */
const COPY_BODY_BYTES = 4 * 1024;

/** How a call differs from the usual. */
export interface CallPlan {
  /** Shortens each wait: for a connection, for its opening, for progress. */
  readonly stepMs?: number;
  /** Status byte of the request. */
  readonly flags?: number;
  /** False for what must not be done twice: it goes once, over a connection known to be alive. */
  readonly repeatable?: boolean;
  readonly maxReplyBytes?: number;
  /** Called for each exchange that failed without an answer, a replaced one included. */
  readonly onFailed?: (failed: FailedExchange) => void;
}

export interface FailedExchange {
  readonly error: unknown;
  readonly address: string;
  /** Whether all of the request was sent, so that the server may have acted on it. */
  readonly sent: boolean;
  /** Whether any byte of a reply came. */
  readonly answered: boolean;
}

export class Caller {
  readonly #pool: Pool;
  readonly #settings: Settings;
  /** Requests begun, those that ended in an error, and those sent again over a fresh connection. */
  requests = 0;
  failedRequests = 0;
  replacedConnections = 0;

  constructor(pool: Pool, settings: Settings) {
    this.#pool = pool;
    this.#settings = settings;
  }

  async call<Request, Reply>(
    address: Address,
    command: Command<Request, Reply>,
    request: Request,
    deadline: Deadline,
    plan: CallPlan = {},
  ): Promise<Reply> {
    const frame = encodeRequest(command, request, plan.flags);
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
          await connection.exchange([frame], new ReplyReader(reply), deadline, progressMs);
        } catch (error) {
          plan.onFailed?.(failedExchange(connection, error));
          throw error;
        }
        checkStatus(connection, reply.status, deadline);
        return decodeReply(connection, command, reply.body, deadline, plan);
      },
      () => repeatable || !begun,
    );
  }

  /** Sends a command with the body behind its head. */
  async callWithPayload<Request, Reply>(
    address: Address,
    command: PayloadCommand<Request, Reply>,
    request: Request,
    body: Buffer | BodySource,
    deadline: Deadline,
    plan: CallPlan = {},
  ): Promise<Reply> {
    const head = encodeRequestHead(command, request);
    const source = Buffer.isBuffer(body) ? undefined : body;
    const parts = Buffer.isBuffer(body) ? joinBody(head, body) : undefined;
    const { stepMs = Number.POSITIVE_INFINITY } = plan;
    const repeatable = plan.repeatable !== false && source?.repeatable !== false;
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
        const reply = new CollectedReply(MAX_SMALL_BODY_BYTES);
        const reader = new ReplyReader(reply, true);
        try {
          if (parts) await connection.exchange(parts, reader, deadline, progressMs);
          else await source?.sendOver(connection, head, reader, deadline, progressMs);
        } catch (error) {
          plan.onFailed?.(failedExchange(connection, error));
          throw error;
        }
        if (reply.status !== Status.ok) {
          // A server that refuses while the body is under way may take the rest of it
          // for requests, so this connection carries no more.
          connection.destroy();
          throw statusError(connection, reply.status, deadline);
        }
        if (connection.state === 'closed') {
          throw badReply(connection, 'success was reported before the body was sent', deadline);
        }
        return decodeReply(connection, command, reply.body, deadline, plan);
      },
      () => repeatable || !begun,
    );
  }

  /**
   * Runs one exchange on a leased connection and gives it back. `use` must leave it
   * between requests or closed.
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
      if (!(error instanceof Elsewhere)) this.failedRequests += 1;
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
    const connection = await this.#pool.lease(address, deadline, stepMs);
    const reused = connection.replies > 0;
    try {
      return await use(connection);
    } catch (error) {
      const stale =
        reused &&
        connection.unanswered &&
        error instanceof FastdfsError &&
        error.code === 'connection_lost';
      if (!stale || !repeatable()) throw error;
    } finally {
      this.#pool.release(connection);
    }
    this.replacedConnections += 1;
    return this.#useFresh(address, deadline, stepMs, use);
  }

  /** Milliseconds that a server may take without any progress. */
  progressMs(stepMs: number): number {
    return Math.max(1, Math.min(this.#settings.idleTimeoutMs, Math.ceil(stepMs)));
  }

  async #useFresh<T>(
    address: Address,
    deadline: Deadline,
    stepMs: number,
    use: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    const connection = await this.#pool.lease(address, deadline, stepMs, true);
    try {
      return await use(connection);
    } finally {
      this.#pool.release(connection);
    }
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
  // A storage closes right after this status; the next call should not find out.
  if (status === Status.invalid) connection.destroy();
  throw statusError(connection, status, deadline);
}

/** An error about bytes that broke the protocol; closes the connection they came from. */
function badReply(
  connection: Connection,
  message: string,
  deadline: Deadline,
  cause?: unknown,
): FastdfsError {
  connection.destroy();
  return deadline.error('bad_reply', message, { address: connection.address.text, cause });
}

function statusError(connection: Connection, status: number, deadline: Deadline): FastdfsError {
  return deadline.error(codeOfStatus(status), `the server answered ${statusText(status)}`, {
    address: connection.address.text,
    status,
  });
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

/** What a new connection begins with: the secret, where the cluster has one. */
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
