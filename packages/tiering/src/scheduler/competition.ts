import {
  keptShare,
  type Load,
  type Parameters,
  type ServedIn,
  smallFileRoom,
  sustainableBytes,
} from '@stevedore/balance';
import { type BusyMeter, type Probe, Probes, type ProbesOptions } from './probes.js';
import type { ClassInterval, RequestClass } from './scheduler.js';

/**
 * Estimates the server's capacity, the load of metadata and of small files if each were alone
 * (L'_meta and L'_io of the model), and how much small-file load metadata tolerates. The load served
 * while both compete shows none of this: a client that waits for its answer asks less often when
 * answers take longer, and the calibration of the disk ignores the thread in front of it. So probes
 * measure metadata alone: its load, and how busy it keeps the thread.
 *
 * The capacity is that of the disk, measured or given; or, where the thread is the bottleneck, what
 * it served divided by its busy share.
 */

export interface CompetitionOptions extends Omit<ProbesOptions, 'onCompetition' | 'onProbe'> {
  /** B_logic of the disk for an interval. */
  readonly diskBytes: () => number;
  /** False if the capacity was given. */
  readonly learns: boolean;
  readonly parameters: Pick<Parameters, 'efficiencyMark' | 'smallFileShare'>;
}

/** One slow sync in a probe makes metadata look small, so lower values count slowly. */
const MORE_ALPHA = 0.7;
const LESS_ALPHA = 0.1;
/** Weight of earlier probes, for each probe after them. */
const FORGETTING = 0.85;
const SHARE_ALPHA = 0.2;
const CAPACITY_ALPHA = 0.2;
/** Below this busy share, the thread's capacity cannot be estimated. */
const LEAST_BUSY_SHARE = 0.5;

const NOTHING: ServedIn = { bytes: 0, requests: 0, ms: 0 };

export class Competition {
  readonly #options: CompetitionOptions;
  readonly #probes: Probes;
  readonly #busy: BusyMeter;
  #byThread: number | undefined;
  #capacityBytes: number;
  #isThere = false;
  #aloneBytes: number | undefined;
  /** Share of the thread that metadata needs alone, 0 to 1. */
  #busyShare: number | undefined;
  #alone: ServedIn = NOTHING;
  #beside: ServedIn = NOTHING;
  /** Small-file load that metadata has tolerated so far. */
  #limitBytes = Number.POSITIVE_INFINITY;
  #onLearned = (): void => {};

  constructor(options: CompetitionOptions) {
    this.#options = options;
    this.#capacityBytes = options.diskBytes();
    this.#busy = options.busyMeter();
    this.#probes = new Probes({
      ...options,
      onCompetition: (isThere) => this.#changed(isThere),
      onProbe: (probe) => this.#saw(probe),
    });
  }

  /** Starts the probes. `onLearned` is called after each that changed an estimate. */
  start(onLearned: () => void): void {
    this.#onLearned = onLearned;
    this.#probes.start();
  }

  close(): void {
    this.#probes.close();
  }

  /** B_logic for an interval. */
  get capacityBytes(): number {
    return this.#capacityBytes;
  }

  /** True while both classes have requests. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /** L'_meta: metadata load of an interval without small files; undefined without competition. */
  get metadataAloneBytes(): number | undefined {
    return this.#aloneBytes;
  }

  /** Share of it that metadata keeps beside small files; undefined if unknown. */
  get metadataKeptShare(): number | undefined {
    return keptShare({ alone: this.#alone, beside: this.#beside });
  }

  /** Small-file load that metadata tolerates; 0 until the first probe. Undefined without competition. */
  get sustainableBytes(): number | undefined {
    if (!this.#isThere) return undefined;
    return this.#aloneBytes === undefined ? 0 : this.#limitBytes;
  }

  /**
   * L'_meta and L'_io: the load of each class without the other. A client that waits for its answer
   * sends its next request that much later.
   */
  alone({ metadata, smallFile }: Readonly<Record<RequestClass, ClassInterval>>): Load {
    const { servedBytes, waitedMs, ranMs } = smallFile;
    const wanted = ranMs > 0 ? (servedBytes * (waitedMs + ranMs)) / ranMs : servedBytes;
    return {
      metadataBytes: Math.max(metadata.servedBytes, this.#metadataBytes),
      smallFileBytes: Math.min(wanted, Math.max(servedBytes, this.#options.diskBytes())),
    };
  }

  /** An interval has ended. */
  observe({ metadata, smallFile }: Readonly<Record<RequestClass, ClassInterval>>): void {
    const { learns } = this.#options;
    const busy = this.#busy();
    if (!learns) return;
    const diskBytes = this.#options.diskBytes();
    const servedBytes = metadata.servedBytes + smallFile.servedBytes;
    if (busy >= LEAST_BUSY_SHARE) {
      const now = servedBytes / Math.min(1, busy);
      this.#byThread = smoothed(this.#byThread, now, CAPACITY_ALPHA);
    }
    const carried = Math.min(diskBytes, this.#byThread ?? diskBytes);
    this.#capacityBytes = Math.max(carried, servedBytes);
  }

  #changed(isThere: boolean): void {
    this.#isThere = isThere;
    this.#aloneBytes = undefined;
    this.#busyShare = undefined;
    this.#alone = NOTHING;
    this.#beside = NOTHING;
    this.#limitBytes = Number.POSITIVE_INFINITY;
    this.#onLearned();
  }

  #saw({ alone, beside, busyShare }: Probe): void {
    const { intervalMs, parameters } = this.#options;
    const bytes = (alone.bytes * intervalMs) / alone.ms;
    const isMore = bytes > (this.#aloneBytes ?? 0);
    this.#aloneBytes = smoothed(this.#aloneBytes, bytes, isMore ? MORE_ALPHA : LESS_ALPHA);
    this.#busyShare = smoothed(this.#busyShare, Math.min(1, busyShare), SHARE_ALPHA);
    if (beside) {
      this.#alone = added(this.#alone, alone);
      this.#beside = added(this.#beside, beside);
    }
    const { efficiencyMark, smallFileShare } = parameters;
    const capacityBytes = this.#capacityBytes;
    this.#limitBytes = sustainableBytes(
      this.#limitBytes,
      { alone: this.#alone, beside: this.#beside },
      {
        roomBytes: smallFileRoom(this.#metadataBytes, capacityBytes, efficiencyMark),
        assuredBytes: smallFileShare * capacityBytes,
      },
    );
    this.#onLearned();
  }

  /** L'_meta, from the load in probes and from how busy it kept the thread. */
  get #metadataBytes(): number {
    return Math.max(this.#aloneBytes ?? 0, (this.#busyShare ?? 0) * this.#capacityBytes);
  }
}

function smoothed(before: number | undefined, now: number, alpha: number): number {
  return before === undefined ? now : before + alpha * (now - before);
}

function added(before: ServedIn, now: ServedIn): ServedIn {
  return {
    bytes: before.bytes * FORGETTING + now.bytes,
    requests: before.requests * FORGETTING + now.requests,
    ms: before.ms * FORGETTING + now.ms,
  };
}
