/** Why the map did not do what it was asked. */
export type MapErrorCode =
  /** It does not answer, or its disk is full. What was asked may be asked again. */
  | 'map_unavailable'
  /** Its schema was made by a later version. */
  | 'map_schema'
  /** Another directory gives out keys of the same origin, or this one is in use elsewhere. */
  | 'origin_taken'
  /** The URL names no map. */
  | 'map_url';

export class MapError extends Error {
  override readonly name = 'MapError';
  readonly code: MapErrorCode;
  /** True if the same request can succeed later. */
  readonly retryable: boolean;

  constructor(code: MapErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = code === 'map_unavailable';
  }
}

/** Throws where the map knows the directory by another origin than its keys have. */
export function checkOrigin({ origin }: { readonly origin: number | undefined }, known: number) {
  if (origin === undefined || origin === known) return;
  throw new MapError(
    'origin_taken',
    `the map knows this directory as origin ${known}, its own keys say ${origin}: was it copied?`,
  );
}

export function originTaken(origin: number): MapError {
  return new MapError(
    'origin_taken',
    `another directory gives out keys of origin ${origin}: one of the two is a copy, or was made without the map; start with a new directory`,
  );
}

export function inUse(place: string): MapError {
  return new MapError(
    'origin_taken',
    `this directory is in use at ${place}: stop the server there, and wait half a minute if it was killed`,
  );
}
