import { type Parameters, parameters } from '@stevedore/balance';
import type { Disk } from '@stevedore/disk';
import { OptionError } from '../errors.js';
import { checkInteger } from '../options.js';
import type { MoveStep } from './move.js';

/** The two tiers of a storage, and what moves files between them. */
export interface TierOptions {
  /**
   * Small files become rows of the metadata tier. Default false: every file is a file;
   * rows that are there already are served all the same.
   */
  readonly enabled?: boolean;
  /** Largest file that becomes a row, to begin with. Default 64 KiB. */
  readonly thresholdBytes?: number;
  /** Files move by load and threshold. Default true; moves because of growth are made always. */
  readonly migrates?: boolean;
  readonly parameters?: Partial<Parameters>;
  /** Default 1000. */
  readonly intervalMs?: number;
  /** B_logic. Default 0: it is measured at the first start. */
  readonly bytesPerSecond?: number;
  /** What an access costs beside its bytes, in bytes; counts only where B_logic is given. Default 4096. */
  readonly accessBytes?: number;
  /** Requests at the disk at once. Default 64. */
  readonly maxRunning?: number;
  /** Small-file requests at the disk at once while metadata requests are there. Default 2. */
  readonly maxBesideMetadata?: number;
  /** Of what the server can carry, what small files have at least beside metadata, 0 to 1. Default 0.05. */
  readonly smallFileShare?: number;
  /** Requests of a class that wait for their turn. Default 4096. */
  readonly maxWaiting?: number;
  /** After this the client is told that the storage is busy. Default 10,000. */
  readonly maxWaitMs?: number;
  /** Default 50. */
  readonly movesPerSecond?: number;
  /**
   * Bytes of a stripe at an I/O server, at most 1020 KiB. Default 256 KiB: what a download
   * reads at a time, so that most files beyond the threshold are one request to one
   * server; a checksum of 4 bytes for each makes a GiB 16 KiB in its record.
   */
  readonly stripeBytes?: number;
  /** I/O servers that one file is striped over, at most. Default 4. */
  readonly stripeWidth?: number;
  /**
   * Share of its threshold beyond which an appender's data file is made ahead at the I/O
   * servers, so that its migration need not. Default 0.5; 1: never.
   */
  readonly preMigrationShare?: number;
  /**
   * Requests of a migration that are spared otherwise, for comparisons: its parts are
   * made first, and asked for their size before they are written. Default neither.
   */
  readonly extraRounds?: { readonly create: boolean; readonly size: boolean };
  /** How long a client has for what it writes on to I/O servers by itself. Default 60,000. */
  readonly onwardMs?: number;
  /** Longest silence of an I/O server within a request. Default 10,000. */
  readonly ioTimeoutMs?: number;
  /** Longest time until a connection to an I/O server is there. Default 2000. */
  readonly ioConnectTimeoutMs?: number;
  /** Connections to one I/O server. Default 8. */
  readonly ioConnections?: number;
  /** How often the trackers are asked for I/O servers. Default 2000. */
  readonly ioListIntervalMs?: number;
  /** Between two looks at an I/O server for parts that no record knows. Default an hour. */
  readonly orphanIntervalMs?: number;
  /** Reads of a file that another metadata server has wait so long for it to answer. Default 5000. */
  readonly guestAwayMs?: number;
  /**
   * Trackers send reads of a file to the metadata server that has its bytes, which answers
   * for this storage. Default true; false: this storage fetches the bytes for every read.
   */
  readonly forwards?: boolean;
  /** What another metadata server has for nobody any more is left there so long. Default 10,000. */
  readonly guestGraceMs?: number;
  /**
   * For benchmarks: a disk over the tiers that is as slow as another machine's. `isHere`
   * tells whether the bytes of a path are on this one.
   */
  readonly slowed?: (disk: Disk, isHere: (path: string) => boolean) => Disk;
  /** For tests, which end the process at a step of a move. */
  readonly onStep?: (step: MoveStep, name: string) => void;
}

export type TierSettings = Required<Omit<TierOptions, 'parameters' | 'slowed' | 'onStep'>> & {
  readonly parameters: Parameters;
  readonly slowed: TierOptions['slowed'];
  readonly onStep: TierOptions['onStep'];
};

const KIB = 1024;
/** A server that is busier makes metadata wait, though it could serve all of it. */
const EFFICIENCY_MARK = 0.8;
/** One request carries a stripe. */
const MAX_STRIPE_BYTES = 1024 * KIB - 4 * KIB;

