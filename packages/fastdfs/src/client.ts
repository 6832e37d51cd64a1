import { EventEmitter } from 'node:events';
import {
  activeTest,
  type Command,
  deleteFile,
  type FetchTarget,
  type FileName,
  formatFileId,
  type GroupRecord,
  isGroupName,
  listAllGroups,
  listStorage,
  type Metadata,
  QueryInfoFlag,
  queryFetch,
  queryFetchAll,
  queryFileInfo,
  type RemoteFileInfo,
  type StorageRecord,
} from '@stevedore/protocol';
import type { Address, PoolStats } from '@stevedore/wire';
import { type Body, invalid } from './body.js';
import { type CallOptions, Deadline } from './deadline.js';
import type { FastdfsEvents, PossibleOrphan } from './events.js';
import { checkFileId, describeFile, type FileDescription, factsOf, nameOf } from './file-ids.js';
import * as appender from './operations/appender.js';
import { Context } from './operations/context.js';
import * as downloads from './operations/download.js';
import { type ListedFile, type ListFilesOptions, listFiles } from './operations/listing.js';
import * as metadata from './operations/metadata.js';
import { type InfoOptions, readFrom } from './operations/reading.js';
import { type SlaveOptions, type UploadOptions, upload, uploadSlave } from './operations/upload.js';
import { checkOptions, type FastdfsOptions } from './options.js';
import type { Download } from './streaming.js';

export interface ClientStats extends PoolStats {
  /** Requests to servers since the client was made. */
  readonly requests: number;
  /** Failed requests, including those that the server refused. */
  readonly failedRequests: number;
  /** Requests sent again: a server was not ready, or a connection was dead before its answer. */
  readonly repeatedRequests: number;
}

/**
 * The FastDFS client. Every call settles within its deadline, with a result or a FastdfsError. Only
 * errors of a body's own source or of the local disk are passed on as they are.
 */
export class FastdfsClient extends EventEmitter<FastdfsEvents> implements AsyncDisposable {
  readonly #context: Context;

  /** Does no I/O. Throws FastdfsError `invalid_argument`. */
  constructor(options: FastdfsOptions) {
    super();
    this.#context = new Context(checkOptions(options), (orphan) => this.#report(orphan));
  }

