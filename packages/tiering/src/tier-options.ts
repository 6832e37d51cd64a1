import { type Parameters, parameters } from '@stevedore/balance';
import { OptionError } from '@stevedore/options';
import { isGroupName } from '@stevedore/protocol';
import { tierFlags } from './flags.js';

/** The metadata tier of a storage, and what moves files out of it and back. */
export interface TierOptions {
  /**
   * Small files become rows of the metadata tier. Default false: every file is a file;
   * rows that are there already are served all the same.
   */
  readonly enabled?: boolean;
  /** Largest file that becomes a row, to begin with. Default 64 KiB. */
  readonly thresholdBytes?: number;
  /** What the rows of all store paths may hold together. Default 4 GiB. */
  readonly roomBytes?: number;
  /**
   * Group that takes files which have outgrown their rows, and load and bytes for which
   * there is no room: any group of the trackers. Default none: such files are files here.
   */
  readonly moveTo?: string | undefined;
  /** Groups of other metadata servers, which take load while they have room for it. Default none. */
  readonly shareWith?: readonly string[];
  /** Files move by load and threshold. Default true; moves because of growth are made always. */
  readonly migrates?: boolean;
  readonly parameters?: Partial<Omit<Parameters, 'smallFileShare'>>;
  /** Default 1000. */
  readonly intervalMs?: number;
  /** B_logic. Default 0: as measured at the first start. */
  readonly bytesPerSecond?: number;
  /** Requests at the disk at once. Default 64. */
  readonly maxRunning?: number;
  /** Small-file requests at the disk at once while metadata requests are there. Default 2. */
  readonly maxBesideMetadata?: number;
  /** Of what the server can carry, what small files have at least beside metadata, 0 to 1. Default 0.2. */
  readonly smallFileShare?: number;
  /** After this the client is answered that the storage is busy. Default 10,000. */
  readonly maxWaitMs?: number;
  /** Default 50. */
  readonly movesPerSecond?: number;
  /** How long an unneeded copy in another group is left to readers that have begun. Default 60,000. */
  readonly graceMs?: number;
}

export type TierSettings = Readonly<
  Required<Omit<TierOptions, 'parameters' | 'moveTo' | 'smallFileShare'>>
> & {
  readonly moveTo: string | undefined;
  readonly parameters: Parameters;
};

const MAX_GROUPS = 64;
/** A server that is busier makes metadata wait, though it could serve all of it. */
const EFFICIENCY_MARK = 0.8;

/**
 * Numbers are within their bounds: the flags of an operator check them. `group`: the storage's own,
 * which nothing moves to.
 */
export function tierSettings(options: TierOptions, group: string): TierSettings {
  const { smallFileShare = tierFlags.smallFileShare.default / 100 } = options;
  const settings: TierSettings = {
    enabled: options.enabled ?? tierFlags.metadataTier.default,
    thresholdBytes: options.thresholdBytes ?? tierFlags.smallFileThreshold.default,
    moveTo: options.moveTo,
    shareWith: Object.freeze([...(options.shareWith ?? [])]),
    migrates: options.migrates ?? true,
    parameters: parameters({
      efficiencyMark: EFFICIENCY_MARK,
      ...options.parameters,
      smallFileShare,
    }),
    roomBytes: options.roomBytes ?? tierFlags.metadataTierSize.default,
    intervalMs: options.intervalMs ?? 1000,
    bytesPerSecond: options.bytesPerSecond ?? tierFlags.bandwidth.default,
    maxRunning: options.maxRunning ?? 64,
    maxBesideMetadata: options.maxBesideMetadata ?? 2,
    maxWaitMs: options.maxWaitMs ?? 10_000,
    movesPerSecond: options.movesPerSecond ?? tierFlags.moveRate.default,
    graceMs: options.graceMs ?? 60_000,
  };
  checkGroups(settings, group);
  return Object.freeze(settings);
}

function checkGroups({ moveTo, shareWith }: TierSettings, own: string): void {
  const groups = [...shareWith, ...(moveTo === undefined ? [] : [moveTo])];
  if (groups.length > MAX_GROUPS)
    throw new OptionError(`more than ${MAX_GROUPS} storage groups to move to`);
  for (const each of groups) {
    if (!isGroupName(each)) throw new OptionError(`"${each}" is no name of a storage group`);
    if (each === own) throw new OptionError(`${own} cannot move files to itself`);
  }
}
