import { EventEmitter } from 'node:events';
import type { FastdfsClient } from '@stevedore/fastdfs';
import {
  type FileId,
  fileKind,
  formatFileId,
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
  parseKey,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { ByteBudget } from './byte-budget.js';
import { checkText, Intake } from './intake.js';
import type { StoreOptions } from './options.js';
import { notFound, Reader, storageError } from './reader.js';
import { Settling } from './settling.js';
import { type FileFacts, makeStoredFile } from './stored-file.js';
import { TrunkDirectories } from './trunk-directories.js';
import type {
  Body,
  FileInfo,
  FileState,
  FileStore,
  FileStoreEvents,
  PutAllOptions,
  PutOptions,
  PutPart,
  Readiness,
  Receipt,
  StoredFile,
  StoreStats,
} from './types.js';

/** The FileStore over a staging directory and a FastDFS. */

/** Memory that bodies on their way in may hold together. */
const INTAKE_BYTES = 64 * 2 ** 20;
const PING_TIMEOUT_MS = 2_000;
const DEFAULT_TYPE = 'application/octet-stream';

export interface StoreParts {
  readonly options: StoreOptions;
  readonly staging: Staging;
  readonly client: FastdfsClient;
  readonly trackers: readonly string[];
  readonly now: () => number;
  /** Ends what was started for this store alone: the embedded node. */
  readonly closeNode: () => Promise<void>;
}

export class LocalFileStore extends EventEmitter<FileStoreEvents> implements FileStore {
  readonly trackers: readonly string[];
  readonly #parts: StoreParts;
  readonly #staging: Staging;
  readonly #intake: Intake;
  readonly #reader: Reader;
  readonly #directories: TrunkDirectories;
  readonly #settling: Settling;
  #closing: Promise<void> | undefined;

  constructor(parts: StoreParts) {
    super();
    this.#parts = parts;
    this.trackers = parts.trackers;
    const { staging, client, options } = parts;
    this.#staging = staging;
    this.#intake = new Intake(staging, new ByteBudget(INTAKE_BYTES), {
      smallFileBytes: options.smallFileLimit,
      maxFileBytes: options.maxFileSize,
      sync: options.durability === 'sync',
    });
    this.#reader = new Reader({
      staging,
      client,
      cacheBytes: options.cacheSize,
      smallFileBytes: options.smallFileLimit,
    });
    this.#directories = new TrunkDirectories((fileId, offset, length) =>
      this.#reader.readRange(fileId, offset, length),
    );
    this.#settling = new Settling((key) => fileIdOf(this.#row(key)));
    this.#forwardEvents();
  }

  async put(body: Body, options: PutOptions = {}): Promise<Receipt> {
    this.#throwIfClosed();
    const taken = await this.#intake.take(body, options);
    const [file] = await this.#intake.stage([taken], undefined, this.#parts.now());
    return receiptOf(file!);
  }

  async putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: PutAllOptions = {},
  ): Promise<Receipt[]> {
    this.#throwIfClosed();
    const { signal } = options;
    const taken: Awaited<ReturnType<Intake['take']>>[] = [];
    try {
      for await (const { body, ...rest } of parts) {
        taken.push(await this.#intake.take(body, signal ? { ...rest, signal } : rest));
        if (signal?.aborted) throw new StoreError('aborted', 'the upload was aborted');
      }
      const group = typeof options.group === 'function' ? options.group() : options.group;
      if (group !== undefined) checkText('group', group, 255);
      if (taken.length === 0) return [];
      const files = await this.#intake.stage(taken.splice(0), group, this.#parts.now());
      return files.map(receiptOf);
    } catch (error) {
      await this.#intake.discard(taken);
      throw error;
    }
  }

  async get(id: string, options: { readonly signal?: AbortSignal } = {}): Promise<StoredFile> {
    this.#throwIfClosed();
    if (parseKey(id)) return this.#storedRow(this.#row(id));
    const fileId = parseFileId(id);
    if (!fileId) throw new StoreError('invalid_id', `"${id}" is neither a key nor a FastDFS id`);
    const slice = parseSliceId(fileId);
    return slice ? this.#getSlice(id, slice) : this.#getPlain(fileId, options.signal);
  }

  async stat(id: string, options: { readonly signal?: AbortSignal } = {}): Promise<FileInfo> {
    const { key, name, size, type, crc32, state, stagedAt, group, fileId } = await this.get(
      id,
      options,
    );
    return {
      key: key ?? '',
      name,
      size,
      type,
      crc32,
      state,
      stagedAt,
      ...(group === undefined ? {} : { group }),
      ...(fileId === undefined ? {} : { fileId }),
    };
  }

  async delete(key: string): Promise<void> {
    this.#throwIfClosed();
    const parsed = parseKey(key);
    if (!parsed) throw new StoreError('invalid_id', `"${key}" is no key`);
    if (!(await this.#staging.delete(parsed))) throw notFound(key);
    this.#reader.forget(parsed);
    this.#settling.lookAt(key);
  }

  async settled(key: string, options: { readonly signal?: AbortSignal } = {}): Promise<string> {
    this.#throwIfClosed();
    return fileIdOf(this.#row(key)) ?? this.#settling.wait(key, options.signal);
  }

  flush(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    this.#throwIfClosed();
    return this.#staging.flush(options.signal);
  }

  async ready(): Promise<Readiness> {
    const problems: string[] = [];
    const accepting = this.#closing === undefined && this.#staging.hasRoom();
    if (!accepting) problems.push('the container is full');
    const tracker = await this.#parts.client.ping({ deadlineMs: PING_TIMEOUT_MS }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (tracker !== undefined) problems.push(`no tracker answers: ${tracker}`);
    const trackerReachable = tracker === undefined;
    return {
      ready: accepting && trackerReachable,
      accepting,
      trackerReachable,
      problems,
    };
  }

  stats(): StoreStats {
    const stats = this.#staging.stats();
    return {
      stagedFiles: stats.waitingFiles + stats.spooledFiles,
      stagedBytes: stats.waitingBytes + stats.spooledBytes,
      mergedFiles: stats.mergedFiles,
      mergedBytes: stats.mergedBytes,
      trunks: stats.trunks,
      containerBytes: stats.containerBytes,
      containerLimitBytes: this.#parts.options.containerSize,
      uploadsInFlight: this.#intake.inFlight,
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#settling.close();
    await this.#staging.close();
    await this.#parts.client.close();
    await this.#parts.closeNode();
  }

  #forwardEvents(): void {
    const { staging } = this.#parts;
    staging.on('error', (error) => this.report(error));
    staging.on('trunk', (event) => {
      this.#settling.lookAgain();
      this.emit('trunk', event);
    });
    // An event for every file is made only when somebody listens.
    (this as EventEmitter).on('newListener', (name: string) => {
      if (name !== 'merged' || staging.listenerCount('merged') > 0) return;
      staging.on('merged', (event) => this.emit('merged', event));
    });
  }

  /** Background trouble must not end the process for want of a listener, nor go unseen. */
  report(error: Error): void {
    if (this.listenerCount('error') > 0) this.emit('error', error);
    else process.emitWarning(error);
  }

  #row(key: string): FileRow {
    const parsed = parseKey(key);
    if (!parsed) throw new StoreError('invalid_id', `"${key}" is no key`);
    const row = this.#staging.find(parsed);
    if (!row) throw notFound(key);
    return row;
  }

  #storedRow(row: FileRow): StoredFile {
    const fileId = fileIdOf(row);
    const facts: FileFacts = {
      key: formatKey(row.key),
      name: row.name,
      size: row.size,
      type: row.type,
      crc32: row.crc32,
      state: this.#stateOf(row),
      stagedAt: new Date(row.stagedAt),
      ...(row.group === null ? {} : { group: row.group }),
      ...(fileId === undefined ? {} : { fileId }),
    };
    return makeStoredFile(facts, (range, signal) => this.#reader.readRow(row, range, signal));
  }

  #stateOf(row: FileRow): FileState {
    if (row.trunkFileId !== null) return 'merged';
    return this.#staging.isPacking(row.key) ? 'packing' : 'staged';
  }

  /** A slice: honoured only if FileMap or the trunk's directory has exactly this one. */
  async #getSlice(id: string, slice: SliceId): Promise<StoredFile> {
    const trunkId = formatFileId(slice.trunk);
    const trunk = this.#staging.trunkByFileId(trunkId);
    const row = trunk && this.#staging.findInTrunk(trunk, slice.offset);
    if (row && fileIdOf(row) === id) return this.#storedRow(row);
    const entry = await this.#entryOf(id, slice);
    const key = parseKey(entry.name.slice(0, 22));
    if (!key || this.#staging.isDeleted(key)) throw notFound(id);
    const known = this.#staging.find(key);
    if (known && fileIdOf(known) === id) return this.#storedRow(known);
    const file = {
      fileId: trunkId,
      offset: slice.offset,
      size: slice.size,
      crc32: slice.crc32,
    };
    return makeStoredFile({ ...factsOfEntry(entry, slice), fileId: id }, (range, signal) =>
      this.#reader.readRemote(file, range, signal),
    );
  }

  async #entryOf(id: string, slice: SliceId): Promise<TrunkEntry> {
    try {
      const entry = await this.#directories.find(slice);
      // The extension is no part of what the directory is asked for, but of the id.
      const extension = entry?.name.slice(23) ?? '';
      if (!entry || extension !== slice.extension) throw notFound(id);
      return entry;
    } catch (error) {
      // A trunk that cannot be one is as good as none.
      if (error instanceof ProtocolError) throw notFound(id);
      throw error;
    }
  }

  /** A file of FastDFS that is no slice; large files of this store are among them. */
  async #getPlain(fileId: FileId, signal: AbortSignal | undefined): Promise<StoredFile> {
    const id = formatFileId(fileId);
    const trunk = this.#staging.trunkByFileId(id);
    const row = trunk?.kind === 'whole' ? this.#staging.findInTrunk(trunk, 0) : undefined;
    if (row) return this.#storedRow(row);
    if (trunk?.kind === 'whole' && trunk.deadFiles > 0) throw notFound(id);
    const info = await this.#infoOf(id, signal);
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
    const file = {
      fileId: id,
      offset: 0,
      size: info.size,
      crc32: fixed ? info.crc32 : undefined,
    };
    return makeStoredFile(facts, (range, readSignal) =>
      this.#reader.readRemote(file, range, readSignal),
    );
  }

  async #infoOf(id: string, signal: AbortSignal | undefined) {
    try {
      return await this.#parts.client.info(id, signal ? { signal } : {});
    } catch (error) {
      throw storageError(error, id);
    }
  }

  #throwIfClosed(): void {
    if (this.#closing) throw new StoreError('closed', 'the store is closed');
  }
}

/** What the trunk's directory says of a file that another store staged. */
function factsOfEntry(entry: TrunkEntry, slice: SliceId): FileFacts {
  const { name, type, group, stagedAt } = readComment(entry.comment);
  return {
    key: entry.name.slice(0, 22),
    name: typeof name === 'string' ? name : '',
    size: slice.size,
    type: typeof type === 'string' ? type : DEFAULT_TYPE,
    crc32: slice.crc32,
    state: 'merged',
    stagedAt: new Date(typeof stagedAt === 'number' ? stagedAt : 0),
    ...(typeof group === 'string' ? { group } : {}),
  };
}

function readComment(comment: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(comment) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function receiptOf(file: {
  readonly key: Buffer;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: number;
  readonly stagedAt: number;
  readonly group: string | undefined;
}): Receipt {
  return {
    key: formatKey(file.key),
    name: file.name,
    size: file.size,
    type: file.type,
    crc32: file.crc32,
    state: 'staged',
    stagedAt: new Date(file.stagedAt),
    ...(file.group === undefined ? {} : { group: file.group }),
  };
}
