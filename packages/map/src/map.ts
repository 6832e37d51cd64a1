/**
 * The map of a deployment tells every web server which trunk holds the file of a key. It is an
 * index: the container is the truth for staged files and the trunks' directories for merged ones,
 * so a lost map can be rebuilt. Placements and removals may be sent twice, and arrive in order from
 * each gateway. A removal wins over any later placement, because a key is never reused.
 */

/** A file in a trunk, or a large file that is one FastDFS file of its own. */
export interface PlacedFile {
  /** 16 bytes. */
  readonly key: Uint8Array;
  /** Offset of its first byte in the trunk. */
  readonly offset: number;
  readonly size: number;
  readonly crc32: number;
  /** Name, type and group, as the trunk's directory has them. */
  readonly about: string;
  /** Unix milliseconds; null if it never expires. */
  readonly expiresAt: number | null;
}

/** The map's answer about a key. */
export interface MappedFile extends Omit<PlacedFile, 'key'> {
  /** The FastDFS id of the trunk, or of the large file. */
  readonly trunkFileId: string;
  /** The trunk may be joined with others, so its files have no FastDFS id yet. */
  readonly isThin: boolean;
}

export interface Trunk {
  /** 16 bytes, unique in the deployment: the task id in the trunk's own directory. */
  readonly id: Uint8Array;
  readonly fileId: string;
  /**
   * True if it may be joined with others, false if not; undefined leaves the map's value, or false.
   */
  readonly isThin?: boolean | undefined;
}

export interface RemovedFile {
  readonly key: Uint8Array;
  /** The trunk that has its bytes, if known. */
  readonly trunk?: Uint8Array | undefined;
}

/** A trunk as the map lists it. */
export interface ListedTrunk extends Trunk {
  /** It is one large file, not a trunk of many. */
  readonly isWhole: boolean;
  /** The id of that large file; undefined if it was deleted or has moved. */
  readonly file?: PlacedFile | undefined;
}

/** A file as the map lists it. */
export interface ListedFile extends MappedFile {
  readonly key: Uint8Array;
  readonly trunk: Uint8Array;
}

/** Files that only the disk of a gateway has. */
export interface StagedFiles {
  readonly files: number;
  readonly bytes: number;
}

/** Progress of an adoption: another gateway takes over the files of one that will not return. */
export interface Adoption {
  /** Origin of the gateway that adopts them. */
  readonly by: number;
  readonly isDone: boolean;
  /** All trunks to adopt, and those adopted so far. */
  readonly trunks: number;
  readonly adopted: number;
}

/** A web server that stages files. */
export interface Gateway {
  readonly origin: number;
  /** Its URL for other gateways; null if it serves none. */
  readonly url: string | null;
  /** Host and path of its directory; empty once it has left. */
  readonly place: string;
  /** Unix milliseconds by the map's clock. */
  readonly seenAt: number;
  /** What it had not merged when it was last seen. */
  readonly staged: StagedFiles;
  readonly adoption: Adoption | undefined;
}

export interface Joining {
  /** The permanent name of the directory that issues the keys: 16 bytes in hex. */
  readonly instance: string;
  /** The origin of keys issued earlier; undefined lets the map choose a free one. */
  readonly origin: number | undefined;
  readonly url: string | undefined;
  /** Host and path of the directory: one that is in use cannot join from another place. */
  readonly place: string;
}

export interface Joined {
  readonly origin: number;
  /** Shared secret by which the gateways of the deployment recognise each other. */
  readonly secret: string;
}

/** Which gateway has, or had, the claim to an upload that may be sent to several. */
export interface Claim {
  readonly origin: number;
  /** How often it has been claimed. */
  readonly version: number;
}

