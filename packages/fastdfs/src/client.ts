import {
  activeTest,
  type Command,
  deleteFile,
  type FetchTarget,
  type FileId,
  type FileName,
  formatFileId,
  isExtension,
  isGroupName,
  parseFileId,
  parseFileName,
  queryFetch,
  queryFileInfo,
  queryStore,
  queryStoreInGroup,
  queryUpdate,
  type RemoteFileInfo,
  Status,
  uploadFile,
} from '@stevedore/protocol';
import { type Address, makeAddress } from './address.js';
import { BodySource } from './body-source.js';
import { Caller } from './caller.js';
import { type CallOptions, Deadline } from './deadline.js';
import { type Download, downloadWhole, emptyDownload, openDownload } from './download.js';
import { FastdfsError } from './errors.js';
import { checkOptions, type FastdfsOptions, type Settings } from './options.js';
import { type PoolStats, Pools } from './pools.js';
import { type TrackerReply, Trackers } from './trackers.js';

/**
 * The FastDFS client. Every call settles within its deadline with a result or a
 * FastdfsError (an error thrown by a body's own source comes out as it is).
 */

export interface UploadOptions extends CallOptions {
  /** Bytes of the body; required unless the body is one array. */
  readonly size?: number;
  /** Without its dot, at most 6 of `A-Z a-z 0-9 . _ -`. Default none. */
  readonly extension?: string;
  /** 1 to 16 letters and digits. Default: the tracker chooses. */
  readonly group?: string;
}

export interface DownloadOptions extends CallOptions {
  /** First byte wanted. Default 0. */
  readonly offset?: number;
  /** Bytes wanted at most; 0 answers nothing without asking a server. Default: to the end. */
  readonly length?: number;
}

export interface DownloadBytesOptions extends DownloadOptions {
  /** More bytes than this are refused with `too_large`. Default 64 MiB. */
  readonly maxBytes?: number;
}

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

export class FastdfsClient implements AsyncDisposable {
  readonly #settings: Settings;
  readonly #pools: Pools;
  readonly #caller: Caller;
  readonly #trackers: Trackers;

  /** Does no I/O. Throws FastdfsError `invalid_argument`. */
  constructor(options: FastdfsOptions) {
    this.#settings = checkOptions(options);
    this.#pools = new Pools(this.#settings);
    this.#caller = new Caller(this.#pools, this.#settings);
    this.#trackers = new Trackers(this.#caller, this.#settings.trackers);
  }

