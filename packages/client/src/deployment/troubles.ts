import { MapError } from '@stevedore/map';

/** Errors that concern a server's part in a deployment. */

/** Clocks synchronized by NTP never differ by this much. */
const MAX_CLOCK_DIFFERENCE_MS = 60_000;

export function away(): MapError {
  return new MapError('map_unavailable', 'the map does not answer');
}

export function takenOver(origin: number): MapError {
  return new MapError(
    'origin_taken',
    `origin ${origin} is used at another place: this directory was copied or moved; only one server may use it`,
  );
}

/**
 * The error if this server's clock differs too much from the map's. `own`: this clock before the
 * question and after the answer. Only expiry and signed URLs depend on the clocks of servers.
 */
export function clockTrouble(
  own: { readonly from: number; readonly to: number },
  map: number,
): MapError | undefined {
  const aheadMs = own.from - map;
  const behindMs = map - own.to;
  const differenceMs = Math.max(aheadMs, behindMs);
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return undefined;
  const minutes = `${Math.round(differenceMs / 60_000)} minutes ${aheadMs > 0 ? 'ahead of' : 'behind'}`;
  const effect = aheadMs > 0 ? 'early' : 'late';
  return new MapError(
    'clock_off',
    `the clock of this server is ${minutes} that of the map: files and signed URLs expire so much too ${effect} here; set it right`,
  );
}
