import { setTimeout as sleep } from 'node:timers/promises';
import {
  type DeploymentMap,
  type Gateway,
  isAlive,
  type LostFile,
  MapError,
  openMap,
} from '@stevedore/map';
import { isBeside } from '../deployment/gateways.js';

/**
 * Gives the files of a gateway that will not return to another one, the adopter. This only writes
 * to the map; the adopter reads it there and does the work, now or at its next start.
 */

export interface AdoptionRequest {
  readonly map: string;
  readonly origin: number;
  /**
   * Origin of the adopter. Default: who holds its copies, else the only other gateway that is alive;
   * `'any'`: else one of those.
   */
  readonly by?: number | 'any' | undefined;
  /** Called as trunks are adopted. */
  readonly onProgress?: (done: number, all: number) => void;
  /** Called when the adopter cannot go on, with the reason; it tries again. */
  readonly onTrouble?: (trouble: string) => void;
  /** Called once the map has the request; from then on, nothing depends on this process. */
  readonly onAsked?: (from: Gateway, by: Gateway, isAlive: boolean) => void;
  readonly signal?: AbortSignal;
}

export interface AdoptionReport {
  readonly origin: number;
  readonly by: number;
  /** Trunks and large files that the gateway had in FastDFS. */
  readonly trunks: number;
  /** Those whose files the adopter has now; the rest are damaged or gone. */
  readonly adopted: number;
  /** Upper bound of the loss: files that only its disk had at its last heartbeat. */
  readonly lost: { readonly files: number; readonly bytes: number };
  /** Files that are lost for certain, with their names: at most 1,000 of each origin. */
  readonly lostFiles: readonly LostFile[];
  /** The adopter held copies of its staged files, so that less is lost. */
  readonly hadCopies: boolean;
  readonly seenAt: Date;
}

const LOOK_MS = 500;

/** Resolves once the adopter has taken over. Rejects with `MapError`. */
export async function adoptOrigin(request: AdoptionRequest): Promise<AdoptionReport> {
  const map = await openMap(request.map);
  try {
    await map.prepare();
    return await adopted(map, request);
  } finally {
    await map.close();
  }
}

async function adopted(map: DeploymentMap, request: AdoptionRequest): Promise<AdoptionReport> {
  const { origin, signal, onAsked, onProgress, onTrouble } = request;
  const [before, now] = [await map.gateways(), await map.now()];
  const by = typeof request.by === 'number' ? request.by : chosen(before, request, now);
  await map.adopt(origin, by);
  const find = (list: readonly Gateway[], one: number) => list.find((each) => each.origin === one)!;
  onAsked?.(find(before, origin), find(before, by), isAlive(find(before, by), now));
  // The origins that it had adopted itself go with it.
  const origins = before
    .filter((each) => each.origin === origin || each.adoption?.by === origin)
    .map((each) => each.origin);
  let told: string | undefined;
  for (;;) {
    const gateways = await map.gateways();
    const adoptions = origins.map((each) => find(gateways, each).adoption!);
    if (adoptions.some((adoption) => adoption.by !== by)) {
      throw refused(`origin ${by} was adopted itself meanwhile`);
    }
    const trunks = adoptions.reduce((sum, each) => sum + each.trunks, 0);
    const done = adoptions.reduce((sum, each) => sum + each.adopted, 0);
    onProgress?.(done, trunks);
    const trouble = adoptions.find((each) => each.trouble !== undefined)?.trouble;
    if (trouble !== undefined && trouble !== told) onTrouble?.(trouble);
    told = trouble;
    if (adoptions.every(({ isDone }) => isDone)) {
      const { staged, seenAt, holder } = find(gateways, origin);
      const lostFiles: LostFile[] = [];
      for (const each of origins) lostFiles.push(...(await map.lostWith(each)));
      return {
        lostFiles,
        ...{ origin, by, trunks, adopted: done, lost: staged, hadCopies: holder === by },
        seenAt: new Date(seenAt),
      };
    }
    await sleep(LOOK_MS, undefined, { signal });
  }
}

function chosen(
  gateways: readonly Gateway[],
  { origin, by }: AdoptionRequest,
  now: number,
): number {
  const known = gateways.find((each) => each.origin === origin);
  if (known?.adoption) return known.adoption.by;
  const holder = gateways.find((each) => each.origin === known?.holder);
  if (holder && !holder.adoption) return holder.origin;
  // A worker of the same gateway seems to be alive for as long as this one does.
  const others = gateways.filter((each) => each.origin !== origin && !isBeside(each, known));
  const alive = others.filter((each) => isAlive(each, now));
  if (alive.length === 1 || (by === 'any' && alive.length > 0)) return alive[0]!.origin;
  const named = alive.map((each) => `${each.origin} (${each.url ?? each.place})`).join(', ');
  throw refused(
    alive.length === 0
      ? 'no other gateway is alive: start one, or name one that will start'
      : `several gateways could adopt it, name one: ${named}`,
  );
}

function refused(why: string): MapError {
  return new MapError('adoption_refused', why);
}
