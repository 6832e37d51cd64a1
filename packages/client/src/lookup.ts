import type { Readable } from 'node:stream';
import type { FastdfsClient } from '@stevedore/fastdfs';
import type { MappedFile } from '@stevedore/map';
import {
  type FileId,
  fileKind,
  formatFileId,
  isTrunkId,
  ProtocolError,
  parseFileId,
  parseSliceId,
  type SliceId,
  type TrunkEntry,
} from '@stevedore/protocol';
import {
  type FileRow,
  fileIdOf,
  formatKey,
  isStoreError,
  parseKey,
  partIn,
  type ReadableStaging,
  StoreError,
  type TrunkRow,
} from '@stevedore/staging';
import type { ForeignFiles } from './deployment/foreign-files.js';
import type { Downloads, Signal } from './downloads.js';
import { notAnId, notFound, storageError, unsupported } from './failures.js';
import {
  extensionInName,
  ForeignSlices,
  factsOfEntry,
  isSameFile,
  keyInName,
  TrunkDirectories,
} from './foreign-trunks.js';
import type { PendingIds } from './id-pending.js';
import { DEFAULT_TYPE } from './intake.js';
import type { Reader, RemoteFile } from './reader.js';
import type { Reads } from './reads.js';
import { DELETED } from './receipt.js';
import {
  type FileFacts,
  FileHandle,
  type FileSource,
  lengthOf,
  type ReadContent,
} from './stored-file.js';
import type {
  ByteRange,
  FileInfo,
  FileState,
  GetOptions,
  IdPending,
  Receipt,
  StoredFile,
} from './types.js';

/**
 * Finds files by key, by slice id or by any FastDFS id. A slice id is valid only if the FileMap or
 * the trunk's own directory has exactly that slice; any other is `not_found`.
 */

const SETTLED: ReadonlySet<TrunkRow['state']> = new Set(['confirmed', 'retiring', 'retired']);

/** A file of this store, of a sibling or of another server, or one that only FastDFS knows. */
export type Deletable =
  | { readonly key: Buffer; readonly sibling?: SiblingToAsk }
  | { readonly foreignKey: Buffer }
  | { readonly fileId: string; readonly slice?: SliceId };

/** Another process of this machine, whose files are found here, too. */
export interface SiblingToAsk {
  readonly staging: ReadableStaging;
  readonly lookup: Lookup;
  readonly delete: (key: string) => Promise<boolean>;
}

export interface SiblingsToAsk {
  readonly all: readonly SiblingToAsk[];
  readonly ofKey: (key: Buffer, isHere: () => boolean) => SiblingToAsk | undefined;
}

export interface LookupParts {
  readonly staging: ReadableStaging;
  readonly client: FastdfsClient;
  readonly downloads: Downloads;
  readonly reader: Reader;
  readonly now: () => number;
  readonly reads: Reads;
  readonly pendingIds: PendingIds;
  /** The other servers of the deployment. */
  readonly foreignFiles: ForeignFiles | undefined;
  /** The sibling processes. */
  readonly siblings?: SiblingsToAsk | undefined;
}

export class Lookup {
  readonly #parts: LookupParts;
  readonly #directories: TrunkDirectories;
  readonly #foreign: ForeignSlices;

  constructor(parts: LookupParts) {
    this.#parts = parts;
    this.#foreign = new ForeignSlices((id) => parts.downloads.exists(id));
    this.#directories = new TrunkDirectories(parts.downloads);
  }

