import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { isAnswerProof, PEER_HEADER, type PeerSecret, peerToken } from '@stevedore/client';
import { type Answer, ProblemError, sendContinueIfExpected } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';
import type { Dispatcher, Pool } from 'undici';

/**
 * Forwards a request unchanged to the gateway responsible for it, which checks API keys and limits.
 * One hop: a request with the token of a gateway is answered or refused, never forwarded again. For
 * requests with short answers.
 */

const MAX_TARGETS = 64;
const MAX_CONNECTIONS = 64;
const MAX_ANSWER_BYTES = 64 * 1024;
const CONNECT_TIMEOUT_MS = 2_000;
/** Timeout after the last byte of the request. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Headers of this connection alone (RFC 9110, section 7.6.1), or set anew. */
const NOT_HANDED_ON = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  ...['upgrade', 'host', 'expect', 'content-length', 'date', PEER_HEADER],
]);

export class Forwarder {
  readonly #targets = new LRUCache<string, Pool>({
    max: MAX_TARGETS,
    dispose: (pool) => void pool.close().catch(() => undefined),
  });

  /** Rejects with `storage_unavailable`: it can be retried. */
  async forward(
    request: IncomingMessage,
    response: ServerResponse,
    to: string,
    peers: PeerSecret,
  ): Promise<Answer> {
    const { method = 'GET', url = '/', headers } = request;
    const length = headers['content-length'];
    const hasBody = headers['transfer-encoding'] !== undefined || Number(length ?? 0) > 0;
    if (hasBody) sendContinueIfExpected(request, response);
    try {
      const pool = await this.#pool(to);
      const token = peerToken(peers, method, url);
      const answer = await pool.request({
        method: method as Dispatcher.HttpMethod,
        path: url,
        headers: {
          ...handedOn(headers),
          ...(length === undefined ? {} : { 'content-length': length }),
          [PEER_HEADER]: token,
        },
        body: hasBody ? bodyOf(request) : null,
      });
      const content = await shortBody(answer.body);
      if (!isAnswerProof(answer.headers[PEER_HEADER], peers, token, answer.statusCode)) {
        throw new Error(`status ${answer.statusCode}, without the proof of a gateway`);
      }
      return {
        status: answer.statusCode,
        headers: handedOn(answer.headers),
        ...(content.length === 0 ? {} : { content }),
      };
    } catch (error) {
      const message = 'The server that has this upload does not answer.';
      throw new ProblemError('storage_unavailable', message, error);
    }
  }

  async close(): Promise<void> {
    const pools = [...this.#targets.values()];
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  async #pool(to: string): Promise<Pool> {
    const known = this.#targets.get(to);
    if (known) return known;
    // Loaded when first needed, because importing undici replaces the dispatcher of Node's own
    // `fetch`.
    const { Pool: NewPool } = await import('undici');
    const other = this.#targets.get(to);
    if (other) return other;
    const pool = new NewPool(new URL(to).origin, {
      connections: MAX_CONNECTIONS,
      headersTimeout: ANSWER_TIMEOUT_MS,
      connect: { timeout: CONNECT_TIMEOUT_MS },
    });
    this.#targets.set(to, pool);
    return pool;
  }
}

/** Separate from the request, which must still be answered if its body's consumer fails. */
function bodyOf(request: IncomingMessage): Readable {
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
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !NOT_HANDED_ON.has(name)) kept[name] = String(value);
  }
  return kept;
}

async function shortBody(body: Dispatcher.ResponseData['body']): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
