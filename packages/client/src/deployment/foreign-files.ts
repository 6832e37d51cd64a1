import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FileCache } from '@stevedore/cache';
import { type Claim, MapError, type MappedFile, originOf } from '@stevedore/map';
import { formatKey, type HeldCopies, isStoreError, StoreError } from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import type { Downloads } from '../downloads.js';
import { aborted } from '../failures.js';
import type { Reads } from '../reads.js';
import { type FileFacts, FileHandle, lengthOf, type ReadContent } from '../stored-file.js';
import type { ByteRange, FileInfo, StoredFile } from '../types.js';
import type { Deployment } from './deployment.js';
import type { FoundFile, GatewayFiles } from './gateway-files.js';
import { CLOCK_READ_MS } from './map-cache.js';
import { factsOf, fileIdOf } from './mapped-facts.js';
import { askAll, type Others, othersToAsk } from './others.js';
import { cut, PeerFileReader } from './peer-file-reader.js';
import { mapUnavailable, OtherServers } from './peers.js';
import { ReachOfOthers } from './reach.js';
import { throughRestart } from './restarts.js';

/**
 * Files that other servers of the deployment staged. The map tells which trunk has a merged file; a
 * staged file is read at its own gateway, in one hop. A file is `not_found` only if the map or its
 * own gateway says so. Everything else is `storage_unavailable`, which can be retried.
 */

export interface ForeignFilesParts {
  readonly deployment: Deployment;
  /** Reads part of a FastDFS file through the caches. */
  readonly readMapped: (
    name: string,
    file: MappedFile,
    ...rest: Parameters<ReadContent>
  ) => ReturnType<ReadContent>;
  readonly downloads: Pick<Downloads, 'missing' | 'lossOf'>;
  readonly reads: Pick<Reads, 'run' | 'runNow'>;
  /** Has files by their keys. */
  readonly cache: FileCache;
  /** Larger files are streamed. */
  readonly smallFileBytes: number;
  readonly now: () => number;
  /** Copies of other servers' staged files. */
  readonly held?: Pick<HeldCopies, 'find'> | undefined;
}

/** Facts of staged files are remembered as long as the map's answers. */
const STAGED = { max: 20_000, ttl: 60_000, ttlResolution: CLOCK_READ_MS };
const SETTLED_INTERVAL_MS = 1_000;

export class ForeignFiles {
  readonly #parts: ForeignFilesParts;
  readonly #peers: OtherServers;
  readonly reach: ReachOfOthers;
  readonly #reader: PeerFileReader;
  /** Facts of files that are staged elsewhere, and where. */
  readonly #staged = new LRUCache<string, StagedElsewhere>(STAGED);

  constructor(parts: ForeignFilesParts) {
    this.#parts = parts;
    this.#peers = new OtherServers(parts.deployment);
    this.reach = new ReachOfOthers(parts.deployment);
    this.#reader = new PeerFileReader(parts);
  }

  /** True for a key that another server issued. */
  isForeign(key: Buffer): boolean {
    return originOf(key) !== this.#parts.deployment.origin;
  }

  /** True for a file, this server's own or not, that another server is known to have deleted. */
  isKnownRemoved(key: Buffer): boolean {
    return this.#parts.deployment.isKnownRemoved(key);
  }

