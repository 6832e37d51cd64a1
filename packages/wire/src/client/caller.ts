import type { TracingChannel } from 'node:diagnostics_channel';
import {
  activeTest,
  type Command,
  encodeRequest,
  encodeRequestHead,
  type PayloadCommand,
  ProtocolError,
  Status,
} from '@stevedore/protocol';
import type { Address } from '../address.js';
import { codeOf } from '../errors.js';
import type { BodySource } from './body-source.js';
import type { Connection } from './connection.js';
import { Pool, type PoolPolicy } from './pool.js';
import { type Call, ReceivedReply } from './reply.js';

/**
 * Sends commands to servers over pooled connections. If a connection turns out dead before the first
 * byte of a reply, it is replaced once. A request that must not be sent twice, or cannot be, uses a
 * connection that was tested just before, and is not repeated. A caller with `onLost` is a session,
 * which a lost connection ends: it replaces and tests none.
 */

/** A body up to this size is copied behind its head: cheaper than a gathering write. */
const COPY_BODY_BYTES = 4 * 1024;

const SECOND_MS = 1_000;

export interface CallerPolicy extends PoolPolicy {
  /** Longest time that a server may take without any progress. */
  readonly idleTimeoutMs: number;
  /** Publishes each request with its answer, including the wait for a connection. */
  readonly channel?: TracingChannel<unknown, RequestMessage>;
}

/** A request to one server. */
export interface RequestMessage {
  readonly address: string;
  /** The client's call that it serves: `upload`, `download`, `info`, ... */
  readonly operation: string;
  readonly fileId: string | undefined;
}

/** How a call differs from the default. */
export interface CallPlan {
  /** Limits each wait: for a connection, for opening it, for progress. */
  readonly stepMs?: number | undefined;
  /** Status byte of the request. */
  readonly flags?: number;
  /** False for what must not be done twice: it is sent once, over a tested connection. */
  readonly repeatable?: boolean;
  readonly maxReplyBytes?: number | undefined;
  /** Called for each exchange that failed without an answer, including replaced ones. */
  readonly onFailed?: (failed: FailedExchange) => void;
}

export interface FailedExchange {
  readonly error: unknown;
  readonly address: string;
  /** True if the whole request was sent, so that the server may have acted on it. */
  readonly sent: boolean;
  /** True if any byte of a reply arrived. */
  readonly answered: boolean;
}

type Answered<Answer> = Pick<Command<never, Answer>, 'name' | 'reply'>;

interface Exchange<Answer> {
  readonly address: Address;
  readonly command: Answered<Answer>;
  readonly parts: readonly Buffer[];
  /** Follows the parts. */
  readonly source: BodySource | undefined;
  readonly hasPayload: boolean;
  readonly repeatable: boolean;
  readonly reply: ReceivedReply;
  readonly call: Call;
  readonly plan: CallPlan;
}

const USUAL: CallPlan = {};

export class Caller {
  readonly pool: Pool;
  readonly #policy: CallerPolicy;
  readonly #isSession: boolean;
  /** Requests started, requests that failed, and requests repeated over a fresh connection. */
  requests = 0;
  failedRequests = 0;
  replacedConnections = 0;

  constructor(policy: CallerPolicy) {
    this.pool = new Pool(policy);
    this.#policy = policy;
    this.#isSession = policy.onLost !== undefined;
  }

  call<Request, Answer>(
    address: Address,
    command: Command<Request, Answer>,
    request: Request,
    call: Call,
    plan = USUAL,
  ): Promise<Answer> {
    const { maxReplyBytes } = plan;
    const reply = new ReceivedReply({ maxBytes: maxReplyBytes });
    return this.receive(address, command, request, reply, call, plan);
  }

  /** As `call`, for a reply that is received in its own way. */
  receive<Request, Answer>(
    address: Address,
    command: Command<Request, Answer>,
    request: Request,
    reply: ReceivedReply,
    call: Call,
    plan = USUAL,
  ): Promise<Answer> {
    const parts = [encodeRequest(command, request, plan.flags)];
    const { repeatable = true } = plan;
    const source = undefined;
    const exchange = {
      address,
      command,
      parts,
      source,
      hasPayload: false,
      repeatable,
      reply,
      call,
      plan,
    };
    return this.#policy.channel?.hasSubscribers ? this.#publish(exchange) : this.#ask(exchange);
  }

