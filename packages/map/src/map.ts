/**
 * The map of a deployment tells every web server which trunk holds the file of a key. It is
 * an index: the container is authoritative for staged files, the trunks' directories for
 * merged ones, so a lost map can be filled again. Each gateway sends its changes in order
 * and may send them twice. A removal wins over any later `place`, because a key is never
 * reused.
 */

/** A file in a trunk, or a large file, which is a FastDFS file by itself. */
export interface PlacedFile {
  /** 16 bytes. */
  readonly key: Uint8Array;
  /** Of its first byte in the trunk. */
  readonly offset: number;
  readonly size: number;
  readonly crc32: number;
  /** Name, type and group, as text of the trunk's directory. */
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
  /** It may be joined with others. Undefined: unchanged; false for a new trunk. */
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
  /** That large file; undefined if it was deleted, or has since been stored elsewhere. */
  readonly file?: PlacedFile | undefined;
}

/** A file as the map lists it. */
export interface ListedFile extends MappedFile {
  readonly key: Uint8Array;
  readonly trunk: Uint8Array;
}

/** Files that only a gateway's disk has. */
export interface StagedFiles {
  readonly files: number;
  readonly bytes: number;
}

/** A file whose bytes are nowhere any more. */
export interface LostFile {
  /** As text. */
  readonly key: string;
  readonly name: string;
}

/** Progress of an adoption: another gateway takes over the files of one that will not return. */
export interface Adoption {
  /** Origin of the gateway that adopts them. */
  readonly by: number;
  readonly isDone: boolean;
  /** Trunks to take over, and those taken over so far. */
  readonly trunks: number;
  readonly adopted: number;
  /** When it was done, by the map's clock. */
  readonly doneAt?: number | undefined;
  /** Why the adopter cannot go on at the moment; it tries again. */
  readonly trouble?: string | undefined;
}

/** A web server that stages files. */
export interface Gateway {
  readonly origin: number;
  /** Permanent name of its directory. */
  readonly instance: string;
  /** URL for the other gateways; null if it serves none of them. */
  readonly url: string | null;
  /** Host and path of its directory; empty once it has left. */
  readonly place: string;
  /** Unix milliseconds by the map's clock. */
  readonly seenAt: number;
  /** Files not merged yet at its last heartbeat. */
  readonly staged: StagedFiles;
  /** Origin of the gateway that holds the second copy of its staged files. */
  readonly holder: number | undefined;
  readonly adoption: Adoption | undefined;
}

export interface Joining {
  /** Permanent name of the directory that issues the keys: 16 bytes in hex. */
  readonly instance: string;
  /** Origin of the keys that were already issued; undefined: any free one. */
  readonly origin: number | undefined;
  readonly url: string | undefined;
  /** Host and path of the directory. While it is in use there, it cannot join from elsewhere. */
  readonly place: string;
  /** Secret of the map that the directory belongs to; undefined if it has never joined one. */
  readonly secret?: string | undefined;
}

export interface Joined {
  readonly origin: number;
  /** Shared by the gateways of the deployment, to authenticate each other; no other map has it. */
  readonly secret: string;
}

/** The gateway that has claimed an upload, which may be sent to several gateways. */
export interface Claim {
  readonly origin: number;
  /** How often the upload was claimed. */
  readonly version: number;
}

/** A process asks for a part of what an API key may use on one day. */
export interface UsageAsk {
  readonly id: string;
  /** Counts in any case: used without a reservation or, if negative, given back. */
  readonly usedBytes: number;
  /** Reserved as far as the limit allows. */
  readonly wantedBytes: number;
  readonly limitBytes: number;
}

export interface UsageGrant {
  readonly id: string;
  readonly grantedBytes: number;
  /** Counted for all processes, this grant included. */
  readonly bytes: number;
}

export interface Removal {
  readonly key: Uint8Array;
  /** Unix milliseconds by the map's clock. */
  readonly removedAt: number;
}

/** An API key, or a policy, that all gateways of the deployment have. */
export interface Setting {
  readonly kind: string;
  readonly name: string;
  /** As its file has it; null if it was removed. */
  readonly body: string | null;
  /** Unix milliseconds by the map's clock. */
  readonly changedAt: number;
}

/**
 * So long after its adoption a directory may come back with files that nobody else has; the map keeps
 * the removals of its origin for a day more.
 */
export const RETURN_MS = 30 * 86_400_000;
/** A directory without a heartbeat for this long may be used elsewhere. */
export const IN_USE_MS = 30_000;

/** Tests whether a gateway can be asked: it has not left, is not adopted, and was heard of lately. */
export function isAlive({ place, adoption, seenAt }: Gateway, now: number): boolean {
  return place !== '' && !adoption && now - seenAt < IN_USE_MS;
}

/** The origin that issued the key or made the trunk: bytes 6 and 7 of its id. */
export function originOf(key: Uint8Array): number {
  return (key[6] ?? 0) * 256 + (key[7] ?? 0);
}

/** The key of a large file, which is at offset 0: a trunk of many files begins with a header. */
export function wholeOf(files: readonly PlacedFile[]): Uint8Array | undefined {
  const [only] = files;
  return files.length === 1 && only?.offset === 0 ? only.key : undefined;
}
