/** Why the map did not do what it was asked. */
export type MapErrorCode =
  /** It does not answer, or its disk is full. What was asked may be asked again. */
  | 'map_unavailable'
  /** Its schema was made by a later version. */
  | 'map_schema'
  /** Another directory gives out keys of the same origin. */
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
