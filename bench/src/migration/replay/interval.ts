import type { Observation } from '@stevedore/balance';

/** What a replay tells of one metadata server in one interval. */
export interface ReplayInterval {
  readonly endMs: number;
  readonly server: number;
  readonly metadata: Observation & { readonly forecastBytes: number | undefined };
  readonly smallFile: Observation & { readonly forecastBytes: number | undefined };
  readonly thresholdBytes: number;
  readonly loadToMoveBytes: number;
  readonly movesToServer: number;
  readonly movesToIoServers: number;
}
