import type { FileRow, ReadableStaging } from '@stevedore/staging';
import type { Signal } from '../read/stored-file.js';
import type { FileInfo } from '../store/types.js';
import type { GatewayFiles } from './gateway-files.js';

/** Where the bytes of a file are. `Reader` alone asks of which kind a place is. */
export type Place = LocalPlace | RemotePlace | PeerPlace;

/** In the FileMap of this process or of a sibling: on this disk, or in FastDFS. */
export interface LocalPlace {
  readonly kind: 'local';
  readonly key: string;
  readonly size: number;
  readonly row: FileRow;
  readonly staging: ReadableStaging;
}

/** Where the bytes of a file are in FastDFS. */
export interface RemoteBytes {
  readonly fileId: string;
  /** Where the content begins in that file; 0 unless it is a slice. */
  readonly offset: number;
  readonly size: number;
  /** Undefined if it is not certain (appender files change). */
  readonly crc32: number | undefined;
  /** True if a record names it: if FastDFS has no such file, it was lost. */
  readonly isKnown?: boolean;
}

/** In FastDFS, according to the map or to an id. */
export interface RemotePlace extends RemoteBytes {
  readonly kind: 'remote';
  /** Undefined if it is unknown. */
  readonly key: string | undefined;
  /** Cached by its key, and so are the files beside it, whose keys are in the trunk's directory. */
  readonly isMapped?: boolean;
  /** Its id, which takes time to make. */
  readonly makeId?: () => string | undefined;
  /** Where it is if FastDFS does not have it here. */
  readonly now?: (lost: unknown, signal: Signal) => Promise<Place | undefined>;
}

/** Staged at another gateway. */
export interface PeerPlace extends Pick<FileInfo, 'key' | 'size' | 'crc32'> {
  readonly kind: 'peer';
  /** If they came with its facts. */
  readonly bytes: Buffer | undefined;
  /** Undefined for a second copy that is held here. */
  readonly gateway: GatewayFiles | undefined;
  /** The file in FastDFS that was lost, if that is why the gateway is asked. */
  readonly fileId?: string;
}