  /** As `find`, for a key of this store; undefined if others may have to be asked. */
  findNow(id: string): StoredFile | undefined {
    const key = parseKey(id);
    if (!key || this.#siblingOf(key)) return undefined;
    const { foreignFiles } = this.#parts;
    if (foreignFiles?.isForeign(key)) return foreignFiles.findNow(key);
    const row = this.#ownRow(key, id);
    const isLost = this.#parts.downloads.missing.has(row.trunk?.fileId);
    return isLost ? undefined : this.#storedRow(row);
  }

  async find(id: string, { signal, onlyHere = false }: GetOptions): Promise<StoredFile> {
    const key = parseKey(id);
    if (key) {
      const sibling = this.#siblingOf(key);
      if (sibling) {
        // Its own process may not have heard yet what another server has deleted.
        if (this.#parts.foreignFiles?.isKnownRemoved(key)) throw notFound(id);
        return sibling.lookup.find(id, { onlyHere: true });
      }
      const foreign = this.#foreignKey(key, onlyHere);
      if (foreign) return foreign.find(key, signal);
      return this.#presentRow(this.row(id));
    }
    const fileId = parseFileId(id);
    if (!fileId) throw notAnId(id);
    const slice = parseSliceId(fileId);
    const sibling = this.#siblingWith(fileId, slice);
    if (sibling) return sibling.lookup.find(id, { onlyHere: true, signal });
    return slice ? this.#findSlice(id, slice) : this.#findPlain(fileId, signal);
  }

  /** The other process of this machine that has the file or issued its key. */
  #siblingOf(key: Buffer): SiblingToAsk | undefined {
    const { siblings, staging } = this.#parts;
    return siblings?.ofKey(key, () => staging.fileMap.isAlive(key));
  }

  /** The other process of this machine that has this trunk or large file. */
  #siblingWith(fileId: FileId, slice: SliceId | undefined): SiblingToAsk | undefined {
    const { siblings } = this.#parts;
    if (!siblings) return undefined;
    const place = [formatFileId(slice?.trunk ?? fileId), slice?.offset ?? 0] as const;
    return this.knows(...place)
      ? undefined
      : siblings.all.find(({ lookup }) => lookup.knows(...place));
  }

  /** True if a file of this store is, or was, at this place. */
  knows(fileId: string, offset: number): boolean {
    const { fileMap } = this.#parts.staging;
    return (
      fileMap.trunkByFileId(fileId) !== undefined || fileMap.forwardOf(fileId, offset) !== undefined
    );
  }

  /** By key alone. Throws `invalid_id`, `not_found`, `storage_unavailable`. */
  row(key: string): FileRow {
    const parsed = parseKey(key);
    if (!parsed) throw new StoreError('invalid_id', `"${key}" is not a key`);
    const sibling = this.#siblingOf(parsed);
    return sibling ? sibling.lookup.row(key) : this.#ownRow(parsed, key);
  }

