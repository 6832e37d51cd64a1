import type { FastdfsClient } from '@stevedore/fastdfs';
import { originOf } from '@stevedore/map';
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
  isStoreError,
  parseKey,
  StoreError,
  type TrunkRow,
} from '@stevedore/staging';
import { FileMapFiles } from '../holders/filemap-files.js';
import { type Found, type HolderContext, receiptOfAbout } from '../holders/holder.js';
import type { Holders } from '../holders/holders.js';
import type { RemotePlace } from '../holders/place.js';
import { DEFAULT_TYPE } from '../put/intake.js';
import type { Receipt } from '../store/types.js';
import { notAnId, notFound, storageError, unsupported } from './failures.js';
import { extensionInName, ForeignSlices, isSameFile, keyInName } from './foreign-trunks.js';
import { type FileFacts, FileHandle, type Signal } from './stored-file.js';

/**
 * Finds files by slice id or by any FastDFS id. A slice id is valid only if a FileMap or the trunk's
 * own directory has exactly that slice; any other is `not_found`.
 */

const SETTLED: ReadonlySet<TrunkRow['state']> = new Set(['confirmed', 'retiring', 'retired']);

/** A file that a FileMap of this machine has, or that an entry of a trunk's directory describes. */
type Resolved = { readonly row: FileRow } | { readonly key: Buffer; readonly facts: Receipt };

export class FastdfsIds {
  readonly #holders: Holders;
  readonly #client: FastdfsClient;
  readonly #context: HolderContext;
  readonly #slices: ForeignSlices;

  constructor(holders: Holders, client: FastdfsClient, context: HolderContext) {
    this.#holders = holders;
    this.#client = client;
    this.#context = context;
    this.#slices = new ForeignSlices((id) => context.reader.downloads.exists(id));
  }

  async find(id: string, signal: Signal): Promise<Found> {
    const { fileId, slice, files } = this.#parsed(id);
    if (!slice) return this.#findPlain(fileId, files, signal);
    const found = await this.#resolve(id, slice, files);
    if ('row' in found) return files.present(found.row);
    const { offset, size, crc32 } = slice;
    const at = { fileId: formatFileId(slice.trunk), offset, size, crc32 };
    return this.#handle({ ...found.facts, fileId: id }, at);
  }

  /**
   * The key of the file, if a FileMap here or another server has it; undefined for one that only
   * FastDFS knows. Rejects as `find`, and with `invalid_id` for a whole trunk.
   */
  async keyOf(id: string, onlyHere: boolean): Promise<Buffer | undefined> {
    const { fileId, slice, files } = this.#parsed(id);
    if (slice) {
      const found = await this.#resolve(id, slice, files);
      if ('row' in found) return found.row.key;
      const holder = this.#holders.of(found.key, onlyHere);
      return holder instanceof FileMapFiles ? undefined : found.key;
    }
    if (isTrunkId(fileId)) {
      throw new StoreError('invalid_id', `"${id}" is a trunk; delete the files in it instead`);
    }
    const row = plainRow(id, files);
    return row && files.alive(row, id).key;
  }

  /** Deletes a file that only FastDFS knows. */
  async delete(id: string): Promise<void> {
    const { slice } = this.#parsed(id);
    const isStock = (): boolean => slice !== undefined && this.#slices.isStock(slice.trunk.group);
    try {
      if (isStock()) throw unsupported(id);
      await this.#client.delete(id);
    } catch (error) {
      const failure = storageError(error, id);
      throw slice && isStoreError(failure, 'not_found') ? unsupported(id) : failure;
    }
    if (!slice) return;
    this.#slices.forget(id);
    this.#context.reader.forgetRemote(formatFileId(slice.trunk), slice.offset);
  }

