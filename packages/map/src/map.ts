/**
 * The map of a deployment says, on every web server, in which trunk the file of a key is. It
 * is an index: the container is the truth for what is staged, the trunks' directories for
 * what is merged, so a map that is lost can be filled again. What a gateway places and
 * removes may be sent twice and comes in order from each gateway; a removal wins over
 * whatever is placed after it, because a key is never used again.
 */

/** A file in a trunk, or a large file that is one FastDFS file of its own. */
export interface PlacedFile {
  /** 16 bytes. */
  readonly key: Uint8Array;
  /** In bytes, of its first byte in the trunk. */
  readonly offset: number;
  readonly size: number;
  readonly crc32: number;
  /** Name, type and group, as the text that the trunk's directory has of them. */
  readonly about: string;
  /** Unix milliseconds; null: never. */
  readonly expiresAt: number | null;
}

/** What the map knows of a key. */
export interface MappedFile extends Omit<PlacedFile, 'key'> {
  /** The FastDFS id of the trunk, or of the large file. */
  readonly trunkFileId: string;
}

export interface Trunk {
  /** 16 bytes, unique in the deployment: those that the trunk's own directory names. */
  readonly id: Uint8Array;
  readonly fileId: string;
}

export interface RemovedFile {
  readonly key: Uint8Array;
  /** The trunk that has its bytes, if that is known. */
  readonly trunk?: Uint8Array | undefined;
}

/** A web server that stages files. */
export interface Gateway {
  readonly origin: number;
  /** Where the other gateways reach it; null if it serves none of them. */
  readonly url: string | null;
  /** Unix milliseconds by the map's clock. */
  readonly seenAt: number;
}

export interface Joining {
  /** Names the directory that the keys come from, and never changes: 16 bytes in hex. */
  readonly instance: string;
  /** The origin of keys that were already given out; undefined: any that is free. */
  readonly origin: number | undefined;
  readonly url: string | undefined;
  /** Where the directory is, host and path: one that is in use is not taken over elsewhere. */
  readonly place: string;
}

export interface Joined {
  readonly origin: number;
  /** Shared by the gateways of the deployment, to know each other by. */
  readonly secret: string;
}

export interface Removal {
  readonly key: Uint8Array;
  /** Unix milliseconds by the map's clock. */
  readonly removedAt: number;
}

/** All methods reject with `MapError`. */
export interface DeploymentMap {
  /**
   * Makes the schema where there is none, and enters this gateway. Rejects with
   * `origin_taken` if another directory has this origin, or another place this directory.
   */
  join(gateway: Joining): Promise<Joined>;
  /** Says that this gateway is alive; false: its directory was taken over at another place. */
  seen(origin: number, place: string): Promise<boolean>;
  /** Says that it is not any more: its directory may be used elsewhere at once. */
  leave(origin: number, place: string): Promise<void>;
  gateways(): Promise<Gateway[]>;
  /** Enters the files of a trunk, or moves them there; what was removed stays removed. */
  place(trunk: Trunk, files: readonly PlacedFile[]): Promise<void>;
  /** Forgets a trunk whose files have all moved or gone. */
  retire(trunk: Uint8Array): Promise<void>;
  /**
   * Removes files. `isSettled`: their gateways have deleted them; otherwise each gateway
   * finds what it has to delete in `removalsFor`.
   */
  remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void>;
  /** What is known of the keys, in their order; undefined: nothing. */
  find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]>;
  /**
   * Removals behind that one in the order of time and key, so that caches can drop them; at
   * most `limit`. A removal may show up after later ones, for as long as a statement may take.
   */
  removalsAfter(after: Removal, limit: number): Promise<Removal[]>;
  /** Keys of this origin that others have removed and it has not deleted yet; at most `limit`. */
  removalsFor(origin: number, limit: number): Promise<Uint8Array[]>;
  /**
   * Forgets settled removals before that time whose trunks were retired: as long as a trunk is
   * there, its directory lists the file.
   */
  prune(before: number): Promise<void>;
  /** Unix milliseconds by the map's clock. */
  now(): Promise<number>;
  close(): Promise<void>;
}

/** A directory that was not heard of for so long may be used elsewhere. */
export const IN_USE_MS = 30_000;

/** Bytes 6 and 7 of a key are the origin that it comes from. */
export function originOf(key: Uint8Array): number {
  return key[6]! * 256 + key[7]!;
}
