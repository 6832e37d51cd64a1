import { serial } from '@stevedore/async';
import type { NewFile } from '../container/records.js';
import type { SpoolWriter } from '../container/spool.js';
import { isStoreError, type StoreError, type StoreErrorCode, storeErrorOf } from '../errors.js';
import { pastLocks } from '../filemap/locks.js';
import { FOLDERS, freeBytes, TRIAL_BYTES, tryFolder } from '../folders.js';
import type { State } from '../state.js';
import type { Retention } from './retention.js';
import type { RoomStats } from './room.js';

/**
 * Accepts new files: makes room for each before a byte of it is written, and refuses it if there is
 * none.
 */

/** Space that a new segment's header and small records may need in addition to a file's bytes. */
const RECORD_ROOM_BYTES = 4096;

/** A disk that has not answered a write by then hangs. */
const DISK_LIMIT_MS = 10_000;

/** Failures that say nothing about one upload alone. */
const TROUBLES: ReadonlySet<StoreErrorCode> = new Set([
  'disk_failed',
  'disk_full',
  'filemap_locked',
  'overloaded',
]);

export class Acceptance {
  readonly #state: State;
  readonly #retention: Retention;
  readonly #inTurn = serial();
  /** Why an upload could not be written, until a trial works. */
  #failure: StoreError | undefined;

  constructor(state: State, retention: Retention) {
    this.#state = state;
    this.#retention = retention;
  }

  /**
   * Stages all of the files or none. Resolves once they are as durable as the options ask for; with
   * `sync` false, once they are in the page cache: they are lost if the machine stops soon after.
   * False if a second copy is wanted and the partner may not have them.
   */
  stage(files: readonly NewFile[], sync = true): Promise<boolean> {
    const { container, room, options } = this.#state;
    const isSync = sync && options.durability === 'sync';
    let bytes = RECORD_ROOM_BYTES * files.length;
    for (const { at, size } of files) if (at === 'container') bytes += size;
    if (room.fits(bytes)) return container.append(files, isSync);
    return this.makeRoom(bytes).then(() => container.append(files, isSync));
  }

  /**
   * Begins a spool file for a large body. `bytes` is its length as far as known. `isBack`: for a
   * file that returns to the spool.
   */
  async beginSpooled(key: Buffer, bytes: number, isBack = false): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#state.spool.begin(key, isBack);
  }

  /** Evicts read copies first. Throws `container_full`, `disk_full`. */
  async makeRoom(bytes: number): Promise<void> {
    const { room, changes } = this.#state;
    if (room.shortage(bytes) > 0) {
      changes.emit('mergeable');
      await this.#inTurn(() => this.#trim(room.shortage(bytes)));
    }
    room.demand(bytes);
  }

  /** Throws `container_full`, `disk_full` if a body being received uses up the space. */
  checkRoom(): void {
    this.#state.room.demand(0);
  }

  /** Why a small file would be refused; undefined if it would be accepted. */
  refusal(): StoreErrorCode | undefined {
    const lack = this.#state.room.lack(RECORD_ROOM_BYTES);
    if (lack) return lack === 'disk' ? 'disk_full' : 'container_full';
    if (this.#state.container.unanswered.oldestMs > DISK_LIMIT_MS) return 'disk_failed';
    return this.#failure?.code;
  }

  /**
   * Notes that an upload failed, and returns its error as a StoreError. If the disk or the FileMap
   * did, uploads count as refused until a trial works: free bytes do not tell of a quota, of inodes
   * or of a broken disk.
   */
  noteFailure(error: unknown): unknown {
    const failure = storeErrorOf(error);
    if (isStoreError(failure) && failure.cause && TROUBLES.has(failure.code)) {
      this.#failure = failure;
    }
    return failure;
  }

  stats(): RoomStats {
    const stats = this.#state.room.stats();
    return this.#failure?.code === 'disk_full' ? { ...stats, full: 'disk' } : stats;
  }

  /**
   * Checks the disk and frees space before an upload has to wait for it. Other programs, such as a
   * storage on the same disk, may use space too.
   */
  async lookAtDisk(): Promise<void> {
    const { room, container } = this.#state;
    await this.#look();
    // A server that only says that it is full gets no upload that would make it free room.
    const nearly = Math.max(room.uncomfortableBytes, room.shortage(RECORD_ROOM_BYTES));
    if (nearly > 0) await this.#inTurn(() => this.#trim(nearly));
    if (!this.#failure) {
      if (nearly <= 0) await container.reserve.keep();
      return;
    }
    try {
      // Throws if an upload could not be written either.
      const { disk, fileMap, options } = this.#state;
      for (const folder of FOLDERS) await tryFolder(disk, `${options.directory}/${folder}`);
      await pastLocks(() => fileMap.setSynced(0, 0));
      this.#failure = undefined;
    } catch (error) {
      this.noteFailure(error);
      // Free bytes may not show it, but what is merged can go.
      if (isStoreError(this.#failure, 'disk_full'))
        await this.#inTurn(() => this.#trim(TRIAL_BYTES));
    }
  }

  #look(): Promise<void> {
    const { room, disk, options } = this.#state;
    return room.look(() => freeBytes(disk, options.directory));
  }

  /** The previous caller may have freed enough. */
  async #trim(neededBytes: number): Promise<void> {
    if (neededBytes === 0) return;
    await this.#retention.trim(neededBytes);
    await this.#look();
  }
}
