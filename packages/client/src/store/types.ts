import type { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import type { FileCacheStats } from '@stevedore/cache';
import type { ClientStats } from '@stevedore/fastdfs';
import type { HeldStats, StagingEvents } from '@stevedore/staging';
import type { DeploymentStats } from '../deployment/deployment.js';
import type { FilePage, GroupListing, GroupOptions, Listing, ListOptions } from '../list/pages.js';
import type { Body } from '../put/body-kinds.js';
import type { StorageMember } from './cluster.js';
import type { FilePlaces } from './places.js';
import type { FileInfo, IdPending, Receipt } from './receipt.js';
import type { FileCounts } from './store-counts.js';

export type {
  FilePage,
  GroupListing,
  GroupOptions,
  GroupPage,
  Listing,
  ListOptions,
} from '../list/pages.js';
export type { Body, Chunk } from '../put/body-kinds.js';
export type { FileInfo, FileState, IdPending, IdPendingReason, Receipt } from './receipt.js';

/**
 * What `open()` and `connect()` return: the contract between the SDK and everything built on it.
 */

export interface PutOptions {
  /**
   * The client's name for the file: stored and returned, never used as a path. Default: the name of
   * a File.
   */
  readonly name?: string | undefined;
  /** Media type. Default: the type of a Blob or File, else `application/octet-stream`. */
  readonly type?: string | undefined;
  /** Affinity group: files of one group are stored side by side. */
  readonly group?: string | undefined;
  /** When the file expires. */
  readonly expiresAt?: Date | undefined;
  /** `os` lowers the store's own durability for this file. */
  readonly durability?: 'sync' | 'os' | undefined;
  /** 16 bytes that mark the upload, for `findOnce`. */
  readonly once?: Uint8Array | undefined;
  /** Key of the file that this one, such as a picture in another size, is made of and goes with. */
  readonly pictureOf?: string | undefined;
  /**
   * staged (the default): acknowledged once it is safe on this machine, stored in FastDFS later.
   * direct: not kept here; collected briefly with others, written group by group, and acknowledged
   * once FastDFS has it. The receipt then has the file's FastDFS id, which is also its key. A file
   * that is alone in its group keeps neither name nor type.
   */
  readonly mode?: 'staged' | 'direct';
  /** Exact length of the body; any other is refused with `length_mismatch`. */
  readonly size?: number | undefined;
  /** Refuses a longer body with `too_large`, at once; default `maxFileSize`. */
  readonly maxBytes?: number | undefined;
  /** Nobody will change the Buffer, or the chunks: the store keeps them without a copy. */
  readonly transfer?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** `name` is by default the last part of the path. */
export type PutFileOptions = Omit<PutOptions, 'size' | 'transfer'>;

export interface PutPart
  extends Omit<PutOptions, 'signal' | 'group' | 'durability' | 'once' | 'pictureOf' | 'mode'> {
  readonly body: Body;
}

export interface PutAllOptions {
  /** One group for all parts; a function is called after the last part has been read. */
  readonly group?: (string | (() => string | undefined)) | undefined;
  readonly durability?: 'sync' | 'os' | undefined;
  readonly once?: Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface FlushOptions {
  /** Longest wait, up to an hour; default one minute. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** True: only what this server has staged; asks no other server of the deployment. */
  readonly onlyHere?: boolean | undefined;
}

/** Without `away`, all servers have stored what they had staged. */
export type Flushed = Pick<FilePage, 'away'>;

/** Where a file is; see `locate`. */
export interface FileLocation extends FilePlaces {
  readonly file: FileInfo;
}

/** First and last byte, both counted from 0 and included. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface ReadOptions {
  readonly range?: ByteRange;
  readonly signal?: AbortSignal | undefined;
}

export interface GetOptions {
  readonly signal?: AbortSignal | undefined;
  /** True: asks no other server of the deployment. For requests that come from another server. */
  readonly onlyHere?: boolean | undefined;
}

/** An existing file, ready to be read. It reads nothing until you call one of the methods. */
export interface StoredFile extends Omit<FileInfo, 'key' | 'fileId' | 'idPending'> {
  /** Absent for a file found by its FastDFS id if this store does not know its key. */
  readonly key?: string;
  /** As in `FileInfo`. */
  readonly fileId?: string | undefined;
  /** As in `FileInfo`. */
  readonly idPending?: IdPending | undefined;
  /** Strong entity tag, with its quotes. */
  readonly etag: string;
  /**
   * The bytes: a Buffer for a small file, a stream for a large one. Resolves once the file is known
   * to be readable (small files: verified against their CRC-32), so that a server can still answer
   * with an error. Every block of a large file is verified before it is emitted. The Buffer may be
   * shared with other readers: do not change or transfer it. The results of the other methods
   * belong to the caller.
   */
  content(options?: ReadOptions): Promise<Buffer | Readable>;
  /**
   * The whole content of a small file, as `content` gives it, if it is in memory or in the system's
   * page cache: no waiting, no promises. Otherwise undefined, also if the file cannot be read.
   */
  contentNow(): Buffer | undefined;
  /** All bytes (or the range) in memory, verified. */
  bytes(options?: ReadOptions): Promise<Buffer>;
  /** A Node stream; errors come through it. */
  stream(options?: ReadOptions): Readable;
  /** A Web stream. */
  web(options?: ReadOptions): ReadableStream<Uint8Array>;
}

/** Counts a read: the bytes were sent. */
export interface BeginOptions extends Pick<PutOptions, 'name' | 'type' | 'group' | 'size'> {
  /** How long the file lives once it is finished. Default: for ever. */
  readonly ttlMs?: number | undefined;
  /** 16 bytes that mark the upload, for `findOnce`, once it is a file. */
  readonly once?: Uint8Array | undefined;
  /** Up to 8 KiB of the caller's own text, returned by `find`. */
  readonly note?: string;
  /**
   * The client that the upload counts for. If it has `maxUploads` unfinished ones already, `begin`
   * rejects with `too_many_unfinished`. Its unfinished uploads can hold as many bytes as are free
   * for those of all others: beyond that, `begin` and `append` reject with `client_room_exceeded`.
   */
  readonly owner?: { readonly name: string; readonly maxUploads: number };
}

export interface UnfinishedUpload {
  /** The key of the future file; until it is finished, only these calls accept it. */
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly group?: string | undefined;
  readonly ttlMs?: number | undefined;
  readonly note: string;
  readonly once?: Buffer | undefined;
  readonly createdAt: Date;
  /** Of the whole file, once it is known. */
  readonly size?: number | undefined;
  /** Bytes that are durable: the next ones begin here. */
  readonly offset: number;
}

export interface AppendOptions extends Pick<PutOptions, 'transfer'> {
  /** Called after the last byte. If it throws, or the body fails, none of the bytes are kept. */
  readonly check?: (() => void) | undefined;
}

/**
 * Resumable uploads. They stay on this server's disk, across restarts, until they are finished,
 * removed, or older than `unfinishedAge`. All calls reject with `not_found` for an unknown upload.
 */
export interface UnfinishedUploads {
  readonly maxAgeMs: number;
  begin(options?: BeginOptions): Promise<UnfinishedUpload>;
  find(id: string): UnfinishedUpload | undefined;
  /** An upload that was begun with this mark. */
  findOnce(once: Uint8Array): UnfinishedUpload | undefined;
  /** The same, after all calls for it that are in progress. */
  settled(id: string): Promise<UnfinishedUpload | undefined>;
  /**
   * Appends bytes and resolves with the new offset once they are durable. If the body fails, the
   * bytes that arrived are kept. Rejects with `too_large`, and with `offset_mismatch` if
   * the upload has more or fewer bytes than `offset`.
   */
  append(id: string, offset: number, body: Body, options?: AppendOptions): Promise<number>;
  /** Rejects with `length_mismatch` if a size is known already, or more bytes have arrived. */
  declareSize(id: string, size: number): Promise<void>;
  /** The bytes from `start` to before `end`; `end` is the offset by default. */
  read(id: string, start?: number, end?: number): AsyncIterable<Uint8Array>;
  /**
   * Turns it into a file; the id becomes the key. `once` marks it, unless `begin` did. Rejects with
   * `length_mismatch` if bytes are missing.
   */
  finish(id: string, options?: Pick<BeginOptions, 'once'>): Promise<Receipt>;
  remove(id: string): Promise<void>;
}

export interface Readiness {
  readonly ready: boolean;
  /** True if files can be acknowledged durably now. */
  readonly accepting: boolean;
  /** True if a tracker answers. */
  readonly trackerReachable: boolean;
  /** What is wrong, as text: why it is not ready, why FastDFS takes no trunks, what is wrong with the deployment. */
  readonly problems: readonly string[];
}

export interface StoreStats extends FileCounts {
  readonly containerLimitBytes: number;
  /** Uploads whose bytes are arriving now. */
  readonly uploadsInFlight: number;
  /** Since the store was opened: files acknowledged, and their bytes. */
  readonly acknowledgedFiles: number;
  readonly acknowledgedBytes: number;
  /** Failed calls of `put` and `putAll`. */
  readonly failedUploads: number;
  readonly deletedFiles: number;
  /** Reads started, of whole files or ranges, and their bytes. */
  readonly reads: number;
  readonly readBytes: number;
  readonly failedReads: number;
  /** Trunks and large files that reads found missing in FastDFS, and that are not back. */
  readonly missingInFastdfs: number;
  readonly cache: FileCacheStats;
  /** The connections to FastDFS. */
  readonly connections: ClientStats;
  /** What the map of the deployment has not received yet; undefined without one. */
  readonly map?: DeploymentStats;
  /** Copies held for other servers of the deployment; undefined without a map. */
  readonly held?: HeldStats;
}

export interface FileStoreEvents extends StagingEvents {
  /** Another server has this directory, or its files: this store is closing. */
  refused: [Error];
}

/**
 * What every store can do, whether it stages files itself (`open()`) or a gateway does
 * (`connect()`).
 */
export interface Store extends AsyncDisposable {
  /**
   * Resolves once the file is durable. Rejects with StoreError and leaves nothing behind. A string
   * is the content of the file: `put('./photo.jpg')` stores these eleven characters. To store the
   * file of that path, call `putFile`.
   */
  put(body: Body, options?: PutOptions): Promise<Receipt>;
  /**
   * Streams a file from this machine's disk. Rejects with `invalid_option` for a directory or pipe,
   * `length_mismatch` if the file grows or shrinks meanwhile, and `aborted` if it cannot be read.
   */
  putFile(path: string | URL, options?: PutFileOptions): Promise<Receipt>;
  /**
   * Stores all of the files or none. Parts are pulled one after another: each body is read to its
   * end before the next part.
   */
  putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options?: PutAllOptions,
  ): Promise<Receipt[]>;
  /**
   * The files of the upload with this mark, at any server of the deployment, within the last day by
   * default, in its order; one that was deleted since has the state `deleted` and no key. Empty if
   * none is left; this server then makes the upload. Rejects with `storage_unavailable` if the
   * server that may have it does not answer; while the map is away, all that answer are asked.
   */
  findOnce(
    once: Uint8Array,
    options?: { readonly withinMs?: number | undefined; readonly onlyHere?: boolean | undefined },
  ): Promise<Receipt[]>;
  /** False while the map is away: another server may then make an upload again that was made here. */
  readonly sharesMarks?: boolean;
  /** `id` is a key or any FastDFS id (`group1/M00/...`). Rejects with `not_found`, `invalid_id`. */
  get(id: string, options?: GetOptions): Promise<StoredFile>;
  stat(id: string, options?: GetOptions): Promise<FileInfo>;
  /**
   * The files that were uploaded at this server and its workers, with their keys; those of other
   * servers of a deployment are listed there. Rejects with `invalid_option`, and with
   * `storage_unavailable` while a lost FileMap is rebuilt. `for await` also ends with that error
   * if pages lacked the files of a server.
   */
  list(options?: ListOptions): Listing;
  /** The groups that have a file, as `list` gives files. One whose name is empty is left out. */
  groups(options?: GroupOptions): GroupListing;
  /**
   * `id` as for `get`. Rejects with `not_found` if the file does not exist, and `invalid_id` for a
   * whole trunk. A slice of a trunk that another store or direct mode wrote is deleted by the
   * storage: Stevedore's storages can do that, stock ones do not know slices.
   */
  delete(id: string, options?: Pick<GetOptions, 'onlyHere'>): Promise<void>;
  /** Resumable uploads, if the store supports them. */
  readonly unfinished?: UnfinishedUploads;
  /** The FastDFS id, once the file is in a trunk that stays: after `idMaxAge` at the latest. */
  settled(key: string, options?: Pick<ReadOptions, 'signal'>): Promise<string>;
  /**
   * Stores in FastDFS what is staged now, whatever its age, and gives it its ids: trunks that are not
   * full stay as they are. A file that is uploaded meanwhile may wait for the next call. Every server
   * of a deployment does it, with all workers. Rejects with `storage_unavailable` if that takes longer
   * than `timeoutMs`, with the reason in the message; nothing is lost then, and merging goes on.
   */
  flush(options?: FlushOptions): Promise<Flushed>;
  ready(): Promise<Readiness>;
  /** Refuses new calls and finishes those in progress. Acknowledged files stay staged. */
  close(): Promise<void>;
}

/** What `open()` returns: a store that stages files on this machine's disk. */
export interface FileStore extends Store, EventEmitter<FileStoreEvents> {
  /** `HOST:PORT` of the trackers: those you named, or the embedded one. */
  readonly trackers: readonly string[];
  /**
   * Where the bytes of a file are: on this disk, in which trunk, at which storages. `id` as for
   * `get`. It asks every storage of the trunk's group, so it is for looking at one file.
   */
  locate(id: string, options?: GetOptions): Promise<FileLocation>;
  /** The storages that the trackers know now. Rejects with `storage_unavailable`. */
  cluster(): Promise<readonly StorageMember[]>;
  stats(): StoreStats;
}