  /** The id, and the files of this machine's process that has this trunk or large file. */
  #parsed(id: string): { fileId: FileId; slice: SliceId | undefined; files: FileMapFiles } {
    const fileId = parseFileId(id);
    if (!fileId) throw notAnId(id);
    const slice = parseSliceId(fileId);
    const { own, all } = this.#holders;
    const [stored, offset] = [formatFileId(slice?.trunk ?? fileId), slice?.offset ?? 0];
    const isKnown = ({ staging: { fileMap } }: FileMapFiles): boolean =>
      fileMap.trunkByFileId(stored) !== undefined ||
      fileMap.forwardOf(stored, offset) !== undefined;
    return { fileId, slice, files: all.length === 1 ? own : (all.find(isKnown) ?? own) };
  }

  /** Resolves a slice id only if the FileMap or the trunk's directory has exactly this slice. */
  async #resolve(id: string, slice: SliceId, files: FileMapFiles): Promise<Resolved> {
    const { fileMap } = files.staging;
    const trunkId = formatFileId(slice.trunk);
    const trunk = fileMap.trunkByFileId(trunkId);
    const row = trunk && fileMap.findInTrunk(trunk.id, slice.offset);
    if (row && fileIdOf(row) === id) return { row: files.alive(row, id) };
    const moved = fileMap.forwarded(trunkId, slice.offset);
    if (moved && isSameFile(moved, slice)) return { row: files.alive(moved, id) };
    // The FileMap knows every living file of such a trunk.
    if (trunk && SETTLED.has(trunk.state)) throw notFound(id);
    const entry = await this.#entryOf(id, slice);
    const key = parseKey(keyInName(entry.name));
    if (!key) throw notFound(id);
    const { staging } = this.#holders.of(key, true);
    if (staging.fileMap.isDeleted(key)) throw notFound(id);
    const known = staging.fileMap.find(key);
    if (known && fileIdOf(known) === id) return { row: files.alive(known, id) };
    const isOwn = this.#holders.issuerOf(originOf(key)) === this.#holders.own;
    if (!isOwn && (await this.#holders.elsewhere?.isRemoved(key))) throw notFound(id);
    const others = () => this.#context.reader.directories.idsIn(slice);
    if (await this.#slices.isDeleted(slice.trunk.group, id, others)) throw notFound(id);
    const { size, crc32 } = slice;
    const facts = receiptOfAbout(entry.comment, { key, size, crc32 });
    if (facts.expiresAt && facts.expiresAt.getTime() <= this.#context.now()) throw notFound(id);
    return { key, facts };
  }

  async #entryOf(id: string, slice: SliceId): Promise<TrunkEntry> {
    try {
      const entry = await this.#context.reader.directories.find(slice);
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

  /** A FastDFS file that is not a slice, such as a large file of this store. */
  async #findPlain(fileId: FileId, files: FileMapFiles, signal: Signal): Promise<Found> {
    const id = formatFileId(fileId);
    const row = plainRow(id, files);
    if (row) return files.present(files.alive(row, id));
    const { size, crc32, mtimeSeconds } = await this.#context.reader.downloads.info(id, signal);
    const facts: FileFacts = {
      name: fileId.base,
      size,
      type: DEFAULT_TYPE,
      crc32,
      state: 'merged',
      fileId: id,
      stagedAt: new Date(mtimeSeconds * 1000),
    };
    const isFixed = fileKind(fileId) === 'normal' || fileKind(fileId) === 'slot';
    return this.#handle(facts, { fileId: id, offset: 0, size, crc32: isFixed ? crc32 : undefined });
  }

  /** A file that only FastDFS knows. */
  #handle(facts: FileFacts, at: Omit<RemotePlace, 'kind' | 'key'>): Found {
    const place: RemotePlace = { kind: 'remote', key: facts.key, ...at };
    return new FileHandle(facts, place, this.#context.reader);
  }
}

/** A large file of this store; undefined for a file that only FastDFS knows. */
function plainRow(id: string, { staging: { fileMap } }: FileMapFiles): FileRow | undefined {
  const trunk = fileMap.trunkByFileId(id);
  const row = trunk?.kind === 'whole' ? fileMap.findInTrunk(trunk.id, 0) : undefined;
  // It may have been stored again after a storage damaged it.
  const found = row ?? fileMap.forwarded(id, 0);
  if (!found && trunk?.kind === 'whole' && trunk.deadFiles > 0) throw notFound(id);
  return found;
}
