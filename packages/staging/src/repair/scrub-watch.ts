import { BackgroundTask } from '../changes.js';
import type { State } from '../state.js';
import type { Repairs } from './repair.js';
import { scrub } from './scrub.js';

/**
 * Scrubs in the background while the store is open: at most one walk a day, at a low rate. A walk
 * continues where the last process stopped, or where FastDFS stopped answering.
 */
/** Pause before the first walk, and after one that failed. */
const PAUSE_MS = 60_000;
/** Time from the end of one walk to the start of the next. */
const INTERVAL_MS = 86_400_000;

export interface ScrubStats {
  /** Walks completed since the start. */
  readonly walks: number;
  /** Files and bytes that they read, on this disk and in FastDFS. */
  readonly files: number;
  readonly bytes: number;
}

export class ScrubWatch extends BackgroundTask {
  readonly #state: State;
  readonly #repairs: Repairs;
  #walks = 0;
  #files = 0;
  #bytes = 0;

  constructor(state: State, repairs: Repairs) {
    super();
    this.#state = state;
    this.#repairs = repairs;
  }

  start(): void {
    const { scrubRate = 0 } = this.#state.options;
    if (scrubRate > 0) void this.runOnce(() => this.#run(scrubRate));
  }

  stats(): ScrubStats {
    return { walks: this.#walks, files: this.#files, bytes: this.#bytes };
  }

  async #run(bytesPerSecond: number): Promise<void> {
    const { scrubPauseMs: pauseMs = PAUSE_MS } = this.#state.options;
    const signal = this.stopped;
    let waitMs = pauseMs;
    while (!signal.aborted) {
      await this.pause(waitMs);
      if (signal.aborted) return;
      try {
        const report = await scrub(this.#state, this.#repairs, {
          repair: true,
          bytesPerSecond,
          signal,
          goesOn: true,
        });
        this.#walks += 1;
        this.#files += report.localFiles + report.slices;
        this.#bytes += report.localBytes + report.sliceBytes;
        waitMs = INTERVAL_MS;
      } catch {
        // FastDFS is unreachable or the store is closing; damage does not throw.
        waitMs = pauseMs;
      }
    }
  }
}