  #ownRow(parsed: Buffer, key: string): FileRow {
    const { fileMap, rebuild } = this.#parts.staging;
    const row = fileMap.find(parsed);
    if (row) return this.#alive(row, key);
    if (rebuild.isComplete || fileMap.isDeleted(parsed)) throw notFound(key);
    throw new StoreError(
      'storage_unavailable',
      `the FileMap is being rebuilt and does not know ${key} yet`,
    );
  }

  /** True for a key of another machine. */
  isForeign(key: Buffer): boolean {
    return !this.#siblingOf(key) && this.#foreignKey(key, false) !== undefined;
  }

  /** The other servers, if one of them has to be asked for the key. */
  #foreignKey(key: Buffer, onlyHere: boolean): ForeignFiles | undefined {
    const { foreignFiles, staging } = this.#parts;
    if (onlyHere || !foreignFiles?.isForeign(key)) return undefined;
    // An adopted file is like this store's own.
    const isHere = staging.fileMap.find(key) !== undefined || staging.fileMap.isDeleted(key);
    return isHere ? undefined : foreignFiles;
  }

  /** Reads a file of another server, from its place in FastDFS according to the map. */
  readMapped(name: string, file: MappedFile, ...[range, signal]: Parameters<ReadContent>) {
    const { trunkFileId: fileId, offset, size, crc32 } = file;
    const id = parseFileId(fileId);
    const groupAround = (maxBytes: number) =>
      id && isTrunkId(id)
        ? this.#directories.groupAround({ trunk: id, offset }, maxBytes)
        : undefined;
    const remote = { fileId, offset, size, crc32, isKnown: true, groupAround, name };
    return this.#parts.reader.readRemote(remote, range, signal);
  }

  /** Receipts of the upload with this mark since then, each in its place. */
  findOnce(once: Buffer, since: number): Receipt[] {
    const { staging, siblings, now } = this.#parts;
    const marked = staging.fileMap.findOnce(once);
    // A long upload counts from its last file on.
    const isLate = marked.every(({ stagedAt }) => stagedAt < since);
    const left = marked.filter(({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt > now());
    if (!isLate && left.length > 0) return inPlaces(left, (row) => this.factsOf(row));
    for (const { lookup } of siblings?.all ?? []) {
      const found = lookup.findOnce(once, since);
      if (found.length > 0) return found;
    }
    return [];
  }

  /**
   * True also for an expired file that is not yet deleted, and for one that another server deleted.
   */
  #alive(row: FileRow, id: string): FileRow {
    if (this.#parts.foreignFiles?.isKnownRemoved(row.key)) throw notFound(id);
    if (row.expiresAt !== undefined && row.expiresAt <= this.#parts.now()) throw notFound(id);
    return row;
  }

  #demandUnexpired({ expiresAt }: Pick<FileFacts, 'expiresAt'>, id: string): void {
    if (expiresAt && expiresAt.getTime() <= this.#parts.now()) throw notFound(id);
  }

  /** A living file, unless a read found that FastDFS has lost it. */
  async #presentRow(row: FileRow): Promise<StoredFile> {
    const loss = await this.#parts.downloads.lossOfRow(row);
    if (loss) throw loss;
    return this.#storedRow(row);
  }

  #storedRow(row: FileRow): StoredFile {
    const facts = this.#factsBesideId(row);
    return new FileHandle(facts, new RowSource(this.#parts, row, facts.key));
  }

  /** The facts of a file of this store or of a sibling, with why it has no id. */
  infoOf(row: FileRow): FileInfo {
    const idPending = this.#parts.pendingIds.of(row, this.#parts.staging);
    return idPending ? { ...this.factsOf(row), idPending } : this.factsOf(row);
  }

  /** The facts of a file of this store or of a sibling. */
  factsOf(row: FileRow): Receipt {
    const fileId = fileIdOf(row);
    const facts = this.#factsBesideId(row);
    return fileId === undefined ? facts : { ...facts, fileId };
  }

  #factsBesideId(row: FileRow): Receipt {
    const facts: { -readonly [Name in keyof Receipt]: Receipt[Name] } = {
      key: formatKey(row.key),
      name: row.name,
      size: row.size,
      type: row.type,
      crc32: row.crc32,
      state: this.#stateOf(row),
      stagedAt: new Date(row.stagedAt),
    };
    if (row.group !== undefined) facts.group = row.group;
    if (row.expiresAt !== undefined) facts.expiresAt = new Date(row.expiresAt);
    if (row.pictureOf) facts.pictureOf = formatKey(row.pictureOf);
    return facts;
  }

  #stateOf(row: FileRow): FileState {
    if (row.trunk) return row.trunk.isThin ? 'packing' : 'merged';
    return this.#parts.staging.files.isPacking(row.key) ? 'packing' : 'staged';
  }

  /**
   * What deleting `id` would delete. Rejects as `find`, and with `invalid_id` for a whole trunk.
   */
  async toDelete(id: string, onlyHere: boolean): Promise<Deletable> {
    const key = parseKey(id);
    if (key) {
      const sibling = this.#siblingOf(key);
      if (sibling) return { key: sibling.lookup.row(id).key, sibling };
      if (this.#foreignKey(key, onlyHere)) return { foreignKey: key };
      return { key: this.row(id).key };
    }
    const fileId = parseFileId(id);
    if (!fileId) throw notAnId(id);
    const slice = parseSliceId(fileId);
    const sibling = this.#siblingWith(fileId, slice);
    if (sibling) return { ...(await sibling.lookup.toDelete(id, true)), sibling };
    if (slice) {
      const found = await this.#resolveSlice(id, slice);
      if ('row' in found) return { key: this.#alive(found.row, id).key };
      this.#demandUnexpired(factsOfEntry(found.entry, slice), id);
      const inTrunk = parseKey(keyInName(found.entry.name));
      if (inTrunk && this.#foreignKey(inTrunk, onlyHere)) return { foreignKey: inTrunk };
      return { fileId: id, slice };
    }
    if (isTrunkId(fileId)) {
      throw new StoreError('invalid_id', `"${id}" is a trunk; delete the files in it instead`);
    }
    const row = this.#resolvePlain(id);
    return row ? { key: this.#alive(row, id).key } : { fileId: id };
  }

  /** Deletes a file that only FastDFS knows. */
  async deleteRemote(fileId: string, slice: SliceId | undefined): Promise<void> {
    const isStock = (): boolean => slice !== undefined && this.#foreign.isStock(slice.trunk.group);
    try {
      if (isStock()) throw unsupported(fileId);
      await this.#parts.client.delete(fileId);
    } catch (error) {
      const failure = storageError(error, fileId);
      throw slice && isStoreError(failure, 'not_found') ? unsupported(fileId) : failure;
    }
    if (!slice) return;
    this.#foreign.forget(fileId);
    this.#parts.reader.forgetRemote(formatFileId(slice.trunk), slice.offset);
  }

  /** Resolves a slice id only if the FileMap or the trunk's directory has exactly this slice. */
  async #resolveSlice(
    id: string,
    slice: SliceId,
  ): Promise<{ readonly row: FileRow } | { readonly entry: TrunkEntry }> {
    const trunkId = formatFileId(slice.trunk);
    const trunk = this.#parts.staging.fileMap.trunkByFileId(trunkId);
    const row = trunk && this.#parts.staging.fileMap.findInTrunk(trunk.id, slice.offset);
    if (row && fileIdOf(row) === id) return { row };
    const moved = this.#parts.staging.fileMap.forwarded(trunkId, slice.offset);
    if (moved && isSameFile(moved, slice)) return { row: moved };
    // The FileMap knows every living file of such a trunk.
    if (trunk && SETTLED.has(trunk.state)) throw notFound(id);
    const entry = await this.#entryOf(id, slice);
    const key = parseKey(keyInName(entry.name));
    if (!key) throw notFound(id);
    const { staging } = this.#siblingOf(key) ?? this.#parts;
    if (staging.fileMap.isDeleted(key)) throw notFound(id);
    const known = staging.fileMap.find(key);
    if (known && fileIdOf(known) === id) return { row: known };
    const { foreignFiles } = this.#parts;
    if (foreignFiles?.isForeign(key) && (await foreignFiles.isRemoved(key))) throw notFound(id);
    const others = () => this.#directories.idsIn(slice);
    if (await this.#foreign.isDeleted(slice.trunk.group, id, others)) throw notFound(id);
    return { entry };
  }

  async #findSlice(id: string, slice: SliceId): Promise<StoredFile> {
    const found = await this.#resolveSlice(id, slice);
    if ('row' in found) return this.#presentRow(this.#alive(found.row, id));
    const facts = factsOfEntry(found.entry, slice);
    this.#demandUnexpired(facts, id);
    const file = {
      fileId: formatFileId(slice.trunk),
      offset: slice.offset,
      size: slice.size,
      crc32: slice.crc32,
      groupAround: (maxBytes: number) => this.#directories.groupAround(slice, maxBytes),
    };
    return this.#remoteHandle({ ...facts, fileId: id }, file);
  }

  async #entryOf(id: string, slice: SliceId): Promise<TrunkEntry> {
    try {
      const entry = await this.#directories.find(slice);
      // The extension is part of the id, but `find` does not compare it.
      const extension = extensionInName(entry?.name ?? '');
      if (!entry || extension !== slice.extension) throw notFound(id);
      return entry;
    } catch (error) {
      // A file that is not a trunk has no slices.
      if (error instanceof ProtocolError) throw notFound(id);
      throw error;
    }
  }

  /** A large file of this store; undefined for a file that only FastDFS knows. */
  #resolvePlain(id: string): FileRow | undefined {
    const trunk = this.#parts.staging.fileMap.trunkByFileId(id);
    const row =
      trunk?.kind === 'whole' ? this.#parts.staging.fileMap.findInTrunk(trunk.id, 0) : undefined;
    // It may have been stored again after a storage damaged it.
    const found = row ?? this.#parts.staging.fileMap.forwarded(id, 0);
    if (!found && trunk?.kind === 'whole' && trunk.deadFiles > 0) throw notFound(id);
    return found;
  }

  /** A FastDFS file that is not a slice, such as a large file of this store. */
  async #findPlain(fileId: FileId, signal: Signal): Promise<StoredFile> {
    const id = formatFileId(fileId);
    const row = this.#resolvePlain(id);
    if (row) return this.#presentRow(this.#alive(row, id));
    const info = await this.#parts.downloads.info(id, signal);
    const fixed = fileKind(fileId) === 'normal' || fileKind(fileId) === 'slot';
    const facts: FileFacts = {
      name: fileId.base,
      size: info.size,
      type: DEFAULT_TYPE,
      crc32: info.crc32,
      state: 'merged',
      stagedAt: new Date(info.mtimeSeconds * 1000),
      fileId: id,
    };
    const file = { fileId: id, offset: 0, size: info.size, crc32: fixed ? info.crc32 : undefined };
    return this.#remoteHandle(facts, file);
  }

  /** A file that only FastDFS knows. */
  #remoteHandle(facts: FileFacts, file: RemoteFile): StoredFile {
    const { reader, reads } = this.#parts;
    const read = (isOwn: boolean, range: ByteRange | undefined, signal: Signal) =>
      reads.run(facts.key, lengthOf(range, facts.size), () =>
        reader.readRemote(file, range, signal, isOwn),
      );
    return new FileHandle(facts, {
      read: (range, signal) => read(false, range, signal),
      readOwn: (signal) => read(true, undefined, signal),
    });
  }
}