  /**
   * True if the file is deleted, according to the map or, while that is down, to the file's own
   * gateway. Rejects with `storage_unavailable` if neither answers.
   */
  async isRemoved(key: Buffer): Promise<boolean> {
    try {
      return (await this.#parts.deployment.find(key)) === 'removed';
    } catch (error) {
      if (!(error instanceof MapError)) throw error;
    }
    const files = await this.#peers.of(originOf(key), formatKey(key));
    try {
      await files?.facts(formatKey(key), undefined);
      return false;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return true;
      throw error;
    }
  }

  /** Its FastDFS id, once it is merged; rejects with `not_found` if it will never have one. */
  async settled(key: Buffer, signal: AbortSignal | undefined): Promise<string> {
    for (;;) {
      const { fileId, state } = await this.stat(key, signal);
      if (fileId !== undefined) return fileId;
      if (state === 'merged') {
        throw new StoreError(
          'not_found',
          `${formatKey(key)} is merged, but no FastDFS id can be made for it; read it by its key`,
        );
      }
      try {
        await sleep(SETTLED_INTERVAL_MS, undefined, { signal });
      } catch (error) {
        throw aborted(error);
      }
    }
  }

  /** False for a file of another server, unless a recent answer says that it is there. */
  isCurrent(key: Buffer): boolean {
    const { deployment } = this.#parts;
    const origin = originOf(key);
    return (
      origin === deployment.origin ||
      deployment.isAuthoritativeFor(origin) ||
      typeof deployment.known(key) === 'object' ||
      this.#staged.has(formatKey(key))
    );
  }

  /** A file of which a recent answer says where it is: in FastDFS, or in memory here. */
  findNow(key: Buffer): StoredFile | undefined {
    const { deployment, downloads } = this.#parts;
    const mapped = deployment.known(key);
    if (typeof mapped === 'object') {
      return downloads.missing.has(mapped.trunkFileId) ? undefined : this.#mappedFile(key, mapped);
    }
    const name = formatKey(key);
    const staged = this.#staged.get(name);
    return staged && this.#parts.cache.has(name)
      ? this.#stagedFile(staged.files, { info: staged.info, bytes: undefined })
      : undefined;
  }

  /** Call it when the file was deleted. */
  forget(key: Buffer): void {
    this.#staged.delete(formatKey(key));
  }

  /** Rejects with `not_found` and `storage_unavailable`. */
  find(key: Buffer, signal: AbortSignal | undefined): Promise<StoredFile> {
    const attempt = () => this.#find(key, (files, name) => files.find(name, signal), signal);
    return throughRestart(attempt, () => this.#mayReturn(key), signal);
  }

  /** As `find`, for the facts as they are now. */
  stat(key: Buffer, signal: AbortSignal | undefined): Promise<StoredFile> {
    const facts = async (files: GatewayFiles, name: string) => ({
      info: await files.facts(name, signal),
      bytes: undefined,
    });
    const attempt = () => this.#find(key, facts, signal);
    return throughRestart(attempt, () => this.#mayReturn(key), signal);
  }

  async #find(
    key: Buffer,
    ask: (files: GatewayFiles, name: string) => Promise<FoundFile>,
    signal: AbortSignal | undefined,
  ): Promise<StoredFile> {
    const mapped = await this.#mapped(key);
    const loss = mapped && (await this.#parts.downloads.lossOf(mapped.trunkFileId));
    if (mapped && !loss) return this.#mappedFile(key, mapped);
    const name = formatKey(key);
    let files: GatewayFiles | undefined;
    try {
      files = await this.#peers.of(originOf(key), name);
      const copy = files && this.reach.isSuspect(files.url) && (await this.#copyOf(key, signal));
      if (copy) return copy;
      if (files) return this.#stagedFile(files, this.#remember(key, files, await ask(files, name)));
    } catch (error) {
      if (isStoreError(error, 'storage_unavailable')) {
        if (files) this.reach.suspect(files.url);
        const copy = await this.#copyOf(key, signal);
        if (copy) return copy;
      }
      if (!isStoreError(error, 'not_found') || loss) throw error;
      // It may have been merged since the map was asked.
      this.#parts.deployment.forget(key);
      const again = await this.#mapped(key);
      if (again) return this.#mappedFile(key, again);
      throw error;
    }
    // No server of the deployment issues such keys.
    throw loss ?? notFound(key);
  }

  /**
   * A staged file in the copy that is held here of that server's container. Rejects with `not_found`
   * if it was deleted.
   */
  async findHeld(origin: number, key: Buffer): Promise<StoredFile | undefined> {
    const found = await this.#parts.held?.find(origin, key);
    if (!found) return undefined;
    if (found === 'deleted') throw notFound(key);
    const { row, bytes } = found;
    const { name, size, type, crc32, group, expiresAt, pictureOf } = row;
    if (expiresAt !== undefined && expiresAt <= this.#parts.now()) return undefined;
    const facts = {
      ...{ key: formatKey(key), name, size, type, crc32, state: 'staged' as const },
      stagedAt: new Date(row.stagedAt),
      ...(group === undefined ? {} : { group }),
      ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt) }),
      ...(pictureOf ? { pictureOf: formatKey(pictureOf) } : {}),
    };
    return this.#handle(facts, async (range) => cut(bytes, range));
  }

  /**
   * A staged file of a server that is not reached, from the server that holds its copies. Rejects with
   * `not_found` if it was deleted.
   */
  async #copyOf(key: Buffer, signal: AbortSignal | undefined): Promise<StoredFile | undefined> {
    const { deployment } = this.#parts;
    const copies = deployment.copiesOf(originOf(key));
    if (!copies) return undefined;
    const { of, at } = copies;
    try {
      if (at.origin === deployment.origin) return await this.findHeld(of, key);
      const files = at.url === null ? undefined : this.#peers.at(at.url);
      const found = await files?.findCopy(of, formatKey(key), signal);
      return files && found && this.#stagedFile(files, found);
    } catch (error) {
      if (isStoreError(error, 'not_found')) throw error;
      return undefined;
    }
  }

  /** Deletes it for all servers. Rejects as `find`. */
  delete(key: Buffer): Promise<void> {
    let isAsked = false;
    const attempt = async (): Promise<void> => {
      try {
        await this.#delete(key, () => {
          isAsked = true;
        });
      } catch (error) {
        // Its own gateway deleted it for the request whose answer was lost.
        if (!isAsked || !isStoreError(error, 'not_found')) throw error;
        await this.#removeFromMap(key);
      }
    };
    return throughRestart(attempt, () => this.#mayReturn(key));
  }

