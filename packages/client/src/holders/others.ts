import { type Gateway, isAlive, MapError } from '@stevedore/map';
import { StoreError } from '@stevedore/staging';
import { latest } from '../deployment/gateways.js';

/** Asks every other server of a deployment something, and says which could not be asked. */

export interface Others {
  /** True for an origin whose files this server and its workers have. */
  readonly isHere: (origin: number) => boolean;
  /** URL at which others reach this server; empty if they cannot. */
  readonly ownUrl: string;
  /** Rejects with `MapError`. */
  readonly gateways: () => Promise<readonly Gateway[]>;
}

/** By URL the origins that it serves, and the origins that cannot be asked. */
export interface ToAsk {
  readonly urls: ReadonlyMap<string, readonly number[]>;
  readonly away: readonly number[];
}

export interface Answers<Answer> {
  readonly answers: readonly Answer[];
  /** Origins, in order; absent if all have answered. */
  readonly away?: readonly number[];
}

const ASKED_AT_ONCE = 32;

/** A server of which `ask` rejects is away. */
export async function askAll<Answer>(
  { urls, away }: ToAsk,
  ask: (url: string) => Promise<Answer>,
  atOnce = ASKED_AT_ONCE,
): Promise<Answers<Answer>> {
  const answers: Answer[] = [];
  const missing = [...away];
  const queue = urls.entries();
  const worker = async (): Promise<void> => {
    for (const [url, origins] of queue) {
      try {
        answers.push(await ask(url));
      } catch {
        missing.push(...origins);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, urls.size) }, worker));
  return { answers, ...(missing.length === 0 ? {} : { away: missing.sort((a, b) => a - b) }) };
}

async function listed({ gateways }: Others): Promise<readonly Gateway[]> {
  try {
    return await gateways();
  } catch (error) {
    if (!(error instanceof MapError)) throw error;
    const message = `the map does not say which servers there are: ${error.message}`;
    throw new StoreError('storage_unavailable', message, { cause: error });
  }
}

/** Rejects with `storage_unavailable` if the map has never answered. */
export async function othersToAsk(others: Others): Promise<ToAsk> {
  const { isHere, ownUrl } = others;
  const gateways = await listed(others);
  const urls = new Map<string, number[]>();
  const away: number[] = [];
  const now = latest(gateways);
  for (const gateway of gateways) {
    const { origin, url, adoption } = gateway;
    // The server that has adopted its files answers for them.
    if (isHere(origin) || adoption?.isDone) continue;
    if (adoption || url === null || url === ownUrl || !isAlive(gateway, now)) away.push(origin);
    else urls.set(url, [...(urls.get(url) ?? []), origin]);
  }
  return { urls, away };
}
