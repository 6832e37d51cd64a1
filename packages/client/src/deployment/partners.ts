import { readFile, rename, writeFile } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { abortable } from '@stevedore/async';
import type { Gateway } from '@stevedore/map';
import { type Partner, StoreError } from '@stevedore/staging';
import type { Deployment } from './deployment.js';
import { PEER_HEADER, peerToken } from './gateway-files.js';

/**
 * Chooses the partner, the gateway that keeps the second copy of staged files. It stays the same
 * while it is alive. The directory records it together with earlier partners, which are asked to
 * drop their copies once the current one has everything.
 */

export interface PartnersParts {
  readonly directory: string;
  /** The partner that the options name; empty: choose one. */
  readonly url: string;
  /** URL at which other gateways reach this server; empty if they cannot. */
  readonly ownUrl: string;
  /** Resolves once this server is part of the deployment. */
  readonly deployment: Promise<Deployment>;
}

const FILE = 'partners.json';
/** A gateway whose last heartbeat in the map is older than this is not alive. */
const ALIVE_MS = 30_000;
const CONNECT_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 10_000;
/** Consecutive failures after which another gateway is chosen. */
const MAX_FAILURES = 10;

interface Noted {
  readonly current: string | undefined;
  readonly former: readonly string[];
}

/**
 * Chooses `last` as long as it is alive, else the next live gateway after this one in the order of
 * URLs, so that copies are spread. Gateways with the same URL are one machine.
 */
export function choosePartner(
  gateways: readonly Gateway[],
  own: { readonly origin: number; readonly url: string },
  last?: string,
): string | undefined {
  const alive = gateways.filter(isAlive(gateways));
  const urls = new Set(alive.flatMap(({ url }) => (url === null ? [] : [url])));
  urls.delete(own.url);
  const others = [...urls].sort();
  if (last !== undefined && urls.has(last)) return last;
  if (own.url === '') return others[own.origin % Math.max(1, others.length)];
  return others.find((url) => url > own.url) ?? others[0];
}

/** Tests whether one of them has been heard of lately, by the clock of the map. */
export function isAlive(gateways: readonly Gateway[]): (gateway: Gateway) => boolean {
  const newest = gateways.reduce((latest, { seenAt }) => Math.max(latest, seenAt), 0);
  return ({ seenAt }) => seenAt >= newest - ALIVE_MS;
}

export class Partners {
  readonly #parts: PartnersParts;
  #noted: Noted | undefined;
  #failures = 0;

  constructor(parts: PartnersParts) {
    this.#parts = parts;
  }

  /** Chooses a partner if necessary, and connects to it. */
  async connect(signal: AbortSignal): Promise<Partner> {
    const deployment = await abortable(this.#parts.deployment, signal);
    const noted = await this.#read();
    const url = await this.#choose(deployment, noted);
    if (url !== noted.current) {
      const former = [...noted.former, ...(noted.current === undefined ? [] : [noted.current])];
      await this.#note({ current: url, former: former.filter((each) => each !== url) });
    }
    try {
      const stream = await openTunnel(url, deployment, signal);
      this.#failures = 0;
      return { name: url, stream, onUp: () => void this.#dropFormer(deployment) };
    } catch (error) {
      this.#failures += 1;
      throw new Error(`${url}: ${(error as Error).message}`, { cause: error });
    }
  }

  async #choose(deployment: Deployment, { current }: Noted): Promise<string> {
    const { url, ownUrl } = this.#parts;
    if (url !== '') return url;
    const gateways = await deployment.gateways();
    const isTired = this.#failures >= MAX_FAILURES;
    const others = isTired ? gateways.filter((each) => each.url !== current) : gateways;
    const own = { origin: deployment.origin, url: ownUrl };
    const chosen = choosePartner(others, own, isTired ? undefined : current);
    if (isTired) this.#failures = 0;
    if (chosen !== undefined) return chosen;
    throw new StoreError(
      'partner_away',
      'no other gateway of the deployment is alive and has a peerUrl',
    );
  }

  /** Asks former partners to drop their copies, now that the current one has everything. */
  async #dropFormer(deployment: Deployment): Promise<void> {
    for (const url of (await this.#read()).former) {
      try {
        // It may be the partner again.
        if (!(await this.#read()).former.includes(url)) continue;
        await dropCopy(url, deployment);
        const { current, former } = await this.#read();
        await this.#note({ current, former: former.filter((each) => each !== url) });
      } catch {
        // It is down; the next connection to the partner retries.
      }
    }
  }

  async #read(): Promise<Noted> {
    if (this.#noted) return this.#noted;
    const text = await readFile(join(this.#parts.directory, FILE), 'utf8').catch(() => '');
    this.#noted ??= parseNoted(text);
    return this.#noted;
  }

  async #note(noted: Noted): Promise<void> {
    this.#noted = noted;
    const path = join(this.#parts.directory, FILE);
    await writeFile(`${path}.new`, `${JSON.stringify(noted)}\n`, { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
  }
}

function parseNoted(text: string): Noted {
  try {
    const { current, former } = JSON.parse(text) as Partial<Record<keyof Noted, unknown>>;
    const isText = (value: unknown): value is string => typeof value === 'string';
    return {
      current: isText(current) ? current : undefined,
      former: Array.isArray(former) ? former.filter(isText) : [],
    };
  } catch {
    return { current: undefined, former: [] };
  }
}

/** Target of the CONNECT request to a partner; the peer token is for this name. */
export function tunnelName(origin: number): string {
  return `copies-${origin}:1`;
}

function openTunnel(url: string, deployment: Deployment, signal: AbortSignal): Promise<Duplex> {
  const path = tunnelName(deployment.origin);
  return new Promise((resolve, reject) => {
    const request = begin(url, 'CONNECT', path, deployment);
    const timer = setTimeout(() => {
      request.destroy(new Error(`no answer within ${CONNECT_TIMEOUT_MS} ms`));
    }, CONNECT_TIMEOUT_MS);
    const abort = (): void => void request.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    };
    request.once('error', (error) => {
      end();
      reject(error);
    });
    request.once('connect', (response: IncomingMessage, socket, head: Buffer) => {
      end();
      if (response.statusCode !== 200) {
        socket.destroy();
        reject(new Error(`status ${response.statusCode}`));
        return;
      }
      socket.on('error', () => undefined);
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    request.end();
  });
}

function dropCopy(url: string, deployment: Deployment): Promise<void> {
  const path = `/peer/copies/${deployment.origin}`;
  return new Promise((resolve, reject) => {
    const request = begin(url, 'DELETE', path, deployment);
    request.setTimeout(CONNECT_TIMEOUT_MS, () => request.destroy(new Error('no answer')));
    request.once('error', reject);
    request.once('response', (response: IncomingMessage) => {
      response.resume();
      if (response.statusCode === 204) resolve();
      else reject(new Error(`status ${response.statusCode}`));
    });
    request.end();
  });
}

function begin(url: string, method: string, path: string, { secret }: Deployment) {
  if (secret === undefined) throw new Error('the map has not answered yet');
  const { protocol, hostname, port, pathname } = new URL(url);
  const isTls = protocol === 'https:';
  return (isTls ? httpsRequest : httpRequest)({
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port || (isTls ? 443 : 80),
    method,
    path: method === 'CONNECT' ? path : pathname.replace(/\/$/, '') + path,
    headers: { [PEER_HEADER]: peerToken(secret, method, path) },
    agent: false,
  });
}