  #mayReturn(key: Buffer): boolean {
    return this.#parts.deployment.mayReturn(originOf(key));
  }

  /** `onAsked`: the file's own gateway was asked, and its answer is lost. */
  async #delete(key: Buffer, onAsked: () => void): Promise<void> {
    const { deployment } = this.#parts;
    if (await this.#mapped(key)) {
      try {
        await deployment.remove(key);
        return;
      } catch (error) {
        // The map is down; the file's own gateway can delete it, too.
        if (!(error instanceof MapError)) throw error;
      }
    }
    const files = await this.#peers.of(originOf(key), formatKey(key));
    if (!files) throw notFound(key);
    try {
      if (this.reach.isSuspect(files.url) && (await this.#copyOf(key, undefined))) {
        return await this.#removeFromMap(key);
      }
      await files.delete(formatKey(key));
      deployment.noteRemoved(key);
    } catch (error) {
      // A server that is down finds the deletion in the map once it is back.
      if (!isStoreError(error, 'storage_unavailable')) throw error;
      onAsked();
      if (!(await this.#copyOf(key, undefined))) throw error;
      await this.#removeFromMap(key);
    }
  }

  async #removeFromMap(key: Buffer): Promise<void> {
    if (this.isKnownRemoved(key)) return;
    await this.#parts.deployment.remove(key).catch((cause: unknown) => {
      throw cause instanceof MapError ? mapUnavailable(cause) : cause;
    });
  }

  /**
   * The files of the upload with this mark, at whichever server made it. None: this server makes it
   * and has claimed it or, while the map is away, has asked the others that answer.
   */
  async findOnce(
    mark: Buffer,
    withinMs: number,
    others: Others & { readonly at: (url: string) => GatewayFiles },
  ): Promise<FileInfo[]> {
    const { deployment } = this.#parts;
    const attempt = (over?: Claim) =>
      deployment.claim(mark, withinMs, over).catch((error: unknown) => {
        throw error instanceof MapError ? mapUnavailable(error) : error;
      });
    const claim = (over?: Claim) =>
      throughRestart(
        () => attempt(over),
        () => deployment.mapMayReturn,
      );
    const before = await claim().catch(() => undefined);
    if (!before) {
      const toAsk = await othersToAsk(others);
      const { answers } = await askAll(toAsk, (url) => others.at(url).findOnce(mark, withinMs));
      return answers.find((each) => each.length > 0) ?? [];
    }
    if (before.origin === deployment.origin) return [];
    const files = others.isHere(before.origin)
      ? undefined
      : await this.#peers.of(before.origin, 'the upload');
    const found = (await files?.findOnce(mark, withinMs)) ?? [];
    if (found.length > 0) return found;
    const now = await claim(before);
    if (now.origin === deployment.origin) return [];
    throw new StoreError('storage_unavailable', 'another server is making this upload');
  }

  /** The server at this URL. Throws `storage_unavailable`. */
  at(url: string): GatewayFiles {
    const files = this.#peers.at(url);
    if (files) return files;
    throw new StoreError('storage_unavailable', 'the map has not answered yet');
  }

  async close(): Promise<void> {
    await Promise.all([this.#peers.close(), this.reach.close()]);
  }

  /** Its place according to the map; undefined if the map does not know it or answer. */
  async #mapped(key: Buffer): Promise<MappedFile | undefined> {
    try {
      const answer = await this.#parts.deployment.find(key);
      if (answer !== 'removed') return answer;
    } catch (error) {
      // Its gateway may have it nevertheless, and can serve merged files, too.
      if (error instanceof MapError) return undefined;
      throw error;
    }
    throw notFound(key);
  }

  #mappedFile(key: Buffer, file: MappedFile): StoredFile {
    if (file.expiresAt !== null && file.expiresAt <= this.#parts.now()) throw notFound(key);
    const name = formatKey(key);
    const read: ReadContent = async (range, signal) => {
      try {
        const content = await this.#parts.readMapped(name, file, range, signal);
        if (Buffer.isBuffer(content)) return content;
        const { start, end } = range ?? { start: 0, end: file.size - 1 };
        return Readable.from(this.#following(content, key, file, { start, end }, signal), {
          objectMode: false,
        });
      } catch (error) {
        if (!isLoss(error)) throw error;
        return this.#readMoved(key, file, range, signal, error);
      }
    };
    const facts = factsOf(name, file);
    return this.#handle(
      facts,
      read,
      () => this.#reader.cachedNow(name),
      () => fileIdOf(facts, file),
    );
  }

  /** If a large file is moved while it is read, continues at its new place. */
  async *#following(
    content: Readable,
    key: Buffer,
    file: MappedFile,
    { start, end }: ByteRange,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Buffer, void> {
    let next = start;
    try {
      for await (const chunk of content as AsyncIterable<Buffer>) {
        next += chunk.length;
        yield chunk;
      }
    } catch (error) {
      if (!isLoss(error)) throw error;
      const rest = await this.#readMoved(key, file, { start: next, end }, signal, error);
      if (Buffer.isBuffer(rest)) yield rest;
      else yield* rest;
    }
  }

  /**
   * Reads a file that FastDFS does not have where the map says. Compaction has moved it to another
   * trunk and the map may not know yet, or its storage has lost it. Its own gateway knows.
   */
  async #readMoved(
    key: Buffer,
    before: MappedFile,
    ...[range, signal, cause]: [...Parameters<ReadContent>, cause: unknown]
  ): Promise<Buffer | Readable> {
    this.#parts.deployment.forget(key);
    const now = await this.#mapped(key);
    if (now && (now.trunkFileId !== before.trunkFileId || now.offset !== before.offset)) {
      try {
        return await this.#parts.readMapped(formatKey(key), now, range, signal);
      } catch (error) {
        if (!isLoss(error)) throw error;
      }
    }
    const files = await this.#peers.of(originOf(key), formatKey(key));
    if (!files && !now) throw mapUnavailable(cause);
    try {
      if (!files) throw cause;
      const found = await files.find(formatKey(key), signal);
      return await this.#reader.read(files, found, range, signal);
    } catch (error) {
      if (isLoss(error)) this.#parts.downloads.missing.add(before.trunkFileId);
      throw error;
    }
  }

  /** Facts for the next read. Throws `not_found` if the file was deleted meanwhile. */
  #remember(key: Buffer, files: GatewayFiles, found: FoundFile): FoundFile {
    if (this.#parts.deployment.isKnownRemoved(key)) throw notFound(key);
    this.#staged.set(found.info.key, { info: found.info, files });
    return found;
  }

  #stagedFile(files: GatewayFiles, { info, bytes }: FoundFile): StoredFile {
    if (info.expiresAt && info.expiresAt.getTime() <= this.#parts.now()) {
      throw new StoreError('not_found', `there is no file ${info.key}`);
    }
    return this.#handle(
      info,
      (range, signal) => this.#reader.read(files, { info, bytes }, range, signal),
      () => this.#reader.readNow({ info, bytes }),
    );
  }

  #handle(
    facts: FileFacts & { readonly key: string },
    read: ReadContent,
    readNow?: () => Buffer | undefined,
    fileId?: () => string | undefined,
  ): StoredFile {
    const { reads } = this.#parts;
    return new FileHandle(facts, {
      read: (range, signal) =>
        reads.run(facts.key, lengthOf(range, facts.size), () => read(range, signal)),
      readNow: () => readNow && reads.runNow(readNow),
      fileId: () => fileId?.(),
    });
  }
}

interface StagedElsewhere {
  readonly info: FileInfo;
  readonly files: GatewayFiles;
}

function isLoss(error: unknown): boolean {
  return isStoreError(error, 'missing_in_fastdfs');
}

function notFound(key: Buffer): StoreError {
  return new StoreError('not_found', `there is no file ${formatKey(key)}`);
}
