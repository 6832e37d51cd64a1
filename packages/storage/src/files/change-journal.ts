import { join, sep } from 'node:path';
import type { Disk, DiskFile } from '@stevedore/disk';
import { JOURNAL_FILE } from '../layout.js';
import { encodeRecord, type JournalChange } from './change-journal-format.js';
import { type ReplayedChange, replayChanges } from './change-recovery.js';
import type { FileBackend } from './file-backend.js';

/**
 * The write-ahead journal of one store path. A change that takes more than one step is
 * recorded and synced before its first step, so that the next start can replay it after a
 * power failure. Records that wait for a running sync share the next one.
 *
 * A change that failed on its disk is unsettled. It is completed or rolled back before
 * anything else happens to the file, so that replaying it at the next start cannot undo a
 * change that was answered later.
 */

/** A longer journal is emptied as soon as no change is in flight. */
const RESTART_BYTES = 2 ** 20;
/** Unsettled changes keep it from being emptied; a longer one takes only `settled` records. */
const MAX_BYTES = 64 * 2 ** 20;
const MAX_BATCH_BYTES = 4 * 2 ** 20;
const MAX_UNSETTLED = 1024;

/** A durably recorded change. Call exactly one of its functions, once. */
export interface Recorded {
  /** The change is applied and durable. */
  done(): void;
  /** The change failed; `settle` completes it or rolls it back. */
  unsettled(settle: () => Promise<void>): void;
}

interface Waiting {
  readonly change: JournalChange;
  readonly chunks: readonly Buffer[];
  readonly bytes: number;
  readonly resolve: (recorded: Recorded) => void;
  readonly reject: (error: unknown) => void;
}

export class ChangeJournal {
  /** The changes that `open` replayed. */
  readonly replayed: readonly ReplayedChange[];
  readonly #directory: string;
  readonly #file: DiskFile;
  /** Where the next record goes. */
  #end = 0;
  #sequence = 1;
  /** Records that failed to sync may follow the end. */
  #isDoubtful = false;
  /** Files with records in the journal. */
  readonly #paths = new Set<string>();
  readonly #unsettled = new Map<string, () => Promise<void>>();
  #queue: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** Recorded changes in flight. */
  #active = 0;
  #idle: (() => void) | undefined;

  private constructor(directory: string, file: DiskFile, replayed: readonly ReplayedChange[]) {
    this.#directory = directory;
    this.#file = file;
    this.replayed = replayed;
  }

  /** Replays the journal, then empties it. */
  static async open(
    disk: Disk,
    dataDirectory: string,
    backend: FileBackend,
  ): Promise<ChangeJournal> {
    const file = await disk.openToUpdate(join(dataDirectory, JOURNAL_FILE));
    try {
      const bytes = Buffer.alloc((await file.stat()).size);
      await file.readAt(bytes, 0);
      const replayed = await replayChanges(disk, backend, dataDirectory, bytes);
      await file.truncate(0);
      await file.sync();
      await disk.syncDirectory(dataDirectory);
      return new ChangeJournal(dataDirectory, file, replayed);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** True if the journal has a record of the file. */
  has(path: string): boolean {
    return this.#paths.has(path);
  }

  /** Resolves once the record is durable. The caller makes changes of one file one at a time. */
  async record(change: JournalChange, body: readonly Buffer[] = []): Promise<Recorded> {
    const isFull = this.#end > MAX_BYTES || this.#unsettled.size > MAX_UNSETTLED;
    if (isFull && change.what !== 'settled') {
      const message = 'too many changes wait for a disk that fails';
      throw Object.assign(new Error(message), { code: 'EIO' });
    }
    const chunks = encodeRecord(this.#sequence++, this.#written(change), body);
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    return new Promise((resolve, reject) => {
      this.#queue.push({ change, chunks, bytes, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  /** The change with paths relative to the data directory. */
  #written(change: JournalChange): JournalChange {
    const inside = (path: string): string =>
      path.slice(this.#directory.length + 1).replaceAll(sep, '/');
    const path = inside(change.path);
    return change.what === 'move'
      ? { ...change, path, to: inside(change.to) }
      : { ...change, path };
  }

  /** Durably voids the file's earlier records. */
  async forget(path: string): Promise<void> {
    (await this.record({ what: 'settled', path })).done();
  }

  isUnsettled(path: string): boolean {
    return this.#unsettled.has(path);
  }

  /** Completes or rolls back the file's unsettled change, if any; rejects if that fails again. */
  async settle(path: string): Promise<void> {
    const settle = this.#unsettled.get(path);
    if (!settle) return;
    await settle();
    this.#unsettled.delete(path);
  }

  /** The next start replays what is still unsettled. */
  async close(): Promise<void> {
    for (const path of [...this.#unsettled.keys()]) await this.settle(path).catch(() => {});
    await this.#writing;
    // So a start after a clean stop replays nothing. If this fails, replaying is harmless.
    const isOver = this.#unsettled.size === 0 && this.#active === 0;
    if (isOver && this.#end > 0) await this.#empty().catch(() => {});
    await this.#file.close();
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      try {
        await this.#makeRoom();
      } catch (error) {
        for (const { reject } of this.#queue.splice(0)) reject(error);
        break;
      }
      const batch = this.#takeBatch();
      try {
        await this.#write(batch);
        for (const waiting of batch) waiting.resolve(this.#recorded(waiting.change));
      } catch (error) {
        // The disk may have written some of them, but a start must not replay them.
        this.#isDoubtful = true;
        for (const { change, reject } of batch) {
          if (!this.#unsettled.has(change.path)) {
            this.#unsettled.set(change.path, () => this.#discardUncertain());
          }
          reject(error);
        }
      }
    }
    this.#writing = undefined;
  }

  async #makeRoom(): Promise<void> {
    await this.#discardUncertain();
    if (this.#end > RESTART_BYTES && this.#unsettled.size === 0) {
      while (this.#active > 0) {
        await new Promise<void>((resolve) => {
          this.#idle = resolve;
        });
      }
      if (this.#unsettled.size === 0) await this.#empty();
    }
  }

  async #empty(): Promise<void> {
    // A crash before the sync leaves only records of completed changes.
    await this.#file.truncate(0);
    await this.#file.sync();
    this.#end = 0;
    this.#paths.clear();
  }

  #takeBatch(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.#queue) {
      if (count > 0 && bytes + waiting.bytes > MAX_BATCH_BYTES) break;
      bytes += waiting.bytes;
      count += 1;
    }
    return this.#queue.splice(0, count);
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    const chunks = batch.flatMap((waiting) => waiting.chunks);
    if (this.#file.writeDurablyAt) await this.#file.writeDurablyAt(chunks, this.#end);
    else {
      await this.#file.writeAt(chunks, this.#end);
      await this.#file.sync();
    }
    for (const { bytes, change } of batch) {
      this.#end += bytes;
      this.#paths.add(change.path);
    }
  }

  async #discardUncertain(): Promise<void> {
    if (!this.#isDoubtful) return;
    await this.#file.truncate(this.#end);
    await this.#file.sync();
    this.#isDoubtful = false;
  }

  #recorded({ path }: JournalChange): Recorded {
    this.#active += 1;
    const end = (): void => {
      this.#active -= 1;
      if (this.#active > 0) return;
      this.#idle?.();
      this.#idle = undefined;
    };
    return {
      done: end,
      unsettled: (settle) => {
        this.#unsettled.set(path, settle);
        end();
      },
    };
  }
}
