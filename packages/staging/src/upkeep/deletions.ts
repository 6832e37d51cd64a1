import type { Background } from '../background.js';
import { deletionRecord } from '../container/records.js';
import type { StagedCopies } from '../copies/staged-copies.js';
import { StoreError } from '../errors.js';
import type { FileRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { Stores } from '../merge/trunk-store.js';
import type { WaitingFiles } from '../merge/waiting-files.js';
import type { Quarantine } from '../repair/quarantine.js';
import type { Rebuild } from '../repair/rebuild.js';

/** Deletes files on request and when they expire. */
export interface DeletionsParts extends Stores {
  readonly quarantine: Quarantine;
  readonly files: WaitingFiles;
  readonly background: Background;
  readonly rebuild: Rebuild;
  readonly copies: StagedCopies | undefined;
  /** The file is no longer excluded from trunks. */
  readonly include: (key: Buffer) => void;
  /** Trunks have lost files. */
  readonly onDead: () => void;
}

/** Maximum expired files per batch of deletions. */
const EXPIRED_AT_ONCE = 256;

export class Deletions {
  readonly #parts: DeletionsParts;

  constructor(parts: DeletionsParts) {
    this.#parts = parts;
  }

  /**
   * Durable when it resolves, and at the partner or in the map. False if there is no such file. Throws
   * `partner_away`.
   */
  async delete(key: Buffer): Promise<boolean> {
    const { fileMap, rebuild } = this.#parts;
    const row = fileMap.find(key);
    if (!row) {
      if (!rebuild.isComplete && !fileMap.isDeleted(key)) throw unknownYet(key);
      return false;
    }
    const { copies } = this.#parts;
    await copies?.secureDeletion(key);
    if (!(await this.#deleteRows([row]))) await copies?.secureDeletion(key);
    return true;
  }

  /** Deletes files that were never acknowledged, as far as the disk allows it. */
  async discard(keys: readonly Buffer[]): Promise<void> {
    const rows = keys.flatMap((key) => this.#parts.fileMap.find(key) ?? []);
    await this.#deleteRows(rows).catch((error) => this.#parts.background.report(error));
  }

  /** Deletes expired files. Resolves with their number. */
  async deleteExpired(): Promise<number> {
    const { fileMap, now, background } = this.#parts;
    let deleted = 0;
    while (!background.isOver) {
      const rows = fileMap.expired(now(), EXPIRED_AT_ONCE);
      if (rows.length === 0) break;
      await this.#deleteRows(rows);
      deleted += rows.length;
    }
    return deleted;
  }

  /** False if a second copy is wanted and the partner may not have it. */
  async #deleteRows(rows: readonly FileRow[]): Promise<boolean> {
    const { container, quarantine, files, spool, background, include, onDead } = this.#parts;
    const now = this.#parts.now();
    const isCopied = await container.append(rows.map(({ key }) => deletionRecord(key, now)));
    for (const { key, local } of rows) {
      quarantine.forget(key);
      include(key);
      if (local.at === 'spool' && !files.isPacking(key)) background.run(spool.remove(key));
    }
    if (rows.some(({ trunk, was }) => trunk || was.length > 0)) onDead();
    return isCopied;
  }
}

/** The error instead of "not found" while the FileMap is being rebuilt. */
function unknownYet(key: Buffer): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the FileMap is being rebuilt and does not know ${formatKey(key)} yet`,
    { retryable: true },
  );
}
