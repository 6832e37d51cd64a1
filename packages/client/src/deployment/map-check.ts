import type { DeploymentMap, ListedTrunk, MappedFile, PlacedFile } from '@stevedore/map';
import { ProtocolError } from '@stevedore/protocol';
import {
  type AdoptedFile,
  aboutOf,
  formatKey,
  isStoreError,
  readAbout,
  readTrunkDirectory,
  type TrunkStore,
} from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import { pagesOfTrunks, scanTrunks, trunkOfId } from './trunk-scan.js';

/**
 * Checks the map against the trunks' own directories. A directory is authoritative for its files,
 * except those that were deleted or moved to another trunk. Differences are checked twice, because
 * servers continue to merge and delete.
 */

export interface MapProblem {
  readonly code: /** The directory lists a file that the map does not know. */
    | 'file_missing'
    /** The map has other facts, or has the file in the trunk that it was moved from. */
    | 'file_wrong'
    /** The map has a file in a trunk that does not list it. */
    | 'file_nowhere'
    /** FastDFS does not have the trunk. */
    | 'trunk_missing'
    /** Its directory is damaged or could not be read. */
    | 'trunk_unread'
    /** FastDFS has a trunk that the map does not know. */
    | 'trunk_unknown';
  /** Key or FastDFS id concerned. */
  readonly subject: string;
  readonly detail: string;
  readonly repaired: boolean;
}

export interface MapReport {
  readonly trunks: number;
  /** Directory entries that agreed with the map, including those of deleted and moved files. */
  readonly files: number;
  readonly problems: readonly MapProblem[];
  /** Number of further problems, which are not listed. */
  readonly more: number;
  /** What could not be listed or read, one sentence each. */
  readonly unlisted: readonly string[];
}

export interface MapCheckParts {
  readonly map: DeploymentMap;
  readonly store: TrunkStore;
  readonly repair: boolean;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, all: number) => void;
}

const MAX_PROBLEMS = 1_000;
const FILES_PER_PAGE = 2_000;
const KEPT_DIRECTORIES = 64;

/** The entries of a trunk's directory, by key. */
type Directory = ReadonlyMap<string, AdoptedFile>;

export async function checkMap(parts: MapCheckParts): Promise<MapReport> {
  return new MapCheck(parts).run();
}

/** How the map differs from an entry of a trunk's directory; undefined if it does not. */
export function differenceOf(
  { fileId }: Pick<ListedTrunk, 'fileId'>,
  { file, offset, was }: AdoptedFile,
  mapped: MappedFile | 'removed' | undefined,
): 'file_missing' | 'file_wrong' | undefined {
  if (mapped === 'removed') return undefined;
  if (!mapped) return 'file_missing';
  if (mapped.trunkFileId !== fileId) {
    const isBehind = was.some(([id, at]) => id === mapped.trunkFileId && at === mapped.offset);
    return isBehind ? 'file_wrong' : undefined;
  }
  const { size, crc32, expiresAt = null } = file;
  const isSame =
    mapped.offset === offset &&
    mapped.size === size &&
    mapped.crc32 === crc32 &&
    mapped.expiresAt === expiresAt &&
    aboutOf({ ...readAbout(mapped.about) }) === aboutOf({ ...file, was });
  return isSame ? undefined : 'file_wrong';
}

export function placedOf({ file, offset, was }: AdoptedFile): PlacedFile {
  const { key, size, crc32, expiresAt = null } = file;
  return { key, offset, size, crc32, about: aboutOf({ ...file, was }), expiresAt };
}

class MapCheck {
  readonly #parts: MapCheckParts;
  readonly #problems: MapProblem[] = [];
  readonly #directories = new LRUCache<string, Directory>({ max: KEPT_DIRECTORIES });
  /** Trunks whose directories cannot be read: their files are unknown. */
  readonly #unread = new Set<string>();
  #more = 0;
  #trunks = 0;
  #files = 0;

  constructor(parts: MapCheckParts) {
    this.#parts = parts;
  }

