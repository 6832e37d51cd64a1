import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { abortable } from '@stevedore/async';
import { type Gateway, isAlive } from '@stevedore/map';
import { type Partner, StoreError } from '@stevedore/staging';
import { isAnswerProof, PEER_HEADER, peerToken } from '../holders/peer-seals.js';
import type { Deployment } from './deployment.js';
import { latest } from './gateways.js';

/**
 * Chooses the partner, the gateway that keeps the second copy of staged files. It stays the same
 * while it is alive. Another one is recorded in the map before a file is acknowledged with its copy;
 * the former one sees that there, and drops what it holds.
 */

export interface PartnersParts {
  /** The partner that the options name; empty: choose one. */
  readonly url: string;
  /** URL at which other gateways reach this server; empty if they cannot. */
  readonly ownUrl: string;
  /** Resolves once this server is part of the deployment. */
  readonly deployment: Promise<Deployment>;
}

const CONNECT_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 10_000;
/** Consecutive failures after which another gateway is chosen. */
const MAX_FAILURES = 10;

/**
 * Chooses `last` as long as it is alive, else the next live gateway after this one in the order of
 * URLs, so that copies are spread. Gateways with the same URL are one machine.
 */
function choosePartner(
  gateways: readonly Gateway[],
  own: { readonly origin: number; readonly url: string },
  last?: string,
): string | undefined {
  const now = latest(gateways);
  const alive = gateways.filter((each) => isAlive(each, now));
  const urls = new Set(alive.flatMap(({ url }) => (url === null ? [] : [url])));
  urls.delete(own.url);
  const others = [...urls].sort();
  if (last !== undefined && urls.has(last)) return last;
  if (own.url === '') return others[own.origin % Math.max(1, others.length)];
  return others.find((url) => url > own.url) ?? others[0];
}

export class Partners {
  readonly #parts: PartnersParts;
  #failures = 0;

  constructor(parts: PartnersParts) {
    this.#parts = parts;
  }

  async connect(signal: AbortSignal): Promise<Partner> {
    const deployment = await abortable(this.#parts.deployment, signal);
    const url = await this.#choose(deployment);
    try {
      const stream = await openTunnel(url, deployment, signal);
      this.#failures = 0;
      return {
        ...{ name: url, stream, record: (holder) => deployment.recordHolder(holder) },
        onLeaving: () => {
          this.#failures = MAX_FAILURES;
        },
      };
    } catch (error) {
      this.#failures += 1;
      throw new Error(`${url}: ${(error as Error).message}`, { cause: error });
    }
  }

  async #choose(deployment: Deployment): Promise<string> {
    const { url, ownUrl } = this.#parts;
    if (url !== '') return url;
    const gateways = await deployment.gatewaysLately();
    const { origin } = deployment;
    const holder = gateways.find((each) => each.origin === origin)?.holder;
    const last = gateways.find((each) => each.origin === holder)?.url ?? undefined;
    const isTired = this.#failures >= MAX_FAILURES;
    const others = isTired ? gateways.filter((each) => each.url !== last) : gateways;
    const chosen = choosePartner(others, { origin, url: ownUrl }, isTired ? undefined : last);
    if (isTired) this.#failures = 0;
    if (chosen !== undefined) return chosen;
    throw new StoreError(
      'partner_away',
      'no other gateway of the deployment is alive and has a peerUrl',
    );
  }
}

/** Target of the CONNECT request to a partner; the peer token is for this name. */
export function tunnelName(origin: number): string {
  return `copies-${origin}:1`;
}

async function openTunnel(
  url: string,
  deployment: Deployment,
  signal: AbortSignal,
): Promise<Duplex> {
  const path = tunnelName(deployment.origin);
  const token = peerToken(deployment, 'CONNECT', path);
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === 'https:';
  const late = AbortSignal.timeout(CONNECT_TIMEOUT_MS);
  const request = (isTls ? httpsRequest : httpRequest)({
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port || (isTls ? 443 : 80),
    method: 'CONNECT',
    path,
    headers: { [PEER_HEADER]: token },
    agent: false,
    signal: AbortSignal.any([signal, late]),
  });
  request.end();
  const connected = once(request, 'connect').catch((error: Error) => {
    throw late.aborted ? new Error(`no answer within ${CONNECT_TIMEOUT_MS} ms`) : error;
  });
  const [response, socket, head] = (await connected) as [IncomingMessage, Socket, Buffer];
  socket.on('error', () => undefined);
  const { statusCode = 0, headers } = response;
  const isProven = isAnswerProof(headers[PEER_HEADER], deployment, token, statusCode);
  if (statusCode !== 200 || !isProven) {
    socket.destroy();
    throw new Error(`status ${statusCode}${isProven ? '' : ', without the proof of a gateway'}`);
  }
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  if (head.length > 0) socket.unshift(head);
  return socket;
}
