import { dirname } from 'node:path';
import type { Disk } from '@stevedore/disk';

/** Directories of stored files in which something has changed on the disk: the others need no sync. */
export class TouchedDirectories {
  readonly #disk: Disk;
  readonly #touched = new Set<string>();
  /** Syncs that are under way. */
  readonly #syncs = new Map<string, Promise<void>>();

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  /** Something of this path changes. */
  add(path: string): void {
    this.#touched.add(dirname(path));
  }

  /** Syncs the directory if anything has changed in it, or waits for a sync that is under way. */
  async sync(path: string): Promise<void> {
    const underWay = this.#syncs.get(path);
    if (!this.#touched.delete(path)) return underWay;
    const sync = Promise.all([underWay, this.#disk.syncDirectory(path)]).then(() => {});
    this.#syncs.set(path, sync);
    try {
      await sync;
    } finally {
      if (this.#syncs.get(path) === sync) this.#syncs.delete(path);
    }
  }
}