  async run(): Promise<MapReport> {
    const { map, store, signal, onProgress } = this.#parts;
    let all = 0;
    for await (const page of pagesOfTrunks(map)) all += page.length;
    for await (const page of pagesOfTrunks(map)) {
      for (const trunk of page) {
        signal.throwIfAborted();
        await this.#checkTrunk(trunk);
        this.#trunks += 1;
        onProgress(this.#trunks, all);
      }
    }
    await this.#checkFiles();
    const { trunks, unlisted } = await scanTrunks({ map, store, signal });
    for (const { fileId, taskId } of trunks) {
      const detail = `the map does not know this trunk of origin ${taskId.readUInt16BE(6)}: its gateway publishes it, or "stevedore map rebuild" if there is none`;
      this.#note({ code: 'trunk_unknown', subject: fileId, detail, repaired: false });
    }
    const [problems, files] = [this.#problems, this.#files];
    return { trunks: this.#trunks, files, problems, more: this.#more, unlisted };
  }

  async #checkTrunk(trunk: ListedTrunk): Promise<void> {
    const directory = await this.#directoryOf(trunk);
    if (!directory) return;
    const entries = [...directory.values()];
    for (let at = 0; at < entries.length; at += FILES_PER_PAGE) {
      const page = entries.slice(at, at + FILES_PER_PAGE);
      const { wrong } = await this.#compare(trunk, page);
      this.#files += page.length - wrong.length;
      const still = wrong.length === 0 ? [] : (await this.#compare(trunk, wrong)).wrong;
      if (still.length === 0 || !(await this.#isListed(trunk))) continue;
      await this.#settle(trunk, still);
    }
  }

  async #compare(trunk: ListedTrunk, page: readonly AdoptedFile[]) {
    const mapped = await this.#parts.map.find(page.map(({ file }) => file.key));
    return { wrong: page.filter((entry, at) => differenceOf(trunk, entry, mapped[at])) };
  }

  async #settle(trunk: ListedTrunk, entries: readonly AdoptedFile[]): Promise<void> {
    const { map, repair } = this.#parts;
    const before = await map.find(entries.map(({ file }) => file.key));
    if (repair) await map.place(trunk, entries.map(placedOf));
    for (const [index, entry] of entries.entries()) {
      const code = differenceOf(trunk, entry, before[index]);
      if (!code) continue;
      const detail = `${trunk.fileId} has it at ${entry.offset}, ${entry.file.size} bytes`;
      this.#note({ code, subject: formatKey(entry.file.key), detail, repaired: repair });
    }
  }

  /** Undefined if it cannot be read, which is noted as a problem. */
  async #directoryOf(trunk: ListedTrunk): Promise<Directory | undefined> {
    const id = nameOf(trunk.id);
    const known = this.#directories.get(id);
    if (known || this.#unread.has(id)) return known;
    try {
      const directory = await this.#read(trunk);
      this.#directories.set(id, directory);
      return directory;
    } catch (error) {
      this.#parts.signal.throwIfAborted();
      this.#unread.add(id);
      if (await this.#isListed(trunk)) this.#noteUnread(trunk, error as Error);
      return undefined;
    }
  }

  async #read({ id, fileId, isWhole, file }: ListedTrunk): Promise<Directory> {
    const { store, signal } = this.#parts;
    const trunk = trunkOfId(fileId);
    if (!trunk) throw new ProtocolError('it is no FastDFS id');
    if (!isWhole) {
      const taskId = Buffer.from(id);
      const entries = await readTrunkDirectory(store, { ...trunk, fileId, taskId }, signal);
      return new Map(entries.map((entry) => [nameOf(entry.file.key), entry]));
    }
    // A large file has no directory: its size and CRC-32 are in its id.
    if ((await store.sizeOf(fileId, signal)) === undefined) throw gone(fileId);
    if (!file) return new Map();
    const { was, ...about } = readAbout(file.about);
    const key = Buffer.from(file.key);
    return new Map([[nameOf(key), { file: { ...about, ...trunk, key }, offset: 0, was }]]);
  }

  #noteUnread({ fileId }: ListedTrunk, error: Error): void {
    const isGone = isStoreError(error, 'not_found');
    const code = isGone ? 'trunk_missing' : 'trunk_unread';
    const detail = isGone ? 'FastDFS does not have it: its files are lost' : error.message;
    this.#note({ code, subject: fileId, detail, repaired: false });
  }

  /** False if it has been retired since. */
  async #isListed({ id }: ListedTrunk): Promise<boolean> {
    const [found] = await this.#parts.map.trunks(predecessor(id), 1);
    return found !== undefined && nameOf(found.id) === nameOf(id);
  }

  /** Finds files that the map has in trunks that do not list them. */
  async #checkFiles(): Promise<void> {
    const { map, signal } = this.#parts;
    for (let after: Uint8Array | undefined; ; ) {
      signal.throwIfAborted();
      const page = await map.files(after, FILES_PER_PAGE);
      for (const { key, trunk, trunkFileId: fileId, offset } of page) {
        const isListed = fileId !== '' && (await this.#lists(trunk, fileId, key, offset));
        if (!isListed) await this.#noteNowhere(key, trunk, fileId);
      }
      if (page.length < FILES_PER_PAGE) return;
      after = page.at(-1)!.key;
    }
  }

  async #lists(id: Uint8Array, fileId: string, key: Uint8Array, offset: number): Promise<boolean> {
    // Offset 0 means a large file: a trunk begins with a header.
    if (offset === 0 || this.#unread.has(nameOf(id))) return true;
    const directory = await this.#directoryOf({ id, fileId, isWhole: false });
    return directory?.has(nameOf(key)) ?? true;
  }

  async #noteNowhere(key: Uint8Array, trunk: Uint8Array, fileId: string): Promise<void> {
    const { map, repair } = this.#parts;
    const [now] = await map.find([key]);
    if (now === 'removed' || (now && now.trunkFileId !== fileId)) return;
    if (repair) await map.displace(trunk, [key]);
    const where = fileId === '' ? 'a trunk that the map does not know' : fileId;
    const detail = `the map has it in ${where}, which does not list it`;
    const subject = formatKey(Buffer.from(key));
    this.#note({ code: 'file_nowhere', subject, detail, repaired: repair });
  }

  #note(problem: MapProblem): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(problem);
    else this.#more += 1;
  }
}

/** The id immediately before this one. */
function predecessor(id: Uint8Array): Buffer {
  const before = Buffer.from(id);
  let at = before.length - 1;
  while (at > 0 && before[at] === 0) before[at--] = 255;
  before[at] = before[at]! - 1;
  return before;
}

function gone(fileId: string): Error {
  return Object.assign(new Error(`there is no file ${fileId}`), { code: 'not_found' });
}

function nameOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1');
}
