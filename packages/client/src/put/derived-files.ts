import { setImmediate as nextTurn } from 'node:timers/promises';
import { serial } from '@stevedore/async';
import { originOf } from '@stevedore/map';
import {
  type FileRow,
  formatKey,
  isStoreError,
  type NewFile,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import type { Reader } from '../read/reader.js';
import type { GatewayStore } from '../store/gateway-store.js';

/**
 * Files that were made of others, such as pictures in other sizes. They can be made again, so they
 * go first: with the file that they were made of, wherever that was deleted, and the oldest when all
 * together have too many bytes. Nobody waits for a second copy of them.
 */
/** How often all of them are looked at: a deletion may have been missed. */
const LOOK_INTERVAL_MS = 24 * 3_600_000;
const PAGE = 256;

export class DerivedFiles {
  readonly #staging: Staging;
  readonly #store: GatewayStore;
  readonly #reader: Reader;
  readonly #limitBytes: number;
  readonly #inTurn = serial();
  #arrivingBytes = 0;

  /** `limitBytes`: of all together. */
  constructor(staging: Staging, store: GatewayStore, reader: Reader, limitBytes: number) {
    this.#staging = staging;
    this.#store = store;
    this.#reader = reader;
    this.#limitBytes = limitBytes;
  }

  /** Deletes those whose files are gone, now and then. */
  start(): void {
    const { changes } = this.#staging;
    changes.run(this.#look());
    changes.every(LOOK_INTERVAL_MS, () => this.#look());
  }

  /**
   * Stages one, in the room of the oldest; it expires with the file that it was made of. Rejects with
   * `not_found` if that is gone by then.
   */
  async stage(file: NewFile, stage: (admit: () => Promise<void>) => Promise<void>): Promise<void> {
    const of = file.pictureOf!;
    let arrivingBytes = 0;
    try {
      await stage(async () => {
        const { expiresAt } = await this.#store.stat(formatKey(of));
        if (expiresAt) file.expiresAt = Math.min(file.expiresAt ?? Infinity, expiresAt.getTime());
        await this.#inTurn(() => this.#makeRoom(file.size));
        arrivingBytes = file.size;
      });
    } finally {
      this.#arrivingBytes -= arrivingBytes;
    }
    await this.#removeIfGone(of, true);
  }

  /** Deletes here what was made of a file that is gone. */
  async removeOf(original: Buffer): Promise<void> {
    await this.#delete(this.#staging.fileMap.derivedOf(original));
  }

  async #delete(rows: readonly FileRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.#staging.deletions.deleteDerived(rows);
    for (const { key } of rows) this.#reader.forget(key);
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { fileMap } = this.#staging;
    const limitBytes = this.#limitBytes;
    if (bytes > limitBytes) {
      const message = `a derived file of ${bytes} bytes is larger than derivedSize, ${limitBytes} bytes`;
      throw new StoreError('too_large', message);
    }
    for (;;) {
      const { derivedStagedBytes, derivedMergedBytes } = fileMap.counters();
      const all = derivedStagedBytes + derivedMergedBytes + this.#arrivingBytes + bytes;
      const oldest = all > limitBytes ? fileMap.oldestDerived(PAGE) : [];
      if (oldest.length === 0) break;
      let excess = all - limitBytes;
      const rows = oldest.filter(({ size }) => {
        const isNeeded = excess > 0;
        excess -= size;
        return isNeeded;
      });
      await this.#delete(rows);
    }
    this.#arrivingBytes += bytes;
  }

  async #look(): Promise<void> {
    const { fileMap, changes, origin } = this.#staging;
    const { siblings, deployment } = this.#store;
    // A directory of a worker may be open alone, for maintenance.
    const knowsAll = (siblings ?? deployment) !== undefined;
    for (let after: Buffer | undefined = Buffer.alloc(0); after && !changes.isOver; ) {
      const originals: Buffer[] = fileMap.originals(after, PAGE);
      for (const original of originals) {
        if (changes.isOver) return;
        if (knowsAll || originOf(original) === origin) await this.#removeIfGone(original, false);
      }
      after = originals.length < PAGE ? undefined : originals.at(-1);
      await nextTurn();
    }
  }

  /** A server that does not answer may have the file. */
  async #removeIfGone(original: Buffer, rejects: boolean): Promise<void> {
    try {
      await this.#store.stat(formatKey(original));
    } catch (error) {
      if (!isStoreError(error, 'not_found')) return;
      await this.removeOf(original);
      if (rejects) throw error;
    }
  }
}
