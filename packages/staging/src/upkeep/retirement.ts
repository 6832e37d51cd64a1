import type { Container } from '../container/container.js';
import { retiredRecord } from '../container/records.js';
import type { FileMap, TrunkRow } from '../filemap/filemap.js';
import type { TrunkStore } from '../merge/trunk-store.js';
import type { Retention } from './retention.js';

/**
 * Deletes trunks from FastDFS in which nothing is alive any more. That a trunk is given
 * up is a durable record before FastDFS is asked to delete it: from then on no file is
 * looked for in it, whatever becomes of the FileMap, and the deletions of its files
 * need no longer be kept. Asking is repeated until FastDFS has done it.
 */
export interface RetirementParts {
  readonly container: Container;
  readonly fileMap: FileMap;
  readonly retention: Retention;
  readonly trunkStore: TrunkStore;
  readonly now: () => number;
}

const REMOVE_TIMEOUT_MS = 30_000;

export class Retirement {
  readonly #parts: RetirementParts;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: RetirementParts) {
    this.#parts = parts;
  }

  /** One run at a time; a run that fails leaves the rest to the next. */
  run(): Promise<void> {
    const retired = this.#running.then(() => this.#retireAll());
    this.#running = retired.catch(() => undefined);
    return retired;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #retireAll(): Promise<void> {
    const { container, fileMap, trunkStore } = this.#parts;
    for (const trunk of fileMap.deadTrunks()) {
      if (this.#stopped) return;
      if (!this.#isNeeded(trunk)) await this.#giveUp(trunk);
    }
    const retiring = fileMap.trunksIn('retiring');
    if (retiring.length > 0) await container.sync();
    for (const trunk of retiring) {
      if (this.#stopped) return;
      await trunkStore.remove(trunk.fileId!, AbortSignal.timeout(REMOVE_TIMEOUT_MS));
      fileMap.retireTrunk(trunk.id);
    }
  }

  /** Not while retention may write the record of its storing again, behind this one. */
  #giveUp(trunk: TrunkRow): Promise<void> {
    const { taskId, kind, fileId, size, crc32, files, doubtfulSince } = trunk;
    const { container, retention, now } = this.#parts;
    const doubtful = doubtfulSince !== null;
    const stored = { taskId, kind, fileId: fileId!, size, crc32: crc32 ?? 0, files, doubtful };
    return retention.alone(async () => {
      if (this.#isNeeded(trunk)) return;
      await container.append([retiredRecord(stored, now())]);
    });
  }

  /** Until its last file is stored elsewhere, that file can be read in it, or come back to it. */
  #isNeeded(trunk: TrunkRow): boolean {
    const { fileMap } = this.#parts;
    return fileMap.hasUnsettledMoves(trunk) || fileMap.aliveIn(trunk.id, -1, 1).length > 0;
  }
}
