import { EventEmitter, setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { storeErrorOf } from './errors.js';
import type { DamagePlace, FileRow } from './filemap/rows.js';
import type { TrunkPlan } from './merge/trunk-plan.js';

export interface StagingEvents {
  /** A file got its FastDFS id. */
  merged: [{ readonly key: string; readonly fileId: string }];
  trunk: [TrunkEvent];
  /** A damaged copy of a file was quarantined; it is repaired if possible. */
  damage: [DamageEvent];
  /** A failure in the background: it is retried, and nothing acknowledged is lost. */
  error: [Error];
}

/** A trunk (or whole large file) that was stored and confirmed. */
export interface TrunkEvent {
  /** `whole` for a large file, which is stored by itself. */
  readonly kind: 'trunk' | 'whole';
  readonly taskId: string;
  readonly fileId: string;
  readonly files: number;
  readonly bytes: number;
  /** Filled share of the target size, 0 to 1; 1 for a large file. */
  readonly fill: number;
  /** Milliseconds from the choice of its files to its confirmation. */
  readonly durationMs: number;
}

export interface DamageEvent {
  readonly key: string;
  readonly place: DamagePlace;
  /** `host:port` of the storage; undefined for this disk. */
  readonly storage: string | undefined;
  /** FastDFS id of the trunk or large file; undefined for this disk. */
  readonly fileId: string | undefined;
}

/** What happens in the state. Each phase listens to what concerns it. */
export interface ChangeEvents extends StagingEvents {
  /** New files are durable and visible: small ones of so many bytes, and whether large ones. */
  staged: [bytes: number, isSpooled: boolean];
  /** Files can be merged that could not before, or room is short: look again at what waits. */
  mergeable: [];
  /** A copy of the file, which was quarantined, may be repaired. */
  damaged: [row: FileRow];
  /** Trunks have lost files, or may be joined. */
  thinned: [];
  /** FastDFS has the trunk, and every file's row points at it. */
  stored: [];
  /** The plan has ended, and what it reserved can be removed. */
  released: [plan: TrunkPlan];
  /** Copies on this disk may have become removable. */
  removable: [];
}

/**
 * The one emitter of changes, and work in the background with its errors. Errors that occur before
 * a caller can attach a listener are reported once it can. Once the store begins to close, no error
 * of background work is reported.
 */
export class Changes extends EventEmitter<ChangeEvents> {
  readonly #timers: NodeJS.Timeout[] = [];
  /** Errors from before a listener could be attached. */
  #early: Error[] | undefined = [];
  readonly #closing = new AbortController();

  constructor() {
    super();
    setMaxListeners(0, this.stopped);
  }

  /** Aborted when the store begins to close: it stops all work in the background. */
  get stopped(): AbortSignal {
    return this.#closing.signal;
  }

  get isOver(): boolean {
    return this.stopped.aborted;
  }

  report(error: Error): void {
    if (this.#early) this.#early.push(error);
    else if (this.listenerCount('error') > 0) this.emit('error', storeErrorOf(error) as Error);
  }

  /** Runs after the caller has had a chance to attach a listener. */
  tellSoon(): void {
    setImmediate(() => {
      const early = this.#early ?? [];
      this.#early = undefined;
      for (const error of early) this.report(error);
    });
  }

  run(work: Promise<unknown>): void {
    work.catch((error) => {
      if (!this.isOver) this.report(error as Error);
    });
  }

  /**
   * For repeated work. Call the returned function after each run, with the error if it failed: it
   * reports an error only if the run before did not fail with the same message.
   */
  outcomes(): (error?: Error) => void {
    let failure: string | undefined;
    return (error) => {
      if (error && error.message !== failure && !this.isOver) this.report(error);
      failure = error?.message;
    };
  }

  /**
   * Repeats the work until the store closes, one run at a time. The function that is returned runs it
   * before it is due.
   */
  every(ms: number, work: () => Promise<unknown>): () => void {
    let running = false;
    const ended = this.outcomes();
    const done = (error?: Error): void => {
      running = false;
      ended(error);
    };
    const run = (): void => {
      if (running) return;
      running = true;
      work().then(() => done(), done);
    };
    this.#timers.push(setInterval(run, ms).unref());
    return run;
  }

  end(): void {
    this.#closing.abort();
    for (const timer of this.#timers) clearInterval(timer);
  }
}

/** Work that runs one at a time until it is stopped. */
export abstract class BackgroundTask<Result = void> {
  protected readonly stopped: AbortSignal;
  #running: Promise<Result> | undefined;

  constructor({ stopped }: Changes) {
    this.stopped = stopped;
  }

  /** Resolves when the current run has ended. */
  async ended(): Promise<void> {
    await this.#running?.catch(() => undefined);
  }

  /** The current run, or a new one. */
  protected runOnce(work: () => Promise<Result>): Promise<Result> {
    this.#running ??= work().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Shorter if it is stopped; with `ref` false it keeps no process alive. */
  protected async pause(ms: number, ref = false): Promise<void> {
    if (ms < 1) return;
    await sleep(ms, undefined, { signal: this.stopped, ref }).catch(() => undefined);
  }
}
