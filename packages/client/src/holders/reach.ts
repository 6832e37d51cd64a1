import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from '@stevedore/map';
import type { Deployment } from '../deployment/deployment.js';
import { latest } from '../deployment/gateways.js';
import { askAll } from './others.js';
import { type PeerSecret, peerRequests } from './peer-seals.js';

/**
 * Whether gateways of a deployment reach each other, in both directions: the one that is asked tries
 * the URL of the one that asks.
 */

export interface Reach {
  readonly url: string;
  /** Why it cannot be reached. */
  readonly to?: string | undefined;
  /** Why it does not reach the one that asked. */
  readonly back?: string | undefined;
}

/** Below `/peer`. */
const PATH = '/reach';
/** The answer waits for the try in the other direction. */
const LIMITS = { connections: 1, maxRequests: 2, connectTimeoutMs: 2_000, answerTimeoutMs: 2_000 };
const TRY_BACK_MS = 5_000;

/** `ownUrl`: URL of the one that asks; empty: do not try it. */
export async function tryReach(peers: PeerSecret, url: string, ownUrl: string): Promise<Reach> {
  const requests = peerRequests(url, peers, LIMITS, '/peer');
  try {
    const path = ownUrl === '' ? PATH : `${PATH}?back=${encodeURIComponent(ownUrl)}`;
    const answer = await requests.json({ method: 'GET', path, workMs: TRY_BACK_MS });
    const { back } = answer as { readonly back?: string };
    return { url, back };
  } catch (error) {
    return { url, to: (error as Error).message };
  } finally {
    await requests.close();
  }
}

const INTERVAL_MS = 10_000;
/** Gateways to try in one round: all are tried in turn. */
const TRIED_AT_ONCE = 3;

/** Between tries of a gateway that did not answer. */
const SUSPECT_INTERVAL_MS = 2_000;

/**
 * Tries some others now and then, while somebody wants to know, and those that did not answer a
 * request until they do.
 */
export class ReachOfOthers {
  readonly #deployment: Deployment;
  readonly #found = new Map<string, Reach>();
  readonly #suspects = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #trying: Promise<void> | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(deployment: Deployment) {
    this.#deployment = deployment;
  }

  /** What is wrong with the deployment, by the last try of each; begins new tries if it is time. */
  problems(): string[] {
    if (performance.now() - this.#triedAt >= INTERVAL_MS) {
      this.#trying ??= this.#try().finally(() => {
        this.#trying = undefined;
      });
    }
    const map = this.#deployment.isMapAvailable ? [] : ['the map does not answer'];
    return [...map, ...[...this.#found.values()].flatMap(problemsOf)];
  }

  /** Notes that it did not answer: it may be cut off from this server alone. */
  suspect(url: string): void {
    if (this.#suspects.has(url)) return;
    this.#suspects.set(
      url,
      this.#tryUntilReached(url).finally(() => this.#suspects.delete(url)),
    );
  }

  /** True until it answers again. */
  isSuspect(url: string): boolean {
    return this.#suspects.has(url);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#trying, ...this.#suspects.values()]);
  }

  async #tryUntilReached(url: string): Promise<void> {
    const { signal } = this.#closing;
    for (;;) {
      await sleep(SUSPECT_INTERVAL_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      const { to } = await tryReach(this.#deployment, url, '');
      if (to === undefined) return;
    }
  }

  async #try(): Promise<void> {
    const { ownUrl, lastGateways } = this.#deployment;
    this.#triedAt = performance.now();
    if (this.#deployment.secret === undefined) return;
    const now = latest(lastGateways);
    const alive = lastGateways.filter((each) => isAlive(each, now));
    const urls = new Set(alive.flatMap(({ url }) => (url === null || url === ownUrl ? [] : url)));
    for (const url of this.#found.keys()) if (!urls.has(url)) this.#found.delete(url);
    // Those that were tried last come last in the map.
    const known = [...this.#found.keys()];
    const next = [...urls].filter((url) => !this.#found.has(url)).concat(known);
    const toAsk = { urls: new Map(next.slice(0, TRIED_AT_ONCE).map((url) => [url, []])), away: [] };
    await askAll(toAsk, async (url) => {
      const reach = await tryReach(this.#deployment, url, ownUrl);
      this.#found.delete(url);
      this.#found.set(url, reach);
    });
  }
}

function problemsOf({ url, to, back }: Reach): string[] {
  return [
    ...(to === undefined ? [] : [`the gateway at ${url} cannot be reached: ${to}`]),
    ...(back === undefined ? [] : [`the gateway at ${url} does not reach this one: ${back}`]),
  ];
}
