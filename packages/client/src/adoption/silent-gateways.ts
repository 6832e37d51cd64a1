import type { Gateway } from '@stevedore/map';
import { isBeside } from '../deployment/gateways.js';

/**
 * Which gateway this one adopts by itself: one that has been silent for long, while this one was in
 * touch with the map all the time, so that an outage of the map makes nobody adopt. All that may
 * adopt it try; the map lets one of them.
 */
export interface Adopter {
  readonly origin: number;
  /** Silence after which a gateway is adopted; 0: never. */
  readonly afterMs: number;
  /** For how long no heartbeat of this gateway has come late, by the map's clock. */
  readonly steadyMs: number;
}

/** Gateways that `own` may adopt now, the longest silent one first. One at a time: none meanwhile. */
export function adoptable(gateways: readonly Gateway[], own: Adopter, now: number): Gateway[] {
  const { origin, afterMs, steadyMs } = own;
  const find = (one: number | undefined) => gateways.find((each) => each.origin === one);
  const self = find(origin);
  const isBusy = gateways.some(({ adoption }) => adoption?.by === origin && !adoption.isDone);
  if (afterMs === 0 || steadyMs < afterMs || !self?.url || self.adoption || isBusy) return [];
  // One that comes back gives it what it has left.
  const isFree = (each: Gateway): boolean => {
    const holder = find(each.holder);
    return !holder || holder.adoption !== undefined || holder.origin === origin;
  };
  return gateways
    .filter((each) => each.origin !== origin && !each.adoption && now - each.seenAt >= afterMs)
    .filter((each) => isFree(each) && mayHaveFiles(each) && !isBeside(each, self))
    .sort((one, other) => one.seenAt - other.seenAt);
}

/** One that stopped and left nothing on its disk needs nobody: the map has the rest. */
function mayHaveFiles({ place, staged }: Gateway): boolean {
  return place !== '' || staged.files > 0;
}