/** Usage of an API key on one day, as one process counted it. */
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
   * Prepares the map and registers this gateway. Rejects with `origin_taken` if another directory
   * has this origin or another place has this directory, and with `origin_adopted`.
   */
  join(gateway: Joining): Promise<Joined>;
  /**
   * Heartbeat of this gateway. False if its directory is in use at another place, or another
   * gateway has adopted its files.
   */
  seen(origin: number, place: string, staged: StagedFiles): Promise<boolean>;
  /** Deregisters this gateway: its directory may join from another place at once. */
  leave(origin: number, place: string): Promise<void>;
  gateways(): Promise<Gateway[]>;
  /**
   * Gives the files of a gateway that will not return, and all that it had adopted itself, to
   * another gateway. Rejects with `adoption_refused` while it is alive, or if another one has them.
   */
  adopt(origin: number, by: number): Promise<void>;
  /** Records the progress of an adoption; false if another gateway has it now. */
  noteAdoption(origin: number, adoption: Adoption): Promise<boolean>;
  /**
   * Places the files of a trunk, or moves them there. Removed files stay removed, and files that
   * have moved on from there stay where they are.
   */
  place(trunk: Trunk, files: readonly PlacedFile[]): Promise<void>;
  /** Retires a trunk whose files have all moved or gone. */
  retire(trunk: Uint8Array): Promise<void>;
  /**
   * Removes files. `isSettled`: their gateways have deleted them; otherwise each gateway finds what
   * it has to delete in `removalsFor`.
   */
  remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void>;
  /** What the map knows of the keys, in their order; undefined for an unknown one. */
  find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]>;
  /**
   * Removals after that one in the order of time and key, for caches to evict; at most `limit`. A
   * removal can become visible after later ones, for as long as a statement may take.
   */
  removalsAfter(after: Removal, limit: number): Promise<Removal[]>;
  /** Keys of these origins that others removed and that are not settled; at most `limit`. */
  removalsFor(origins: readonly number[], limit: number): Promise<Uint8Array[]>;
  /** All removed keys of the origin after that one, settled or not, in order; at most `limit`. */
  removalsOf(origin: number, after: Uint8Array, limit: number): Promise<Uint8Array[]>;
  /** Trunks after that one, in order, of all origins or of one; at most `limit`. */
  trunks(after: Uint8Array, limit: number, origin?: number): Promise<ListedTrunk[]>;
  /** Files after that one, in the order of the map; at most `limit`. */
  files(after: Uint8Array | undefined, limit: number): Promise<ListedFile[]>;
  /** Deletes the places of files that the map still has in that trunk. */
  displace(trunk: Uint8Array, keys: readonly Uint8Array[]): Promise<void>;
  /**
   * Deletes settled removals before that time whose trunks are retired: while a trunk exists, its
   * directory lists the file. Those of a gateway that is gone stay for its adopter.
   */
  prune(before: number): Promise<void>;
  /**
   * Claims an upload for a gateway for a time; returns who has the claim. `over` takes it over from
   * that gateway, unless it has claimed it again since.
   */
  claim(mark: Uint8Array, origin: number, withinMs: number, over?: Claim): Promise<Claim>;
  /**
   * Records the usage of API keys on a day by the process `run`, a random name, and returns their
   * usage at all other processes.
   */
  exchangeUsage(run: string, day: number, used: readonly KeyUsage[]): Promise<KeyUsage[]>;
  /** Unix milliseconds by the map's clock. */
  now(): Promise<number>;
  close(): Promise<void>;
}

/** A directory may join from another place after this long without a heartbeat. */
export const IN_USE_MS = 30_000;

/** Bytes 6 and 7 of a key are its origin; those of a task id, the origin that made the trunk. */
export function originOf(key: Uint8Array): number {
  return key[6]! * 256 + key[7]!;
}

/** A large file that is its own trunk begins at 0; a trunk of many begins with a header. */
export function wholeOf(files: readonly PlacedFile[]): Uint8Array | undefined {
  return files.length === 1 && files[0]!.offset === 0 ? files[0]!.key : undefined;
}
