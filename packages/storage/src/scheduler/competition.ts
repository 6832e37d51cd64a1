import {
  type BearingBounds,
  bearableBytes,
  keptShare,
  type ServedIn,
  smallFileRoom,
} from '@stevedore/balance';
import { type AloneMoment, AloneMoments, type BusyMeter } from './alone-moments.js';
import type { ClassInterval, RequestClass, Scheduler } from './scheduler.js';

/**
 * What the server can carry, what metadata would take of it if it had the server to
 * itself (L'_meta of the model), and what small files may have beside it. None of that
 * shows in what was served while both compete: clients that wait for their answers ask
 * for less when answers take longer, and a disk that was calibrated alone knows nothing
 * of the thread in front of it. So metadata is left alone for moments, and looked at: what
 * is served of it, and for what share of the moment it occupies the server.
 *
 * Capacity: that of the disk, as measured or given, or, where the thread is the bottleneck,
 * what it served divided by the share of the time in which it was busy.
 */

export interface CompetitionOptions {
  readonly scheduler: Scheduler;
  readonly intervalMs: number;
  /** B_logic of the disk for an interval. */
  readonly diskBytes: number;
  /** False: the capacity was given, and holds. */
  readonly learns: boolean;
  /** The efficiency (Eq. 1) that the server is kept at or below. */
  readonly efficiencyMark: number;
  /** Of what the server can carry, what small files have at least. */
  readonly smallFileShare: number;
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
  /** Of the last interval, all of it. */
  #servedBytes = 0;
  #isThere = false;
  #aloneBytes: number | undefined;
  /** Of the server, what metadata takes alone: 0 to 1. */
  #aloneShare: number | undefined;
  #alone: ServedIn = NOTHING;
  #beside: ServedIn = NOTHING;
  /** What small files may have, as metadata has borne it so far. */
  #limitBytes = Number.POSITIVE_INFINITY;
  #onLearned = (): void => {};

  constructor(options: CompetitionOptions) {
    const { scheduler, intervalMs, busyMeter, now } = options;
    this.#options = options;
    this.#capacityBytes = options.diskBytes;
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

  /** L'_meta: an interval of it without small files; undefined: they did not compete. */
  get metadataAloneBytes(): number | undefined {
    return this.#aloneBytes;
  }

  /** Of that, the share that metadata keeps beside small files; undefined: not known. */
  get metadataKeptShare(): number | undefined {
    return keptShare({ alone: this.#alone, beside: this.#beside });
  }

  /**
   * L'_io: what small files would have had served if none of them had waited. Whoever
   * waits for his answer comes back the later by as much.
   */
  smallFilesAlone({ servedBytes, waitedMs, ranMs }: ClassInterval): number {
    if (ranMs <= 0) return servedBytes;
    return Math.min((servedBytes * (waitedMs + ranMs)) / ranMs, this.#options.diskBytes);
  }

  /**
   * Eq. 4, as metadata bears it: what small files may have. Where both have just met, and
   * nothing is known yet, that is what is assured. Undefined: no metadata is expected.
   */
  allowedSmallFileBytes(forecastMetadataBytes: number): number | undefined {
    if (!this.#isThere && forecastMetadataBytes <= 0) return undefined;
    const { roomBytes, assuredBytes } = this.#bounds(forecastMetadataBytes);
    if (!this.#isThere) return Math.max(roomBytes, assuredBytes);
    if (this.#aloneBytes === undefined) return assuredBytes;
    return Math.max(Math.min(roomBytes, this.#limitBytes), assuredBytes);
  }

  /** An interval has ended. */
  observe({ metadata, smallFile }: Readonly<Record<RequestClass, ClassInterval>>): void {
    this.#servedBytes = metadata.servedBytes + smallFile.servedBytes;
    this.#learnCapacity();
  }

  #changed(isThere: boolean): void {
    this.#isThere = isThere;
    this.#aloneBytes = undefined;
    this.#aloneShare = undefined;
    this.#alone = NOTHING;
    this.#beside = NOTHING;
    this.#limitBytes = Number.POSITIVE_INFINITY;
    this.#onLearned();
  }

  #learnCapacity(): void {
    const { diskBytes, learns } = this.#options;
    const busy = this.#busy();
    if (!learns) return;
    if (busy >= LEAST_BUSY_SHARE) {
      const now = this.#servedBytes / Math.min(1, busy);
      this.#byThread = smoothed(this.#byThread, now, CAPACITY_ALPHA);
    }
    const carried = Math.min(diskBytes, this.#byThread ?? diskBytes);
    this.#capacityBytes = Math.max(carried, this.#servedBytes);
  }

  #saw({ alone, beside, occupiedShare, busyShare }: AloneMoment): void {
    const { intervalMs } = this.#options;
    const bytes = (alone.bytes * intervalMs) / alone.ms;
    const isMore = bytes > (this.#aloneBytes ?? 0);
    this.#aloneBytes = smoothed(this.#aloneBytes, bytes, isMore ? MORE_ALPHA : LESS_ALPHA);
    const share = Math.min(1, Math.max(occupiedShare, busyShare));
    this.#aloneShare = smoothed(this.#aloneShare, share, SHARE_ALPHA);
    if (beside) {
      this.#alone = added(this.#alone, alone);
      this.#beside = added(this.#beside, beside);
    }
    this.#limitBytes = bearableBytes(
      this.#limitBytes,
      { alone: this.#alone, beside: this.#beside },
      this.#bounds(0),
    );
    this.#onLearned();
  }

  #bounds(forecastMetadataBytes: number): BearingBounds {
    const { efficiencyMark, smallFileShare } = this.#options;
    const capacityBytes = this.#capacityBytes;
    const aloneBytes = this.#aloneBytes ?? 0;
    const metadataBytes = Math.max(
      forecastMetadataBytes,
      aloneBytes,
      (this.#aloneShare ?? 0) * capacityBytes,
    );
    // Where metadata bears little, what is served is what the server carries.
    const carriedBytes = Math.min(capacityBytes, Math.max(this.#servedBytes, aloneBytes));
    return {
      roomBytes: smallFileRoom(metadataBytes, capacityBytes, efficiencyMark),
      assuredBytes: smallFileShare * (carriedBytes > 0 ? carriedBytes : capacityBytes),
    };
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
