import { join, relative, sep } from 'node:path';
import type { Disk, DiskFile } from '@stevedore/disk';
import { JOURNAL_FILE } from '../layout.js';
import { encodeRecord, type JournalChange } from './change-journal-format.js';
import { type RedoneChange, redoChanges } from './change-recovery.js';
import type { FileBackend } from './file-backend.js';

/**
 * What is about to happen to files of one store path, written down and synced before
 * it happens wherever it takes more than one step: a power failure in the middle is
 * made good at the next start. Those that wait while a sync is under way are written
 * together by the next one.
 *
 * A change that its disk did not let come to its end is unsettled: before anything
 * else is done with that file it is carried through or taken back, so that nothing
 * which was answered later can be overtaken by it at the next start.
 */

/** Once it is longer, the journal is emptied as soon as nothing is under way. */
const RESTART_BYTES = 2 ** 20;
/** While changes are unsettled it cannot be emptied; beyond this it takes no more. */
const MAX_BYTES = 64 * 2 ** 20;
const MAX_BATCH_BYTES = 4 * 2 ** 20;
const MAX_UNSETTLED = 1024;

/** A change that the journal has, durably. One of its functions is to be called once. */
export interface Recorded {
  /** It has happened, durably. */
  done(): void;
  /** It has not: `settle` is to carry it through or to take it back. */
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
  /** What was carried through when it was opened. */
  readonly redone: readonly RedoneChange[];
  readonly #directory: string;
  readonly #file: DiskFile;
  /** Where the next record goes. */
  #end = 0;
  #sequence = 1;
  /** Something that never counted may lie behind the end. */
  #isDoubtful = false;
  /** Files that records in the journal are about. */
  readonly #paths = new Set<string>();
  readonly #unsettled = new Map<string, () => Promise<void>>();
  #queue: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** Records whose change is being made. */
  #active = 0;
  #idle: (() => void) | undefined;

  private constructor(directory: string, file: DiskFile, redone: readonly RedoneChange[]) {
    this.#directory = directory;
    this.#file = file;
    this.redone = redone;
  }

  /** Carries out what was recorded before, and begins an empty journal. */
  static async open(
    disk: Disk,
    dataDirectory: string,
    backend: FileBackend,
  ): Promise<ChangeJournal> {
    const file = await disk.openToUpdate(join(dataDirectory, JOURNAL_FILE));
    try {
      const bytes = Buffer.alloc((await file.stat()).size);
      await file.readAt(bytes, 0);
      const redone = await redoChanges(disk, backend, dataDirectory, bytes);
      await file.truncate(0);
      await file.sync();
      await disk.syncDirectory(dataDirectory);
      return new ChangeJournal(dataDirectory, file, redone);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** True if a record that is still in the journal is about the file. */
  has(path: string): boolean {
    return this.#paths.has(path);
  }

  /** Resolves once the change is durably written down. Changes of one file take turns. */
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

  /** Records carry paths relative to the data directory, with forward slashes. */
  #written(change: JournalChange): JournalChange {
    const inside = (path: string): string => relative(this.#directory, path).replaceAll(sep, '/');
    const path = inside(change.path);
    return change.what === 'move'
      ? { ...change, path, to: inside(change.to) }
      : { ...change, path };
  }

  /** What was recorded of the file counts no more, even after a crash. */
  async forget(path: string): Promise<void> {
    (await this.record({ what: 'settled', path })).done();
  }

  isUnsettled(path: string): boolean {
    return this.#unsettled.has(path);
  }

  /** Brings to an end what a failing disk has left of a change; rejects if it still fails. */
  async settle(path: string): Promise<void> {
    const settle = this.#unsettled.get(path);
    if (!settle) return;
    await settle();
    this.#unsettled.delete(path);
  }

  /** What is still unsettled then is carried through by the next start. */
  async close(): Promise<void> {
    for (const path of [...this.#unsettled.keys()]) await this.settle(path).catch(() => {});
    await this.#writing;
    // So that a start after an end in good order has nothing to do again; it may as well.
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
        // What the disk has of them is unknown: they must not come to life at a start.
        this.#isDoubtful = true;
        for (const { change, reject } of batch) {
          if (!this.#unsettled.has(change.path)) {
            this.#unsettled.set(change.path, () => this.#dropDoubtful());
          }
          reject(error);
        }
      }
    }
    this.#writing = undefined;
  }

  async #makeRoom(): Promise<void> {
    await this.#dropDoubtful();
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
    // Until the sync is done, what follows the end is what has been carried through.
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
    await this.#file.writeAt(chunks, this.#end);
    await this.#file.sync();
    for (const { bytes, change } of batch) {
      this.#end += bytes;
      this.#paths.add(change.path);
    }
  }

  async #dropDoubtful(): Promise<void> {
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
