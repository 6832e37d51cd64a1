import type { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { FileCacheStats } from '@stevedore/cache';
import type { ClientStats } from '@stevedore/fastdfs';
import type { HeldCopies, HeldStats, StagingEvents, StagingStats } from '@stevedore/staging';
import type { StorageMember } from './cluster.js';
import type { Deployment, DeploymentStats } from './deployment/deployment.js';

/** What `open()` and `connect()` give: the contract between the SDK and everything built on it. */

/** Bytes, or anything that yields them. A string is stored as UTF-8. */
export type Body =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | Readable
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

export interface PutOptions {
  /**
   * The client's name for the file: kept and given back, never used as a path. Default: that of a
   * File.
   */
  readonly name?: string;
  /** Media type; default: that of a Blob or File, else `application/octet-stream`. */
  readonly type?: string;
  /** Affinity group: files of one group are stored next to each other. */
  readonly group?: string;
  /** From then on the file is gone. */
  readonly expiresAt?: Date;
  /** Less than the store's own durability, where less will do. */
  readonly durability?: 'sync' | 'os';
  /** 16 bytes that mark the upload, for `findOnce`. */
  readonly once?: Uint8Array;
  /**
   * staged (the default): acknowledged once it is safe on this machine, stored in FastDFS
   * later. direct: not kept here at all; collected with others for a moment, written
   * group by group, and acknowledged once FastDFS has it. The receipt then has the file's
   * id, which is its key too: there is no other. A file that is written without
   * companions of its group keeps neither name nor type.
   */
  readonly mode?: 'staged' | 'direct';
  /** Bytes the body must have; another count is refused with `length_mismatch`. */
  readonly size?: number;
  /** Refuses a longer body with `too_large`, at once; default `maxFileSize`. */
  readonly maxBytes?: number;
  /** The body is a Buffer that nobody changes from now on: memory keeps it without a copy. */
  readonly transfer?: boolean;
  readonly signal?: AbortSignal;
}

export interface PutPart
  extends Omit<PutOptions, 'signal' | 'group' | 'durability' | 'once' | 'mode' | 'transfer'> {
  readonly body: Body;
}

export interface PutAllOptions {
  /** One group for all parts; a function is asked after the last part has been read. */
  readonly group?: string | (() => string | undefined);
  readonly durability?: 'sync' | 'os';
  readonly once?: Uint8Array;
  readonly signal?: AbortSignal;
}

/**
 * staged: on this machine's disk. packing: chosen for a trunk that is on its way, or in one
 * that is not full and will be joined with others. merged: in FastDFS in a trunk that stays,
 * `fileId` is known.
 */
export type FileState = 'staged' | 'packing' | 'merged';

export interface Receipt {
  /**
   * 22 characters; a capability: anyone who has it can read the file. For a file that was put
   * in direct mode its FastDFS id.
   */
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  /** A number here; JSON of the gateway, the middleware and the command has 8 hex digits. */
  readonly crc32: number;
  readonly state: FileState;
  readonly stagedAt: Date;
  readonly group?: string;
  readonly expiresAt?: Date;
  /**
   * The FastDFS id, once merged: a slice id, or a plain id for a large file. An upload in
   * direct mode has it at once.
   */
  readonly fileId?: string;
}

/** What is known of a file that is there. */
export type FileInfo = Receipt;

/** First and last byte wanted, both counted from 0 and included. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface ReadOptions {
  readonly range?: ByteRange;
  readonly signal?: AbortSignal;
}

export interface GetOptions {
  readonly signal?: AbortSignal;
  /** True: no other server of the deployment is asked. For requests that come from one. */
  readonly onlyHere?: boolean;
}

/** An existing file, ready to be read. Nothing is read before one of the methods is called. */
export interface StoredFile extends Omit<FileInfo, 'key'> {
  /** Absent for a file asked for by a FastDFS id whose key this store does not know. */
  readonly key?: string;
  /** Strong entity tag, with its quotes. */
  readonly etag: string;
  /**
   * The bytes: a Buffer when the file is small, a stream when it is not. Resolves
   * once the file is known to be readable (small files: verified against their
   * CRC-32), so that a server can still answer with an error. Of a large file every
   * block is checked against its checksum before it is given out.
   * A Buffer may be the one that other readers are given from memory: it must not be
   * changed or transferred. What the other methods give is the caller's own.
   */
  content(options?: ReadOptions): Promise<Buffer | Readable>;
  /** All bytes (or the range) in memory, verified. */
  bytes(options?: ReadOptions): Promise<Buffer>;
  /** A Node stream; errors come through it. */
  stream(options?: ReadOptions): Readable;
  /** A Web stream. */
  web(options?: ReadOptions): ReadableStream<Uint8Array>;
}