export function tierSettings(options: TierOptions): TierSettings {
  const settings: TierSettings = {
    enabled: options.enabled ?? false,
    thresholdBytes: options.thresholdBytes ?? 64 * KIB,
    migrates: options.migrates ?? true,
    parameters: checked({ efficiencyMark: EFFICIENCY_MARK, ...options.parameters }),
    intervalMs: options.intervalMs ?? 1000,
    bytesPerSecond: options.bytesPerSecond ?? 0,
    accessBytes: options.accessBytes ?? 4 * KIB,
    maxRunning: options.maxRunning ?? 64,
    maxBesideMetadata: options.maxBesideMetadata ?? 2,
    smallFileShare: options.smallFileShare ?? 0.05,
    maxWaiting: options.maxWaiting ?? 4096,
    maxWaitMs: options.maxWaitMs ?? 10_000,
    movesPerSecond: options.movesPerSecond ?? 50,
    stripeBytes: options.stripeBytes ?? 256 * KIB,
    stripeWidth: options.stripeWidth ?? 4,
    preMigrationShare: options.preMigrationShare ?? 0.5,
    extraRounds: options.extraRounds ?? { create: false, size: false },
    onwardMs: options.onwardMs ?? 60_000,
    ioTimeoutMs: options.ioTimeoutMs ?? 10_000,
    ioConnectTimeoutMs: options.ioConnectTimeoutMs ?? 2000,
    ioConnections: options.ioConnections ?? 8,
    ioListIntervalMs: options.ioListIntervalMs ?? 2000,
    orphanIntervalMs: options.orphanIntervalMs ?? 3_600_000,
    guestAwayMs: options.guestAwayMs ?? 5000,
    forwards: options.forwards ?? true,
    guestGraceMs: options.guestGraceMs ?? 10_000,
    slowed: options.slowed,
    onStep: options.onStep,
  };
  const { minimumThresholdBytes, maximumThresholdBytes } = settings.parameters;
  checkInteger(
    'thresholdBytes',
    settings.thresholdBytes,
    minimumThresholdBytes,
    maximumThresholdBytes,
  );
  checkInteger('maximumThresholdBytes', maximumThresholdBytes, 1, 64 * KIB * KIB);
  checkInteger('intervalMs', settings.intervalMs, 10, 3_600_000);
  checkInteger('bytesPerSecond', settings.bytesPerSecond, 0, 2 ** 50);
  checkInteger('accessBytes', settings.accessBytes, 0, 2 ** 40);
  checkInteger('maxRunning', settings.maxRunning, 1, 100_000);
  checkInteger('maxBesideMetadata', settings.maxBesideMetadata, 1, 100_000);
  if (!(settings.smallFileShare > 0 && settings.smallFileShare <= 1)) {
    throw new OptionError(
      `smallFileShare is ${settings.smallFileShare}, not above 0 and at most 1`,
    );
  }
  checkInteger('maxWaiting', settings.maxWaiting, 1, 1_000_000);
  checkInteger('maxWaitMs', settings.maxWaitMs, 1, 3_600_000);
  checkInteger('guestAwayMs', settings.guestAwayMs, 0, 3_600_000);
  checkInteger('guestGraceMs', settings.guestGraceMs, 0, 3_600_000);
  checkInteger('movesPerSecond', settings.movesPerSecond, 1, 1_000_000);
  checkInteger('stripeBytes', settings.stripeBytes, 512, MAX_STRIPE_BYTES);
  checkInteger('stripeWidth', settings.stripeWidth, 1, 64);
  if (!(settings.preMigrationShare > 0 && settings.preMigrationShare <= 1)) {
    throw new OptionError(`preMigrationShare must be above 0 and at most 1`);
  }
  checkInteger('onwardMs', settings.onwardMs, 1, 3_600_000);
  checkInteger('ioTimeoutMs', settings.ioTimeoutMs, 1, 3_600_000);
  checkInteger('ioConnectTimeoutMs', settings.ioConnectTimeoutMs, 1, 3_600_000);
  checkInteger('ioConnections', settings.ioConnections, 1, 1024);
  checkInteger('ioListIntervalMs', settings.ioListIntervalMs, 1, 3_600_000);
  checkInteger('orphanIntervalMs', settings.orphanIntervalMs, 1, 86_400_000 * 30);
  return Object.freeze(settings);
}

function checked(given: Partial<Parameters> | undefined): Parameters {
  try {
    return parameters(given);
  } catch (error) {
    throw new OptionError(error instanceof Error ? error.message : String(error));
  }
}
