import { BackgroundTask } from '../background.js';
import { scrub } from './scrub.js';
import type { RepairParts } from './sound-copies.js';

/**
 * Scrubs in the background while the store is open: at most one walk a day, at a low rate. A walk
 * continues where the last process stopped, or where FastDFS stopped answering.
 */
export interface ScrubWatchOptions {
  /** 0: off. */
  readonly bytesPerSecond: number;
  /** Pause before the first walk, and after one that failed. */
  readonly pauseMs: number;
  /** Time from the end of one walk to the start of the next. */
  readonly intervalMs: number;
}

export interface ScrubStats {
  /** Walks completed since the start. */
  readonly walks: number;
  /** Files and bytes that they read, on this disk and in FastDFS. */
  readonly files: number;
  readonly bytes: number;
}

export class ScrubWatch extends BackgroundTask {
  readonly #parts: RepairParts;
  readonly #options: ScrubWatchOptions;
  #walks = 0;
  #files = 0;
  #bytes = 0;

  constructor(parts: RepairParts, options: ScrubWatchOptions) {
    super();
    this.#parts = parts;
    this.#options = options;
  }

  start(): void {
    if (this.#options.bytesPerSecond > 0) void this.runOnce(() => this.#run());
  }

  stats(): ScrubStats {
    return { walks: this.#walks, files: this.#files, bytes: this.#bytes };
  }

  async #run(): Promise<void> {
    const { bytesPerSecond, pauseMs, intervalMs } = this.#options;
    const signal = this.stopped;
    let waitMs = pauseMs;
    while (!signal.aborted) {
      await this.pause(waitMs);
      if (signal.aborted) return;
      try {
        const report = await scrub(this.#parts, {
          ...{ repair: true, bytesPerSecond, signal, goesOn: true },
        });
        this.#walks += 1;
        this.#files += report.localFiles + report.slices;
        this.#bytes += report.localBytes + report.sliceBytes;
        waitMs = intervalMs;
      } catch {
        // FastDFS is unreachable or the store is closing; damage does not throw.
        waitMs = pauseMs;
      }
    }
  }
}
