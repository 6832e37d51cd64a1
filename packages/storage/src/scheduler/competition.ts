import type { ClassInterval, RequestClass, Scheduler } from './scheduler.js';

/**
 * What the server can carry, and what metadata would take of it if it had the server to
 * itself: L'_meta of the model. Both have to be seen, neither shows in what was served
 * while metadata and small files compete: clients that wait for their answers ask for
 * less when answers take longer, and a disk that was calibrated alone knows nothing of
 * the thread in front of it.
 *
 * Metadata alone: once in an interval in which both were there, small files are held
 * back for a twentieth of it, at a moment that differs from interval to interval.
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
  /** Share of the time since the last call in which the thread was busy, 0 to 1. */
  readonly busyShare: () => number;
}

const ALONE_SHARE = 0.05;
/** Moments at which metadata is left alone are this far apart, as shares of an interval. */
const MOMENT_STEP = 0.618;
/** What disturbs a moment, a slow sync, makes metadata look smaller than it is: less is believed slowly. */
const MORE_ALPHA = 0.7;
const LESS_ALPHA = 0.1;
const CAPACITY_ALPHA = 0.2;
/** A thread less busy than this does not tell how much it could do. */
const LEAST_BUSY_SHARE = 0.5;

export class Competition {
  readonly #options: CompetitionOptions;
  #byThread: number | undefined;
  #capacityBytes: number;
  #metadataAlone: number | undefined;
  #moment = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CompetitionOptions) {
    this.#options = options;
    this.#capacityBytes = options.diskBytes;
  }

  /** B_logic for an interval. */
  get capacityBytes(): number {
    return this.#capacityBytes;
  }

  /** L'_meta: an interval of it without small files; undefined: they did not compete. */
  get metadataAloneBytes(): number | undefined {
    return this.#metadataAlone;
  }

  /**
   * L'_io: what small files would have had served if none of them had waited. Whoever
   * waits for his answer comes back the later by as much.
   */
  smallFilesAlone({ servedBytes, waitedMs, ranMs }: ClassInterval): number {
    if (ranMs <= 0) return servedBytes;
    return Math.min((servedBytes * (waitedMs + ranMs)) / ranMs, this.#options.diskBytes);
  }

  /** An interval has ended; in the one that begins metadata may be left alone for a while. */
  observe(ended: Readonly<Record<RequestClass, ClassInterval>>): void {
    this.#learnCapacity(ended.metadata.servedBytes + ended.smallFile.servedBytes);
    const { metadata, smallFile } = ended;
    const competed =
      metadata.servedRequests > 0 && smallFile.servedRequests + smallFile.waitingRequests > 0;
    if (!competed) this.#metadataAlone = undefined;
    else this.#leaveAlone();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#options.scheduler.release();
  }

  #learnCapacity(servedBytes: number): void {
    const { busyShare, diskBytes, learns } = this.#options;
    const busy = busyShare();
    if (!learns) return;
    if (busy >= LEAST_BUSY_SHARE) {
      const now = servedBytes / Math.min(1, busy);
      this.#byThread = smoothed(this.#byThread, now, CAPACITY_ALPHA);
    }
    this.#capacityBytes = Math.max(Math.min(diskBytes, this.#byThread ?? diskBytes), servedBytes);
  }

  #leaveAlone(): void {
    const { scheduler, intervalMs } = this.#options;
    const lastsMs = intervalMs * ALONE_SHARE;
    this.#moment = (this.#moment + MOMENT_STEP) % 1;
    clearTimeout(this.#timer);
    scheduler.release();
    this.#timer = setTimeout(
      () => {
        scheduler.hold();
        this.#timer = setTimeout(() => {
          const alone = scheduler.release();
          if (!alone || alone.ms < lastsMs / 2) return;
          const bytes = (alone.metadataBytes * intervalMs) / alone.ms;
          const isMore = bytes > (this.#metadataAlone ?? 0);
          const alpha = isMore ? MORE_ALPHA : LESS_ALPHA;
          this.#metadataAlone = smoothed(this.#metadataAlone, bytes, alpha);
        }, lastsMs);
        this.#timer.unref();
      },
      this.#moment * (intervalMs - 2 * lastsMs),
    );
    this.#timer.unref();
  }
}

function smoothed(before: number | undefined, now: number, alpha: number): number {
  return before === undefined ? now : before + alpha * (now - before);
}
