import { Worker } from 'node:worker_threads';

/**
 * Checkpoints the FileMap's log (WAL) into its main file, in a separate thread. With millions of
 * files, almost every page of the log belongs to a different part of the main file, and writing and
 * syncing those would stall uploads and reads for tens of milliseconds. The thread starts when it
 * is first needed.
 *
 * Nothing depends on it: if the thread has ended or cannot keep up, SQLite checkpoints within a
 * commit once the log has LOG_PAGES.
 */

/** The log is checkpointed when it has grown by about this many pages of 4 KiB. */
const PAGES_AT_ONCE = 4_000;
/** 32 MiB. */
export const LOG_PAGES = 2 * PAGES_AT_ONCE;
/** Estimated pages per transaction, and per change in it. */
const PAGES_PER_TRANSACTION = 4;
const PAGES_PER_CHANGE = 2;
const WORKER_MEMORY_MIB = 16;

export class Checkpoints {
  readonly #path: string;
  /** Estimated pages written since the thread was last asked. */
  #pages = 0;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(path: string) {
    this.#path = path;
  }

  note(changes: number): void {
    this.#pages += PAGES_PER_TRANSACTION + PAGES_PER_CHANGE * changes;
    if (this.#pages < PAGES_AT_ONCE || this.#isOver) return;
    this.#pages = 0;
    this.#worker ??= this.#begin();
    this.#worker.postMessage(undefined);
  }

  stop(): Promise<void> {
    this.#isOver = true;
    // The caller waits for the thread, so it must keep the process alive.
    this.#worker?.ref();
    this.#worker?.postMessage('end');
    return this.#ended;
  }

  #begin(): Worker {
    const worker = new Worker(new URL('./checkpoint-worker.js', import.meta.url), {
      workerData: this.#path,
      name: 'stevedore-filemap',
      resourceLimits: {
        maxOldGenerationSizeMb: WORKER_MEMORY_MIB,
        maxYoungGenerationSizeMb: WORKER_MEMORY_MIB / 4,
      },
    });
    // It fails if the file is damaged or the disk fails. The users of the FileMap get the same
    // error and handle it.
    worker.on('error', () => undefined);
    this.#ended = new Promise((resolve) => {
      worker.once('exit', () => {
        this.#isOver = true;
        resolve();
      });
    });
    worker.unref();
    return worker;
  }
}
