import { deletionRecord } from '../container/records.js';
import { StoreError } from '../errors.js';
import type { FileRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { Rebuild } from '../repair/rebuild.js';
import type { State } from '../state.js';

/** Deletes files on request and when they expire. */
/** Maximum expired files per batch of deletions. */
const EXPIRED_AT_ONCE = 256;

export class Deletions {
  readonly #state: State;
  readonly #rebuild: Rebuild;

  constructor(state: State, rebuild: Rebuild) {
    this.#state = state;
    this.#rebuild = rebuild;
  }

  /**
   * Durable when it resolves, and at the partner or in the map. False if there is no such file. Throws
   * `partner_away`.
   */
  async delete(key: Buffer): Promise<boolean> {
    const { fileMap, copies } = this.#state;
    const row = fileMap.find(key);
    if (!row) {
      if (!this.#rebuild.isComplete && !fileMap.isDeleted(key)) throw unknownYet(key);
      return false;
    }
    const isRecorded = await copies?.secureDeletion(key);
    const isCopied = await this.#deleteRows([row]);
    if (!isCopied && !isRecorded) await copies?.secureDeletion(key);
    return true;
  }

  /** Deletes files that were never acknowledged, as far as the disk allows it. */
  async discard(keys: readonly Buffer[]): Promise<void> {
    const rows = keys.flatMap((key) => this.#state.fileMap.find(key) ?? []);
    await this.#deleteRows(rows).catch((error) => this.#state.changes.report(error));
  }

  /** Deletes expired files. Resolves with their number. */
  async deleteExpired(): Promise<number> {
    const { fileMap, now, changes } = this.#state;
    let deleted = 0;
    while (!changes.isOver) {
      const rows = fileMap.expired(now(), EXPIRED_AT_ONCE);
      if (rows.length === 0) break;
      await this.#deleteRows(rows);
      deleted += rows.length;
    }
    return deleted;
  }

  /** Deletes derived files, which can be made again. */
  async deleteDerived(rows: readonly FileRow[]): Promise<void> {
    await this.#deleteRows(rows);
  }

  /**
   * With what was made of them. False if a second copy is wanted and the partner may not have the
   * deletions.
   */
  async #deleteRows(rows: readonly FileRow[]): Promise<boolean> {
    const { container, fileMap, quarantine, files, spool, changes } = this.#state;
    const now = this.#state.now();
    const isCopied = await container.append(rows.map(({ key }) => deletionRecord(key, now)));
    for (const { key, local } of rows) {
      quarantine.forget(key);
      if (local.at === 'spool' && !files.isPacking(key)) changes.run(spool.remove(key));
    }
    if (rows.some(({ trunk, was }) => trunk || was.length > 0)) changes.emit('thinned');
    // Now, and not before: one may have been made meanwhile.
    const derived = rows.flatMap(({ key }) => fileMap.derivedOf(key));
    if (derived.length > 0) await this.#deleteRows(derived);
    return isCopied;
  }
}

/** The error instead of "not found" while the FileMap is being rebuilt. */
function unknownYet(key: Buffer): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the FileMap is being rebuilt and does not know ${formatKey(key)} yet`,
  );
}
