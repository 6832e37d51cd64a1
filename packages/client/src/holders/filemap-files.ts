import {
  type FileRow,
  fileIdOf,
  formatKey,
  partIn,
  type ReadableStaging,
  StoreError,
} from '@stevedore/staging';
import { notFound } from '../read/failures.js';
import { FileHandle } from '../read/stored-file.js';
import { DELETED } from '../store/receipt.js';
import type { FileState, Receipt } from '../store/types.js';
import { type Found, type Holder, type HolderContext, receiptOf } from './holder.js';

/** Files of a FileMap on this machine: of this process, or of a sibling. */
export class FileMapFiles implements Holder {
  readonly staging: ReadableStaging;
  readonly #context: HolderContext;
  readonly #remove: (key: Buffer) => Promise<boolean>;

  /** `remove` deletes a file; false if there is none. */
  constructor(
    staging: ReadableStaging,
    context: HolderContext,
    remove: (key: Buffer) => Promise<boolean>,
  ) {
    this.staging = staging;
    this.#context = context;
    this.#remove = remove;
  }

  /** As `find`, if no storage has to be asked. */
  findNow(key: Buffer): Found | undefined {
    const row = this.row(key);
    return this.#context.reader.downloads.missing.has(row.trunk?.fileId)
      ? undefined
      : this.file(row);
  }

  async find(key: Buffer): Promise<Found> {
    return this.present(this.row(key));
  }

  async delete(key: Buffer): Promise<boolean> {
    this.row(key);
    if (!(await this.#remove(key))) throw notFound(formatKey(key));
    return true;
  }

  /** Throws `not_found`, `storage_unavailable`. */
  row(key: Buffer): FileRow {
    const { fileMap, rebuild } = this.staging;
    const row = fileMap.find(key);
    if (row) return this.alive(row);
    const name = formatKey(key);
    if (rebuild.isComplete || fileMap.isDeleted(key)) throw notFound(name);
    throw new StoreError(
      'storage_unavailable',
      `the FileMap is being rebuilt and does not know ${name} yet`,
    );
  }

  /**
   * Throws `not_found` also for an expired file that is not yet deleted, and for one that another
   * server deleted. `id`: by which it was asked for.
   */
  alive(row: FileRow, id?: string): FileRow {
    const isGone =
      this.#context.deployment?.isKnownRemoved(row.key) ||
      (row.expiresAt !== undefined && row.expiresAt <= this.#context.now());
    if (isGone) throw notFound(id ?? formatKey(row.key));
    return row;
  }

  /** A living file, unless a read found that FastDFS has lost it. */
  async present(row: FileRow): Promise<Found> {
    const loss = await this.#context.reader.downloads.lossOfRow(row, this.staging);
    if (loss) throw loss;
    return this.file(row);
  }

  file(row: FileRow): Found {
    const { staging } = this;
    const facts = this.#factsOf(row);
    const { key, size } = facts;
    return new FileHandle(facts, { kind: 'local', key, size, row, staging }, this.#context.reader);
  }

  receipt(row: FileRow): Receipt {
    const fileId = fileIdOf(row);
    const facts = this.#factsOf(row);
    return fileId === undefined ? facts : { ...facts, fileId };
  }

  /** Undefined until the file has one; throws `not_found` if it never will. */
  fileIdOf(key: Buffer): string | undefined {
    const row = this.row(key);
    const id = fileIdOf(row);
    if (id !== undefined || !row.trunk || row.trunk.isThin) return id;
    throw new StoreError(
      'not_found',
      `${formatKey(key)} is merged, but no FastDFS id can be made for it from ${row.trunk.fileId}; read it by its key`,
    );
  }

  /** Receipts of the upload with this mark since then, each in its place. */
  findOnce(once: Buffer, since: number): Receipt[] {
    const marked = this.staging.fileMap.findOnce(once);
    // A long upload counts from its last file on.
    if (marked.every(({ stagedAt }) => stagedAt < since)) return [];
    const { now } = this.#context;
    const left = marked.filter(({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt > now());
    const parts = left.map(({ once: mark = '' }) => partIn(mark));
    const receipts = new Array<Receipt>(parts[0]?.count ?? left.length).fill(DELETED);
    for (const [at, row] of left.entries()) receipts[parts[at]?.place ?? at] = this.receipt(row);
    return receipts;
  }

  #factsOf(row: FileRow): Receipt {
    return receiptOf(row, stateOf(row, this.staging));
  }
}

function stateOf(row: FileRow, { files }: ReadableStaging): FileState {
  if (row.trunk) return row.trunk.isThin ? 'packing' : 'merged';
  return files.isPacking(row.key) ? 'packing' : 'staged';
}
