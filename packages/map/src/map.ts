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
  /** The trunk may be joined with others, so its files have no FastDFS id yet. */
  readonly isThin: boolean;
}

export interface Trunk {
  /** 16 bytes, unique in the deployment: those that the trunk's own directory names. */
  readonly id: Uint8Array;
  readonly fileId: string;
  /** It may be joined with others. Undefined: as the map has it, or it may not. */
  readonly isThin?: boolean | undefined;
}

export interface RemovedFile {
  readonly key: Uint8Array;
  /** The trunk that has its bytes, if that is known. */
  readonly trunk?: Uint8Array | undefined;
}

/** A trunk as the map lists it. */
export interface ListedTrunk extends Trunk {
  /** It is one large file, not a trunk of many. */
  readonly isWhole: boolean;
  /** That large file; undefined if it was deleted, or is stored elsewhere by now. */
  readonly file?: PlacedFile | undefined;
}

/** A file as the map lists it. */
export interface ListedFile extends MappedFile {
  readonly key: Uint8Array;
  readonly trunk: Uint8Array;
}

/** What only the disk of a gateway has. */
export interface StagedFiles {
  readonly files: number;
  readonly bytes: number;
}

/** How far another gateway has taken over the files of one that will not return. */
export interface Adoption {
  /** Origin of the gateway that takes them over. */
  readonly by: number;
  readonly isDone: boolean;
  /** Trunks to take over, and those of them that are. */
  readonly trunks: number;
  readonly adopted: number;
}

/** A web server that stages files. */
export interface Gateway {
  readonly origin: number;
  /** Where the other gateways reach it; null if it serves none of them. */
  readonly url: string | null;
  /** Host and path of its directory; empty: it has left. */
  readonly place: string;
  /** Unix milliseconds by the map's clock. */
  readonly seenAt: number;
  /** What was not merged yet when it was seen last. */
  readonly staged: StagedFiles;
  readonly adoption: Adoption | undefined;
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

/** Who has, or had, an upload that may be sent to several gateways. */
export interface Claim {
  readonly origin: number;
  /** Counts the times that it was claimed. */
  readonly version: number;
}

/** What a key has used on a day, by one process. */
export interface KeyUsage {
  readonly id: string;
  readonly bytes: number;
}

export interface Removal {
  readonly key: Uint8Array;
  /** Unix milliseconds by the map's clock. */
  readonly removedAt: number;
}

/** All methods reject with `MapError`. */
export interface DeploymentMap {
  /** Creates the schema if it is missing, for programs that are not gateways. */
  prepare(): Promise<void>;
  /**
   * Prepares, and enters this gateway. Rejects with `origin_taken` if another directory has this
   * origin, or another place this directory, and with `origin_adopted`.
   */
  join(gateway: Joining): Promise<Joined>;
  /**
   * Says that this gateway is alive; false: its directory was taken over at another place, or
   * its files by another gateway.
   */
  seen(origin: number, place: string, staged: StagedFiles): Promise<boolean>;
  /** Says that it is not any more: its directory may be used elsewhere at once. */
  leave(origin: number, place: string): Promise<void>;
  gateways(): Promise<Gateway[]>;
  /**
   * Gives the files of a gateway that will not return to another one, with all that it had taken
   * over itself. Rejects with `adoption_refused` while it is alive, and if another one has them.
   */
  adopt(origin: number, by: number): Promise<void>;
  /** Says how far an adoption is; false if it is another gateway's by now. */
  noteAdoption(origin: number, adoption: Adoption): Promise<boolean>;
  /**
   * Enters the files of a trunk, or moves them there; what was removed stays removed, and what
   * has moved on from there stays where it is.
   */
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
  /** Keys of these origins that others have removed and it has not deleted yet; at most `limit`. */
  removalsFor(origins: readonly number[], limit: number): Promise<Uint8Array[]>;
  /** All removed keys of the origin behind that one, settled or not, in order; at most `limit`. */
  removalsOf(origin: number, after: Uint8Array, limit: number): Promise<Uint8Array[]>;
  /** Trunks behind that one, in order, of all origins or of one; at most `limit`. */
  trunks(after: Uint8Array, limit: number, origin?: number): Promise<ListedTrunk[]>;
  /** Files behind that one, in the order of the map; at most `limit`. */
  files(after: Uint8Array | undefined, limit: number): Promise<ListedFile[]>;
  /** Forgets where files are, if the map still has them in that trunk. */
  displace(trunk: Uint8Array, keys: readonly Uint8Array[]): Promise<void>;
  /**
   * Forgets settled removals before that time whose trunks were retired: as long as a trunk is
   * there, its directory lists the file. Those of a gateway that is away stay, for its adopter.
   */
  prune(before: number): Promise<void>;
  /**
   * Claims an upload for a gateway, for so long; gives who has it. `over`: takes it over from
   * that one, unless it has claimed it again since.
   */
  claim(mark: Uint8Array, origin: number, withinMs: number, over?: Claim): Promise<Claim>;
  /**
   * Says what keys have used on a day at the process `run`, a random name, and gives what they have
   * used at all others.
   */
  exchangeUsage(run: string, day: number, used: readonly KeyUsage[]): Promise<KeyUsage[]>;
  /** Unix milliseconds by the map's clock. */
  now(): Promise<number>;
  close(): Promise<void>;
}

/** A directory that was not heard of for so long may be used elsewhere. */
export const IN_USE_MS = 30_000;

/** Bytes 6 and 7 of a key are the origin that it comes from; of a trunk, that which made it. */
export function originOf(key: Uint8Array): number {
  return key[6]! * 256 + key[7]!;
}

/** The large file that is a trunk of its own: a trunk of many begins with a header. */
export function wholeOf(files: readonly PlacedFile[]): Uint8Array | undefined {
  return files.length === 1 && files[0]!.offset === 0 ? files[0]!.key : undefined;
}