/** A small file whose bytes are in memory, held against their checksum when they came there. */
export interface CachedFile {
  readonly key: string;
  readonly bytes: Buffer;
  /** Unix milliseconds from which on there is no such file; Infinity for one without end. */
  readonly expiresAt: number;
}

/**
 * Files in memory, for a server that answers the same requests again and again: no I/O,
 * and nothing to wait for. A file that is given stays the same object while it is kept.
 */
export interface CachedFiles {
  /**
   * Undefined when it is not there; the file may exist all the same. `known` is what the caller
   * has just found out about the file: then it is not looked up again.
   */
  get(key: string, known?: Pick<StoredFile, 'expiresAt'>): CachedFile | undefined;
  /** True if its bytes are in memory; does not count as a use. */
  has(key: string): boolean;
  /**
   * True while `get` would give this file again, if its time is not over. Cheaper, but the
   * file does not count as used: a caller that keeps using one calls `get` now and then.
   */
  isCurrent(file: CachedFile): boolean;
  /** Counts a read: the bytes were sent. */
  served(file: CachedFile): void;
}

export interface BeginOptions extends Pick<PutOptions, 'name' | 'type' | 'group' | 'size'> {
  /** How long the file lives once it is finished. Default: for ever. */
  readonly ttlMs?: number;
  /** 16 bytes that mark the upload, for `findOnce`, once it is a file. */
  readonly once?: Uint8Array;
  /** Up to 8 KiB of the caller's own words, given back by `find`. */
  readonly note?: string;
}

export interface UnfinishedUpload {
  /** The key of the file that it will be; good for nothing but these calls until then. */
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly group?: string;
  readonly ttlMs?: number;
  readonly note: string;
  readonly createdAt: Date;
  /** Of the whole file, once it is known. */
  readonly size?: number;
  /** Bytes that are durable: the next ones begin here. */
  readonly offset: number;
}

/**
 * Uploads in several requests. They stay on this server's disk, over restarts too, until they
 * are finished, removed, or older than `unfinishedAge`. All reject with `not_found` for an
 * upload that is not there.
 */
export interface UnfinishedUploads {
  readonly maxAgeMs: number;
  begin(options?: BeginOptions): Promise<UnfinishedUpload>;
  find(id: string): UnfinishedUpload | undefined;
  /** The same once all calls for it that are under way have ended. */
  settled(id: string): Promise<UnfinishedUpload | undefined>;
  /**
   * Adds bytes and resolves with the new offset: they are durable. If the body fails, what came
   * of it before is kept, unless there is a `check`: it is called behind the last byte, and what
   * it throws, or a body that fails, takes all bytes of the call back.
   * Rejects with `offset_mismatch` if there are more or fewer bytes than `offset`, `too_large`.
   */
  append(
    id: string,
    offset: number,
    body: AsyncIterable<Uint8Array>,
    check?: () => void,
  ): Promise<number>;
  /** Rejects with `length_mismatch` if the size is known, or too short. */
  declareSize(id: string, size: number): Promise<void>;
  /** The bytes from `start` to before `end`; `end` is the offset by default. */
  read(id: string, start?: number, end?: number): AsyncIterable<Uint8Array>;
  /** Makes it a file, under its id as the key. Rejects with `length_mismatch` before its end. */
  finish(id: string): Promise<Receipt>;
  remove(id: string): Promise<void>;
}

export interface Readiness {
  readonly ready: boolean;
  /** Can files be acknowledged durably now? */
  readonly accepting: boolean;
  /** Does a tracker answer? */
  readonly trackerReachable: boolean;
  /** What stands in the way, for people; empty when ready. */
  readonly problems: readonly string[];
}

type StagedCounters = 'waitingFiles' | 'waitingBytes' | 'spooledFiles' | 'spooledBytes';