  /**
   * Stores a new file and resolves with its id, `group1/M00/..`.
   *
   * An array must not be changed before the call settles. An iterable is read with
   * back-pressure, is not begun before a storage is connected, and is stopped
   * when the call fails; its `size` must be exact, else `length_mismatch`.
   */
  upload(body: Body, options: UploadOptions = {}): Promise<string> {
    return upload(this.#context, 'file', body, options);
  }

  /** As `upload`, for a file that may be changed later. */
  uploadAppender(body: Body, options: UploadOptions = {}): Promise<string> {
    return upload(this.#context, 'appender', body, options);
  }

  /** Adds bytes to the end of an appender file. Never repeated once it was sent. */
  append(fileId: string, body: Body, options: appender.AppendOptions = {}): Promise<void> {
    return appender.append(this.#context, fileId, body, options);
  }

  /** Overwrites bytes of an appender file from `offset` on, at most its size; it may grow. */
  modify(
    fileId: string,
    offset: number,
    body: Body,
    options: appender.AppendOptions = {},
  ): Promise<void> {
    return appender.modify(this.#context, fileId, offset, body, options);
  }

  /** Sets the size of an appender file; new bytes are zeros. */
  truncate(fileId: string, size: number, options: CallOptions = {}): Promise<void> {
    return appender.truncate(this.#context, fileId, size, options);
  }

  /** Makes an appender file a normal one (servers from 6.02 on); resolves with its new id. */
  regenerate(fileId: string, options: CallOptions = {}): Promise<string> {
    return appender.regenerate(this.#context, fileId, options);
  }

  /** Stores a file beside its master, under its id and `prefix`; resolves with the id. */
  uploadSlave(
    masterId: string,
    prefix: string,
    body: Body,
    options: SlaveOptions = {},
  ): Promise<string> {
    return uploadSlave(this.#context, masterId, prefix, body, options);
  }

  /**
   * Resolves when the server has announced the bytes. The stream fails with `connection_lost` if
   * fewer arrive. It holds a connection until its last byte has arrived or it is destroyed. The
   * deadline covers the stream too.
   */
  download(fileId: string, options: downloads.DownloadOptions = {}): Promise<Download> {
    return downloads.download(this.#context, fileId, options);
  }

  /** As `download`, in one piece. */
  downloadBytes(fileId: string, options: downloads.DownloadBytesOptions = {}): Promise<Buffer> {
    return downloads.downloadBytes(this.#context, fileId, options);
  }

  /** Removes a file; `not_found` when there is none. */
  async delete(fileId: string, options: CallOptions = {}): Promise<void> {
    const context = this.#context;
    const id = checkFileId('delete', fileId);
    await context.run(new Deadline('delete', options, 0, fileId), async (deadline) => {
      const storage = await context.updateTarget(id, deadline);
      context.places.delete(formatFileId(id));
      await context.caller.call(storage, deleteFile, nameOf(id), deadline);
    });
  }

  /** Sets metadata of a file. */
  setMetadata(
    fileId: string,
    values: Metadata,
    options: metadata.SetMetadataOptions = {},
  ): Promise<void> {
    return metadata.setMetadata(this.#context, fileId, values, options);
  }

  /** All metadata of a file, empty if it has none; `not_found` if there is no file. */
  getMetadata(fileId: string, options: CallOptions = {}): Promise<Metadata> {
    return metadata.getMetadata(this.#context, fileId, options);
  }

  /** What a storage knows about a file; `not_found` if there is none. */
  async info(fileId: string, options: InfoOptions = {}): Promise<RemoteFileInfo> {
    const context = this.#context;
    const id = checkFileId('info', fileId);
    const flags = options.computeCrc === false ? QueryInfoFlag.noCrc : 0;
    return context.run(new Deadline('info', options, 0, fileId), (deadline) => {
      const attempt = (storage: Address, stepMs: number): Promise<RemoteFileInfo> =>
        context.caller.call(storage, queryFileInfo, nameOf(id), deadline, { stepMs, flags });
      const read = { context, id, facts: factsOf(id), deadline, attempt };
      return readFrom(read, queryFetch, options.storage);
    });
  }

  /** What the id itself contains. Does no I/O. */
  describe(fileId: string): FileDescription {
    return describeFile(fileId);
  }

  async listGroups(options: CallOptions = {}): Promise<readonly GroupRecord[]> {
    return this.#context.ask(new Deadline('listGroups', options), listAllGroups, undefined);
  }

  /** The storages of a group; `not_found` when there is none of that name. */
  async listStorages(group: string, options: CallOptions = {}): Promise<readonly StorageRecord[]> {
    if (typeof group !== 'string' || !isGroupName(group)) {
      throw invalid('listStorages', `group "${group}"`);
    }
    const deadline = new Deadline('listStorages', options);
    return this.#context.ask(deadline, listStorage, { group, id: '' });
  }

  /**
   * The files of one store path of a storage, as it lists them for a peer that lost its disk,
   * streamed. Files of the last minute may be missing, because stock storages buffer their binlog.
   * A list that is cut short ends with an error. The deadline covers all of it and grows with what
   * has arrived.
   */
  listFiles(storage: FetchTarget, options: ListFilesOptions = {}): AsyncGenerator<ListedFile> {
    return listFiles(this.#context, storage, options);
  }

  /** A storage to read the file from, as the tracker names it. It may not have the file. */
  locate(fileId: string, options: CallOptions = {}): Promise<FetchTarget> {
    return this.#locate('locate', queryFetch, fileId, options);
  }

  /** Every storage to read the file from, as `locate`. */
  async locateAll(fileId: string, options: CallOptions = {}): Promise<readonly FetchTarget[]> {
    const found = await this.#locate('locateAll', queryFetchAll, fileId, options);
    return found.servers.map((server) => ({ group: found.group, ...server }));
  }

  /** Resolves when any tracker answers; `no_tracker` when none does. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#context.ask(new Deadline('ping', options), activeTest, undefined);
  }

  stats(): ClientStats {
    const { caller, busyRepeats } = this.#context;
    return {
      ...caller.pool.stats(),
      requests: caller.requests,
      failedRequests: caller.failedRequests,
      repeatedRequests: caller.replacedConnections + busyRepeats,
    };
  }

  /** Ends calls in flight with `closed` and resolves when every socket is released. */
  close(): Promise<void> {
    return this.#context.caller.pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #locate<Reply>(
    operation: string,
    command: Command<FileName, Reply>,
    fileId: string,
    options: CallOptions,
  ): Promise<Reply> {
    const id = checkFileId(operation, fileId);
    return this.#context.ask(new Deadline(operation, options, 0, fileId), command, nameOf(id));
  }

  /** A listener that throws must not affect the call. */
  #report(orphan: PossibleOrphan | undefined): void {
    if (!orphan) return;
    try {
      this.emit('possibleOrphan', orphan);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }
}
