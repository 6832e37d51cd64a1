/** The part of FastDFS that staging needs; the SDK hands in the real one. */

export interface TrunkSource {
  /** Bytes that `chunks` will yield. */
  readonly size: number;
  /** Without its dot. */
  readonly extension: string;
  /** Starts from the beginning at each call. */
  chunks(): AsyncIterable<Uint8Array>;
}

export interface TrunkStore {
  /** Stores a new file and gives its full FastDFS id, in which size and CRC-32 stand. */
  store(source: TrunkSource, signal: AbortSignal): Promise<string>;
  /** Does nothing when there is no such file. */
  remove(fileId: string, signal: AbortSignal): Promise<void>;
  /** Bytes of a stored file. Rejects with StoreError `not_found` when there is none. */
  read(fileId: string, offset: number, length: number, signal: AbortSignal): Promise<Buffer>;
}
