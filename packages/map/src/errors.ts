import { type Gateway, IN_USE_MS } from './map.js';

/** Why a call to the map failed. */
export type MapErrorCode =
  /** It does not answer, or its disk is full. The call can be retried. */
  | 'map_unavailable'
  /** A later version created its schema. */
  | 'map_schema'
  /** The directory belongs to another map. */
  | 'map_mismatch'
  /** Another directory issues keys of the same origin, or this one is in use elsewhere. */
  | 'origin_taken'
  /** Another gateway has taken over the files of this directory. */
  | 'origin_adopted'
  /** Another gateway that is alive has the same URL for others. */
  | 'url_taken'
  /** The gateway is alive, or its files belong to another one already. */
  | 'adoption_refused'
  /** A gateway's files are being adopted, or given back. News: no call fails. */
  | 'adoption'
  /** The server's clock differs from the map's by more than a minute. A warning: no call fails. */
  | 'clock_off'
  /** The URL names no map. */
  | 'map_url';

export class MapError extends Error {
  override readonly name = 'MapError';
  readonly code: MapErrorCode;
  /** True if the same request can succeed later, or nothing has failed. */
  readonly retryable: boolean;

  constructor(code: MapErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = code === 'map_unavailable' || code === 'adoption';
  }
}

/** The error of a database that failed. `isTwice`: another row has the value of a unique column. */
export function refusal(error: unknown, isTwice: boolean): MapError {
  if (error instanceof MapError) return error;
  const code = isTwice ? 'origin_taken' : 'map_unavailable';
  const { message } = error as Error;
  return new MapError(code, `the map does not answer, or refuses: ${message}`, error);
}

/** The code of a database's error; empty if it has none. */
export function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code ?? '');
}

export function mapMismatch(): MapError {
  return new MapError(
    'map_mismatch',
    'this is not the map that the directory belongs to: correct its URL or, if its database was replaced, run `stevedore map fill` once the gateway is stopped',
  );
}

export function inUse(place: string): MapError {
  return new MapError(
    'origin_taken',
    `this directory is in use at ${shown(place)}: stop the server there, and wait half a minute if it was killed`,
  );
}

export function originAdopted(origin: number, by: number): MapError {
  return new MapError(
    'origin_adopted',
    `the files of origin ${origin} were adopted by origin ${by}: it joins again with a new origin when a gateway starts with this directory, up to 30 days later; then start with a new one`,
  );
}

/** Why the files of a gateway cannot be given to another one; undefined if they can. */
export function adoptionObstacle(
  gateways: readonly Gateway[],
  origin: number,
  by: number,
  now: number,
): string | undefined {
  const known = gateways.find((each) => each.origin === origin);
  const adopter = gateways.find((each) => each.origin === by);
  if (!known) return `the map knows no gateway of origin ${origin}`;
  if (!adopter) return `the map knows no gateway of origin ${by}`;
  if (origin === by) return `origin ${origin} cannot adopt itself`;
  if (adopter.adoption) return `origin ${by} was adopted itself, by origin ${adopter.adoption.by}`;
  if (known.adoption && known.adoption.by !== by) {
    return `origin ${origin} was adopted by origin ${known.adoption.by}; adopt that one if it will not return either`;
  }
  const holder = gateways.find((each) => each.origin === known.holder);
  if (!known.adoption && holder && holder.origin !== by && !holder.adoption) {
    return `origin ${holder.origin} (${holder.url ?? shown(holder.place)}) holds the copies of its staged files: let that one adopt it, or adopt that one first if it will not return either`;
  }
  const silentMs = now - known.seenAt;
  if (!known.adoption && known.place !== '' && silentMs < IN_USE_MS) {
    return `origin ${origin} (${shown(known.place)}) was alive ${Math.max(0, Math.round(silentMs / 1000))} s ago: stop it, and wait half a minute if it was killed`;
  }
  return undefined;
}

/** Host and path, without the suffix that identifies the directory. */
function shown(place: string): string {
  return place.replace(/#[^#]*$/, '');
}