export interface StoreStats extends Omit<StagingStats, StagedCounters> {
  readonly stagedFiles: number;
  readonly stagedBytes: number;
  readonly containerLimitBytes: number;
  /** Uploads whose bytes are arriving now. */
  readonly uploadsInFlight: number;
  /** Since the store was opened: files acknowledged, and their bytes. */
  readonly acknowledgedFiles: number;
  readonly acknowledgedBytes: number;
  /** Calls of `put` and `putAll` that stored nothing. */
  readonly failedUploads: number;
  readonly deletedFiles: number;
  /** Reads begun, of whole files or ranges, and their bytes. */
  readonly reads: number;
  readonly readBytes: number;
  readonly failedReads: number;
  readonly cache: FileCacheStats;
  /** The connections to FastDFS. */
  readonly connections: ClientStats;
  /** What the map of the deployment has not received yet; undefined without one. */
  readonly map?: DeploymentStats;
  /** What it holds for other servers of the deployment; undefined without a map. */
  readonly held?: HeldStats;
}

export interface FileStoreEvents extends StagingEvents {
  /** Another server has this directory, or its files: this store is closing. */
  refused: [Error];
}

/** What every store can do, whether it stages files itself or a gateway does it: `connect()`. */
export interface Store extends AsyncDisposable {
  /** Resolves once the file is durable. Rejects with StoreError and leaves nothing behind. */
  put(body: Body, options?: PutOptions): Promise<Receipt>;
  /**
   * Stores several files or none. Parts are pulled one after another, each body
   * read to its end before the next part is asked for.
   */
  putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options?: PutAllOptions,
  ): Promise<Receipt[]>;
  /**
   * The files of the upload that was marked so, within the last day unless told otherwise, at any
   * server of the deployment; none if there is none, and then the upload is this server's to
   * make. Rejects with `storage_unavailable` where the one that may have it cannot be asked.
   */
  findOnce(
    once: Uint8Array,
    options?: { readonly withinMs?: number; readonly onlyHere?: boolean },
  ): Promise<Receipt[]>;
  /** `id` is a key or any FastDFS id (`group1/M00/...`). Rejects with `not_found`, `invalid_id`. */
  get(id: string, options?: GetOptions): Promise<StoredFile>;
  stat(id: string, options?: GetOptions): Promise<FileInfo>;
  /**
   * `id` as for `get`. Rejects with `not_found` if there is none (any more), and `invalid_id`
   * for a whole trunk. A slice of a trunk that another store, or direct mode, has written is
   * deleted by the storage: one of Stevedore does that, a stock one does not know slices.
   */
  delete(id: string, options?: Pick<GetOptions, 'onlyHere'>): Promise<void>;
  /** Uploads in several requests; a store may have no such thing. */
  readonly unfinished?: UnfinishedUploads;
  /** The FastDFS id, once the file is in a trunk that stays: after `idMaxAge` at the latest. */
  settled(key: string, options?: { readonly signal?: AbortSignal }): Promise<string>;
  ready(): Promise<Readiness>;
  /** Takes no more calls, finishes what is in progress. What is acknowledged stays staged. */
  close(): Promise<void>;
}

/** What `open()` gives: a store that stages files on this machine's disk. */
export interface FileStore extends Store, EventEmitter<FileStoreEvents> {
  /** `HOST:PORT` of the trackers it works with: those named, or the embedded one. */
  readonly trackers: readonly string[];
  /** What of it is in memory; a store may have no such thing. */
  readonly cached?: CachedFiles;
  /** The server's part in a deployment; undefined without a map. */
  readonly deployment?: Pick<
    Deployment,
    'origin' | 'secret' | 'speaksFor' | 'urlFor' | 'exchangeUsage'
  >;
  /** Copies that it holds of what other servers have staged; undefined without a map. */
  readonly held?: Pick<HeldCopies, 'receive' | 'drop'>;
  /** Other processes of this machine whose files are this store's as well. */
  readonly neighbours?: {
    /** True if one of them gives out keys of this origin. */
    readonly has: (origin: number) => boolean;
    /** To be called when one of them has started again. */
    readonly lookAgain: () => void;
  };
  /** Merges all that is staged now, whatever its age; resolves when it is stored. */
  flush(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** The storages that the trackers know now. Rejects with `storage_unavailable`. */
  cluster(): Promise<readonly StorageMember[]>;
  stats(): StoreStats;
}
