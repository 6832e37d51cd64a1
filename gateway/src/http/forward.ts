import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import {
  PEER_HEADER,
  type PeerSecret,
  peerRequests,
  type Requests,
  readAll,
  throughRestart,
} from '@stevedore/client/internal';
import { type Answer, ProblemError, sendContinueIfExpected } from '@stevedore/middleware/core';

/**
 * Forwards a request unchanged to the gateway responsible for it, which checks API keys and limits.
 * One hop: a request with the token of a gateway is answered or refused, never forwarded again. For
 * requests with short answers.
 */

const MAX_ANSWER_BYTES = 64 * 1024;
const LIMITS = {
  connections: 64,
  maxRequests: 4096,
  connectTimeoutMs: 2_000,
  /** After the last byte of the request. */
  answerTimeoutMs: 60_000,
};

/** Headers of this connection alone (RFC 9110, section 7.6.1), or set anew. */
const NOT_HANDED_ON = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  ...['upgrade', 'host', 'expect', 'content-length', 'date', PEER_HEADER],
]);

export class Forwarder {
  readonly #targets = new Map<string, Requests>();

  /**
   * Waits for a gateway that restarts, as `mayReturn` says, as long as it has nothing of the body.
   * Rejects with `storage_unavailable`: it can be retried.
   */
  async forward(
    request: IncomingMessage,
    response: ServerResponse,
    to: string,
    peers: PeerSecret,
    mayReturn: () => boolean,
  ): Promise<Answer> {
    const { method = 'GET', url = '/', headers } = request;
    const length = headers['content-length'];
    const hasBody = headers['transfer-encoding'] !== undefined || Number(length ?? 0) > 0;
    if (hasBody) sendContinueIfExpected(request, response);
    let isBegun = false;
    const body = async function* (): AsyncGenerator<Uint8Array> {
      isBegun = true;
      yield* bodyOf(request);
    };
    const requests = this.#targets.get(to) ?? peerRequests(new URL(to).origin, peers, LIMITS);
    this.#targets.set(to, requests);
    const attempt = async (): Promise<Answer> => {
      try {
        const answer = await requests.exchange(
          {
            method: method as 'POST',
            path: url,
            headers: {
              ...handedOn(headers),
              ...(length === undefined ? {} : { 'content-length': length }),
            },
            ...(hasBody ? { body: body() } : {}),
          },
          undefined,
        );
        const content = await readAll(answer.body, MAX_ANSWER_BYTES);
        return {
          status: answer.statusCode,
          headers: handedOn(answer.headers),
          ...(content.length === 0 ? {} : { content }),
        };
      } catch (error) {
        throw requests.failure(error);
      }
    };
    const mayRepeat = (): boolean => !isBegun && !request.socket.destroyed && mayReturn();
    try {
      return await throughRestart(attempt, mayRepeat);
    } catch (error) {
      const message = 'The server that has this upload does not answer.';
      throw new ProblemError('storage_unavailable', message, error);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#targets.values()].map((each) => each.close()));
  }
}

/** Separate from the request, which must still be answered if its body's consumer fails. */
function bodyOf(request: IncomingMessage): AsyncIterable<Uint8Array> {
  const body = new PassThrough();
  // The reader gets the error too; without a listener it would end the process.
  body.on('error', () => undefined);
  request.once('error', (error) => body.destroy(error));
  request.once('close', () => {
    if (!request.readableEnded) body.destroy(new Error('the client closed the connection'));
  });
  return request.pipe(body);
}

function handedOn(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string> {
  const kept: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !NOT_HANDED_ON.has(name)) kept[name] = String(value);
  }
  return kept;
}
