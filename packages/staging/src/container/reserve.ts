import { type Disk, removeIfThere } from '@stevedore/disk';
import { isStoreError, storeErrorOf } from '../errors.js';

/**
 * A file that makes way on a full disk: for the head of a new segment and the records that must
 * outlive the current one. Then the current one can go, once all of its files are merged.
 */
const NAME = 'reserve';
const BYTES = 64 * 1024;

export class Reserve {
  readonly #disk: Disk;
  readonly #path: string;
  #isThere = false;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#path = `${folder}/${NAME}`;
  }

  /** Call while there is room. Need not be durable. */
  async keep(): Promise<void> {
    if (this.#isThere) return;
    await removeIfThere(this.#disk, this.#path);
    const file = await this.#disk.create(this.#path);
    try {
      await file.writeAt([Buffer.alloc(BYTES)], 0);
    } finally {
      await file.close();
    }
    this.#isThere = true;
  }

  /** Runs the work; if the disk is full, once more in the room of the reserve. */
  async spend<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isStoreError(storeErrorOf(error), 'disk_full')) throw error;
      this.#isThere = false;
      if (!(await removeIfThere(this.#disk, this.#path))) throw error;
      return work();
    }
  }
}
