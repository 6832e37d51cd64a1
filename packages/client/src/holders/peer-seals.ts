import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { type RequestLimits, Requests } from '../connect/requests.js';

/**
 * How two gateways of a deployment know each other. A request carries a token for its method and
 * path, good for a minute around its time by the map's clock. An answer carries a proof, made from
 * that token: without it, the answer may be another server's, and says nothing. Both are sealed with
 * the secret that the gateways share. Neither covers a body, so the network between gateways must
 * be private.
 */

export interface PeerSecret {
  /** Undefined until the map has answered once. */
  readonly secret: string | undefined;
  /** Unix milliseconds by the map's clock: those of servers may differ. */
  mapNow(): number;
}

/** Header for the token of a request and the proof of its answer. */
export const PEER_HEADER = 'stevedore-peer';
/** Digest of the facts in an answer; its proof covers it. */
export const PEER_FILE_HEADER = 'stevedore-file';

const TOKEN_MS = 60_000;

export function peerToken(peers: PeerSecret, method: string, path: string): string {
  const head = `${Math.round(peers.mapNow())}.${randomBytes(12).toString('base64url')}`;
  return `${head}.${sealed(peers, `ask ${head} ${method} ${path}`)}`;
}

export function isPeerToken(
  token: unknown,
  peers: PeerSecret,
  method: string,
  path: string,
): token is string {
  const [time = '', random = '', seal] = String(token).split('.', 3);
  const isFresh = Math.abs(Number(time) - peers.mapNow()) <= TOKEN_MS;
  return isFresh && isSame(seal, sealed(peers, `ask ${time}.${random} ${method} ${path}`));
}

/** Proves that a gateway of the deployment answered the request with that token so. */
export function answerProof(
  peers: PeerSecret,
  token: string,
  status: number,
  facts: unknown = '',
): string {
  return sealed(peers, `answer ${token} ${status} ${facts}`);
}

export function isAnswerProof(
  proof: unknown,
  ...answer: Parameters<typeof answerProof>
): proof is string {
  return isSame(proof, answerProof(...answer));
}

/** Requests with tokens to a gateway, whose answers must have proofs. `below`: prefix of all paths. */
export function peerRequests(
  url: string,
  peers: PeerSecret,
  limits: RequestLimits,
  below = '',
): Requests {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/$/, '');
  return new Requests({
    ...limits,
    origin,
    base: base + below,
    retryTimeMs: 0,
    identity: {
      headersOf: (method, path) => ({
        [PEER_HEADER]: peerToken(peers, method, path.slice(base.length)),
      }),
      check: (sent, { statusCode, headers }) => {
        const token = String(sent[PEER_HEADER]);
        const facts = headers[PEER_FILE_HEADER];
        // Without it, this is the answer of a proxy, or of another server that has this address now.
        if (isAnswerProof(headers[PEER_HEADER], peers, token, statusCode, facts)) return;
        throw new Error(`status ${statusCode}, without the proof of a gateway`);
      },
    },
  });
}

function sealed({ secret }: PeerSecret, text: string): string {
  if (secret === undefined) throw new Error('the map has not answered yet');
  return createHmac('sha256', secret).update(text).digest('base64url');
}

function isSame(given: unknown, expected: string): boolean {
  const [one, other] = [Buffer.from(String(given)), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
