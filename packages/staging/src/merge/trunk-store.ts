/** The part of FastDFS that staging needs; the SDK hands in the real one. */

export interface TrunkSource {
  /** Bytes that `chunks` will yield. */
  readonly size: number;
  /** Without its dot. */
  readonly extension: string;
  /** Starts from the beginning at each call. */
  chunks(): AsyncIterable<Uint8Array>;
  /** Called when a copy may have been stored whose id is not known. */
  readonly onLost?: () => void;
}

/** A file as the list of a storage has it. */
export interface ListedFile {
  readonly fileId: string;
  /** Bytes; undefined for a file that may have changed since it got its id. */
  readonly size: number | undefined;
  readonly crc32: number | undefined;
  /** By the storage's clock, unix milliseconds. */
  readonly createdAt: number;
}

/** Who has a file, of those that should. */
export interface Copies {
  /** `host:port` of the storages that have it, with the size and CRC-32 of its id. */
  readonly holders: readonly string[];
  /** Active storages of its group. */
  readonly members: number;
}

export interface TrunkStore {
  /**
   * Stores a new file and gives its full FastDFS id, in which size and CRC-32 stand. A
   * copy whose id it cannot give is told to the source's `onLost`.
   */
  store(source: TrunkSource, signal: AbortSignal): Promise<string>;
  /** Does nothing when there is no such file. */
  remove(fileId: string, signal: AbortSignal): Promise<void>;
  /**
   * Bytes of a stored file, from the holder if one is named, else from any. Rejects with
   * StoreError `not_found` when there is none.
   */
  read(
    fileId: string,
    offset: number,
    length: number,
    signal: AbortSignal,
    holder?: string,
  ): Promise<Buffer>;
  copies(fileId: string, signal: AbortSignal): Promise<Copies>;
  /** Bytes of a file whose id does not tell; undefined when there is none. */
  sizeOf(fileId: string, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Tells of every file there is, of some more than once. Resolves with what could not be
   * asked, a sentence each: files that are only there were not told of.
   */
  list(onFile: (file: ListedFile) => void, signal: AbortSignal): Promise<readonly string[]>;
}
