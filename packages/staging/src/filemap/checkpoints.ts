import { Worker } from 'node:worker_threads';

/**
 * Brings what the FileMap's log (WAL) has gathered into its main file, in a thread of its
 * own: with millions of files almost every page of the log belongs to another place of
 * the main file, and writing and syncing those would stall uploads and reads for some
 * ten milliseconds at a time. The thread begins when there is work for the first time.
 *
 * Nothing depends on it. SQLite does the work itself, in the midst of a commit, once
 * the log has LOG_PAGES: if the thread has ended, or cannot keep up.
 */

/** The log is written back when it has grown by about so many pages of 4 KiB. */
const PAGES_AT_ONCE = 1_000;
/** 32 MiB. */
export const LOG_PAGES = 8 * PAGES_AT_ONCE;
/** Pages that a transaction writes whatever it changes, and those of one change. */
const PAGES_PER_TRANSACTION = 4;
const PAGES_PER_CHANGE = 2;
const WORKER_MEMORY_MIB = 16;

export class Checkpoints {
  readonly #path: string;
  /** Pages in the log since the thread was last asked, as far as can be guessed. */
  #pages = 0;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(path: string) {
    this.#path = path;
  }

  /** A transaction was committed. */
  note(changes: number): void {
    this.#pages += PAGES_PER_TRANSACTION + PAGES_PER_CHANGE * changes;
    if (this.#pages < PAGES_AT_ONCE || this.#isOver) return;
    this.#pages = 0;
    this.#worker ??= this.#begin();
    this.#worker.postMessage(undefined);
  }

  /** Resolves when the thread has ended. */
  stop(): Promise<void> {
    this.#isOver = true;
    // Somebody waits for its end now, so the process must not end before.
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
    // It ends with an error when the file is damaged or the disk fails: whoever uses the
    // FileMap meets that too, and answers for it.
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