  /** Sends a command with the body behind its head. */
  callWithPayload<Request, Answer>(
    address: Address,
    command: PayloadCommand<Request, Answer>,
    request: Request,
    body: Buffer | BodySource,
    call: Call,
    plan = USUAL,
  ): Promise<Answer> {
    const head = encodeRequestHead(command, request);
    const isWhole = Buffer.isBuffer(body);
    const { repeatable = true } = plan;
    const exchange: Exchange<Answer> = {
      address,
      command,
      parts: isWhole ? joinBody(head, body) : [head],
      source: isWhole ? undefined : body,
      hasPayload: true,
      repeatable: repeatable && (isWhole || body.repeatable),
      reply: new ReceivedReply(),
      call,
      plan,
    };
    return this.#policy.channel?.hasSubscribers ? this.#publish(exchange) : this.#ask(exchange);
  }

  /** Over a connection of this caller that is leased already, as the hello of a connection is. */
  async askOver<Request, Answer>(
    connection: Connection,
    command: Command<Request, Answer>,
    request: Request,
    call: Call,
    { flags, stepMs }: Pick<CallPlan, 'flags' | 'stepMs'> = USUAL,
  ): Promise<Answer> {
    const reply = new ReceivedReply();
    const parts = [encodeRequest(command, request, flags)];
    await connection.exchange(parts, reply, call, this.#progressMs(stepMs));
    return answerOf(connection, command, reply, call);
  }

  /** Milliseconds that a server may take without any progress. */
  #progressMs(stepMs = Number.POSITIVE_INFINITY): number {
    const { idleTimeoutMs } = this.#policy;
    if (stepMs >= idleTimeoutMs) return idleTimeoutMs;
    // Rounded to whole seconds if there are many, so that a connection keeps its timer.
    const grainMs = stepMs > 10 * SECOND_MS ? SECOND_MS : 1;
    return Math.max(1, Math.min(idleTimeoutMs, Math.ceil(stepMs / grainMs) * grainMs));
  }

  #publish<Answer>(exchange: Exchange<Answer>): Promise<Answer> {
    const { operation = '', fileId } = exchange.call;
    const message = { address: exchange.address.text, operation, fileId };
    const ask = () => this.#ask(exchange);
    return this.#policy.channel?.tracePromise(ask, message) ?? ask();
  }

  async #ask<Answer>(exchange: Exchange<Answer>): Promise<Answer> {
    const { address, parts, source, call, plan, reply, repeatable } = exchange;
    const { stepMs = Number.POSITIVE_INFINITY } = plan;
    const progressMs = this.#progressMs(stepMs);
    this.requests += 1;
    for (let fresh = false; ; fresh = true) {
      let connection: Connection | undefined;
      let canReplace = false;
      let isAsked = false;
      try {
        connection = fresh ? undefined : this.pool.leaseIdle(address);
        connection ??= await this.pool.lease(address, call, stepMs);
        const isReused = connection.replies > 0 && !this.#isSession;
        canReplace = isReused && !fresh;
        if (isReused && !repeatable) {
          await this.askOver(connection, activeTest, undefined, call, plan);
          canReplace = false;
        }
        isAsked = true;
        await (source
          ? source.sendOver(connection, parts, reply, call, progressMs)
          : connection.exchange(parts, reply, call, progressMs));
        isAsked = false;
        if (exchange.hasPayload) this.#checkSent(connection, exchange);
        return answerOf(connection, exchange.command, reply, call, plan);
      } catch (error) {
        if (isAsked && connection) plan.onFailed?.(failedExchange(connection, error));
        const isStale = canReplace && connection?.unanswered && codeOf(error) === 'connection_lost';
        if (!isStale) {
          if (reply.status !== Status.redirect) this.failedRequests += 1;
          throw error;
        }
        this.replacedConnections += 1;
      } finally {
        if (connection) this.pool.release(connection);
      }
    }
  }

  /**
   * A server that refuses during the body may read the rest of it as requests, so this connection is
   * not reused. The servers of a session do not.
   */
  #checkSent(connection: Connection, { command, reply, call }: Exchange<unknown>): void {
    const isRefused = reply.status !== Status.ok;
    if (isRefused && !this.#isSession) connection.destroy();
    if (isRefused || connection.state !== 'closed') return;
    const details = { address: connection.address.text };
    throw call.error('bad_reply', `${command.name}: answered before its end`, details);
  }
}

/** The decoded answer, or the error that it is. What follows a bad one is uncertain. */
function answerOf<Answer>(
  connection: Connection,
  command: Answered<Answer>,
  reply: ReceivedReply,
  call: Call,
  { onFailed }: CallPlan = USUAL,
): Answer {
  const address = connection.address.text;
  if (reply.status !== Status.ok) {
    // A storage closes the connection right after this status, so it is not reused.
    if (reply.status === Status.invalid) connection.destroy();
    throw call.refused(command.name, reply.status, reply.body, address);
  }
  try {
    return command.reply.decode(reply.body);
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    connection.destroy();
    const error = call.error('bad_reply', `${command.name}: ${cause.message}`, { address, cause });
    onFailed?.({ error, address, sent: true, answered: true });
    throw error;
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