  /**
   * Stores a new file and resolves with its id, `group1/M00/..`.
   *
   * An array must not be changed before the call settles. An iterable is read with
   * back-pressure, is not begun before a storage is connected, and is told to stop
   * when the call fails; `size` must be exact, else `length_mismatch`.
   */
  async upload(
    body: Uint8Array | AsyncIterable<Uint8Array>,
    options: UploadOptions = {},
  ): Promise<string> {
    const { payload, size } = checkBody(body, options.size);
    const { group, extension = '' } = options;
    if (!isExtension(extension)) throw invalid('upload', `extension "${extension}"`);
    if (group !== undefined && !isGroupName(group)) throw invalid('upload', `group "${group}"`);
    return this.#run(new Deadline('upload', options, size), async (deadline) => {
      const { reply: target, tracker } =
        group === undefined
          ? await this.#trackers.ask(queryStore, undefined, deadline)
          : await this.#trackers.ask(queryStoreInGroup, { group }, deadline);
      const storage = storageAddress(target, tracker, deadline);
      const request = { storePathIndex: target.storePathIndex, size, extension };
      const stored = await this.#caller.callWithPayload(
        storage,
        uploadFile,
        request,
        payload,
        deadline,
      );
      return checkStored(stored, storage, deadline);
    });
  }

  /**
   * Resolves once the server has announced the bytes. The stream fails with
   * `connection_lost` when fewer come; it holds a connection until its last byte has
   * been received, or until it is destroyed. The deadline covers the stream too.
   */
  async download(fileId: string, options: DownloadOptions = {}): Promise<Download> {
    const id = checkFileId('download', fileId);
    const range = checkRange('download', options);
    if (range === undefined) return emptyDownload();
    const deadline = new Deadline('download', options, range.length, fileId);
    try {
      this.#throwIfClosed(deadline);
      const storage = await this.#locate(queryFetch, id, deadline);
      const request = { ...nameOf(id), ...range };
      const download = await openDownload(this.#caller, storage, request, deadline).catch(
        async (error) => {
          await this.#rethrowUnlessEmpty(error, id, range.offset, storage, deadline);
          deadline.settle();
          return emptyDownload();
        },
      );
      return download;
    } catch (error) {
      deadline.settle();
      throw error;
    }
  }

  /** As `download`, in one piece. */
  async downloadBytes(fileId: string, options: DownloadBytesOptions = {}): Promise<Buffer> {
    const id = checkFileId('download', fileId);
    const range = checkRange('download', options);
    const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
    if (!isSize(maxBytes)) throw invalid('download', `maxBytes is ${maxBytes}`);
    if (range === undefined) return Buffer.alloc(0);
    return this.#run(new Deadline('download', options, range.length, fileId), async (deadline) => {
      const storage = await this.#locate(queryFetch, id, deadline);
      const request = { ...nameOf(id), ...range };
      try {
        return await downloadWhole(this.#caller, storage, request, maxBytes, deadline);
      } catch (error) {
        await this.#rethrowUnlessEmpty(error, id, range.offset, storage, deadline);
        return Buffer.alloc(0);
      }
    });
  }

  /** Removes a file; `not_found` when there is none. */
  async delete(fileId: string, options: CallOptions = {}): Promise<void> {
    const id = checkFileId('delete', fileId);
    await this.#run(new Deadline('delete', options, 0, fileId), async (deadline) => {
      const storage = await this.#locate(queryUpdate, id, deadline);
      await this.#caller.call(storage, deleteFile, nameOf(id), deadline);
    });
  }

  /** What a storage says about a file; `not_found` when there is none. */
  async info(fileId: string, options: CallOptions = {}): Promise<RemoteFileInfo> {
    const id = checkFileId('info', fileId);
    return this.#run(new Deadline('info', options, 0, fileId), async (deadline) => {
      const storage = await this.#locate(queryFetch, id, deadline);
      return this.#caller.call(storage, queryFileInfo, nameOf(id), deadline);
    });
  }

  /** Resolves when any tracker answers; `no_tracker` when none does. */
  async ping(options: CallOptions = {}): Promise<void> {
    await this.#run(new Deadline('ping', options), async (deadline) => {
      await this.#trackers.ask(activeTest, undefined, deadline);
    });
  }

  stats(): PoolStats {
    return this.#pools.stats();
  }

  /** Ends calls in flight with `closed` and resolves when every socket is released. */
  close(): Promise<void> {
    return this.#pools.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #run<T>(deadline: Deadline, use: (deadline: Deadline) => Promise<T>): Promise<T> {
    try {
      this.#throwIfClosed(deadline);
      return await use(deadline);
    } finally {
      deadline.settle();
    }
  }

  #throwIfClosed(deadline: Deadline): void {
    if (this.#pools.closed) throw deadline.error('closed', 'the client is closed');
  }

  async #locate(
    command: Command<FileName, FetchTarget>,
    id: FileId,
    deadline: Deadline,
  ): Promise<Address> {
    const { reply, tracker }: TrackerReply<FetchTarget> = await this.#trackers.ask(
      command,
      nameOf(id),
      deadline,
    );
    return storageAddress(reply, tracker, deadline);
  }

  /** A stock storage refuses to send a file of 0 bytes; its info tells whether it is one. */
  async #rethrowUnlessEmpty(
    error: unknown,
    id: FileId,
    offset: number,
    storage: Address,
    deadline: Deadline,
  ): Promise<void> {
    const refused = error instanceof FastdfsError && error.status === Status.invalid;
    if (!refused || offset > 0) throw error;
    const info = await this.#caller
      .call(storage, queryFileInfo, nameOf(id), deadline)
      .catch(() => undefined);
    deadline.throwIfEnded();
    if (info?.size !== 0) throw error;
  }
}

function checkBody(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  size: number | undefined,
): { payload: Buffer | BodySource; size: number } {
  if (size !== undefined && !isSize(size)) throw invalid('upload', `size is ${size}`);
  if (body instanceof Uint8Array) {
    if (size !== undefined && size !== body.length) {
      throw new FastdfsError('length_mismatch', `${body.length} bytes, size says ${size}`, {
        operation: 'upload',
      });
    }
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return { payload: bytes, size: bytes.length };
  }
  if (typeof body?.[Symbol.asyncIterator] !== 'function') {
    throw invalid('upload', 'the body is neither bytes nor an async iterable of bytes');
  }
  if (size === undefined) throw invalid('upload', 'an iterable body needs its size');
  return { payload: new BodySource(body, size), size };
}

function checkFileId(operation: string, fileId: string): FileId {
  const id = typeof fileId === 'string' ? parseFileId(fileId) : undefined;
  if (!id) throw invalid(operation, `"${fileId}" is not a file id`);
  return id;
}

/** Offset and length as the protocol has them, 0 meaning to the end; undefined for no bytes. */
function checkRange(
  operation: string,
  { offset = 0, length }: DownloadOptions,
): { offset: number; length: number } | undefined {
  if (!isSize(offset)) throw invalid(operation, `offset is ${offset}`);
  if (length !== undefined && !isSize(length)) throw invalid(operation, `length is ${length}`);
  return length === 0 ? undefined : { offset, length: length ?? 0 };
}

function checkStored(stored: FileName, storage: Address, deadline: Deadline): string {
  if (!isGroupName(stored.group) || !parseFileName(stored.group, stored.name)) {
    const message = `the storage named the file "${stored.group}/${stored.name}"`;
    throw deadline.error('bad_reply', message, { address: storage.text });
  }
  return formatFileId(stored);
}

function storageAddress(target: FetchTarget, tracker: Address, deadline: Deadline): Address {
  const address = makeAddress(target.address, target.port);
  if (address) return address;
  const message = `the tracker named the storage "${target.address}", port ${target.port}`;
  throw deadline.error('bad_reply', message, { address: tracker.text });
}

function nameOf(id: FileId): FileName {
  return { group: id.group, name: id.name };
}

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function invalid(operation: string, message: string): FastdfsError {
  return new FastdfsError('invalid_argument', message, { operation });
}
