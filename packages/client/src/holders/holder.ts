import { type FileRow, formatKey, readAbout } from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { DEFAULT_TYPE } from '../put/intake.js';
import type { Reader } from '../read/reader.js';
import type { FileHandle } from '../read/stored-file.js';
import type { FileState, GetOptions, Receipt } from '../store/types.js';
import type { Place } from './place.js';

/**
 * A place that a key's file can be at: a FileMap of this process or of a sibling, the deployment's
 * map, another gateway, or the second copy of what that gateway has staged.
 */
export interface Holder {
  /**
   * The file; undefined if it is not known here. Rejects with `not_found` only if there is no such
   * file anywhere, and with `storage_unavailable` if nobody knows.
   */
  find(key: Buffer, options: FindOptions): Promise<Found | undefined>;
  /** Deletes it for all servers; false if it is not known here. Rejects as `find`. */
  delete(key: Buffer): Promise<boolean>;
}

export type Found = FileHandle<Place>;

/** What the holders of a store share. */
export interface HolderContext {
  readonly reader: Reader;
  readonly now: () => number;
  /** Undefined without a map. */
  readonly deployment: Deployment | undefined;
}

export interface FindOptions extends Pick<GetOptions, 'signal'> {
  /** True: only its facts, as they are now. */
  readonly isStat?: boolean;
}

/** The facts of a file in a FileMap, or on the way there. Its id takes time to make. */
export function receiptOf(
  file: Pick<
    FileRow,
    'key' | 'name' | 'size' | 'type' | 'crc32' | 'stagedAt' | 'group' | 'expiresAt' | 'pictureOf'
  >,
  state: FileState,
): Receipt {
  const receipt: { -readonly [Name in keyof Receipt]: Receipt[Name] } = {
    key: formatKey(file.key),
    name: file.name,
    size: file.size,
    type: file.type,
    crc32: file.crc32,
    state,
    stagedAt: new Date(file.stagedAt),
  };
  if (file.group !== undefined) receipt.group = file.group;
  if (file.expiresAt !== undefined) receipt.expiresAt = new Date(file.expiresAt);
  if (file.pictureOf) receipt.pictureOf = formatKey(file.pictureOf);
  return receipt;
}

/** The same for a merged file that no FileMap here has. `about`: as in its trunk's directory. */
export function receiptOfAbout(
  about: string,
  file: Pick<FileRow, 'key' | 'size' | 'crc32'>,
  state: FileState = 'merged',
): Receipt {
  const known = readAbout(about);
  const { expiresAt, type } = known;
  return receiptOf({ ...known, ...file, expiresAt, type: type || DEFAULT_TYPE }, state);
}