/** Of one upload. */
function inPlaces(rows: readonly FileRow[], factsOf: (row: FileRow) => Receipt): Receipt[] {
  const parts = rows.map(({ once = '' }) => partIn(once));
  const receipts = new Array<Receipt>(parts[0]?.count ?? rows.length).fill(DELETED);
  for (const [index, row] of rows.entries()) receipts[parts[index]?.place ?? index] = factsOf(row);
  return receipts;
}

/** A file of this store or of a sibling; its reads are counted and published. */
class RowSource implements FileSource {
  readonly #parts: LookupParts;
  readonly #row: FileRow;
  readonly #key: string;

  constructor(parts: LookupParts, row: FileRow, key: string) {
    this.#parts = parts;
    this.#row = row;
    this.#key = key;
  }

  read(range: ByteRange | undefined, signal: Signal): Promise<Buffer | Readable> {
    return this.#read(range, signal, false);
  }

  readOwn(signal: Signal): Promise<Buffer | Readable> {
    return this.#read(undefined, signal, true);
  }

  readNow(): Buffer | undefined {
    const { reads, reader } = this.#parts;
    return reads.runNow(() => reader.readRowNow(this.#row, this.#key));
  }

  fileId(): string | undefined {
    return fileIdOf(this.#row);
  }

  idPending(): IdPending | undefined {
    return this.#parts.pendingIds.of(this.#row, this.#parts.staging);
  }

  #read(range: ByteRange | undefined, signal: Signal, isOwn: boolean) {
    const { reads, reader } = this.#parts;
    return reads.run(this.#key, lengthOf(range, this.#row.size), () =>
      reader.readRow(this.#row, this.#key, range, signal, isOwn),
    );
  }
}
