import {
  bearableBytes,
  keptShare,
  type Load,
  type Parameters,
  type ServedIn,
  smallFileRoom,
} from '@stevedore/balance';
import { type AloneMoment, AloneMoments, type BusyMeter } from './alone-moments.js';
import type { ClassInterval, RequestClass, Scheduler } from './scheduler.js';

/**
 * What the server can carry, what metadata and small files would take of it if each had
 * the server to itself (L'_meta and L'_io of the model), and what metadata bears beside
 * it. None of that shows in what was served while both compete: clients that wait for
 * their answers ask for less when answers take longer, and a disk that was calibrated
 * alone knows nothing of the thread in front of it. So metadata is left alone for moments,
 * and looked at: what is served of it, and how busy that keeps the thread.
 *
 * Capacity: that of the disk, as measured or given, or, where the thread is the bottleneck,
 * what it served divided by the share of the time in which it was busy.
 */

export interface CompetitionOptions {
  readonly scheduler: Scheduler;
  readonly intervalMs: number;
  /** B_logic of the disk for an interval. */
  readonly diskBytes: () => number;
  /** False: the capacity was given, and holds. */
  readonly learns: boolean;
  readonly parameters: Pick<Parameters, 'efficiencyMark' | 'smallFileShare'>;
  readonly busyMeter: () => BusyMeter;
  readonly now: () => number;
}

/** What disturbs a moment, a slow sync, makes metadata look smaller than it is: less is believed slowly. */
const MORE_ALPHA = 0.7;
const LESS_ALPHA = 0.1;
/** What was seen counts less by this with every moment after it. */
const FORGETTING = 0.85;
const SHARE_ALPHA = 0.2;
const CAPACITY_ALPHA = 0.2;
/** A thread less busy than this does not tell how much it could do. */
const LEAST_BUSY_SHARE = 0.5;

const NOTHING: ServedIn = { bytes: 0, requests: 0, ms: 0 };

export class Competition {
  readonly #options: CompetitionOptions;
  readonly #moments: AloneMoments;
  readonly #busy: BusyMeter;
  #byThread: number | undefined;
  #capacityBytes: number;
  #isThere = false;
  #aloneBytes: number | undefined;
  /** Of the thread, what metadata takes alone: 0 to 1. */
  #busyShare: number | undefined;
  #alone: ServedIn = NOTHING;
  #beside: ServedIn = NOTHING;
  /** What small files may have, as metadata has borne it so far. */
  #limitBytes = Number.POSITIVE_INFINITY;
  #onLearned = (): void => {};

  constructor(options: CompetitionOptions) {
    const { scheduler, intervalMs, busyMeter, now } = options;
    this.#options = options;
    this.#capacityBytes = options.diskBytes();
    this.#busy = busyMeter();
    this.#moments = new AloneMoments({
      scheduler,
      intervalMs,
      busyMeter,
      now,
      onCompetition: (isThere) => this.#changed(isThere),
      onMoment: (moment) => this.#saw(moment),
    });
  }

  /** Metadata is left alone for moments from now on; tells when something was learned from one. */
  start(onLearned: () => void): void {
    this.#onLearned = onLearned;
    this.#moments.start();
  }

  close(): void {
    this.#moments.close();
  }

  /** B_logic for an interval. */
  get capacityBytes(): number {
    return this.#capacityBytes;
  }

  /** True while both classes are there. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /** L'_meta: an interval of it without small files; undefined: they did not compete. */
  get metadataAloneBytes(): number | undefined {
    return this.#aloneBytes;
  }

  /** Of that, the share that metadata keeps beside small files; undefined: not known. */
  get metadataKeptShare(): number | undefined {
    return keptShare({ alone: this.#alone, beside: this.#beside });
  }

  /**
   * What small files may have, as metadata has borne it: nothing where both have just met.
   * Undefined: they do not compete.
   */
  get bearableBytes(): number | undefined {
    if (!this.#isThere) return undefined;
    return this.#aloneBytes === undefined ? 0 : this.#limitBytes;
  }

  /**
   * L'_meta and L'_io: what would have been served of either without the other. A client
   * that waits for its answer sends its next request later by as much.
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

  #saw({ alone, beside, busyShare }: AloneMoment): void {
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
    this.#limitBytes = bearableBytes(
      this.#limitBytes,
      { alone: this.#alone, beside: this.#beside },
      {
        roomBytes: smallFileRoom(this.#metadataBytes, capacityBytes, efficiencyMark),
        assuredBytes: smallFileShare * capacityBytes,
      },
    );
    this.#onLearned();
  }

  /** L'_meta, by what was served of it alone and by how busy that kept the thread. */
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
