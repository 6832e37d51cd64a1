import { EventEmitter } from 'node:events';
import { originOf } from '@stevedore/map';
import {
  fileIdOf,
  formatKey,
  type HeldCopies,
  parseKey,
  type Staging,
  StoreError,
  storeErrorOf,
  withStoreErrors,
} from '@stevedore/staging';
import { deleteChannel, getChannel, readChannel, traced, trunkChannel } from './channels.js';
import { type Clients, membersNow, type StorageMember, sumOf } from './cluster.js';
import { adoptionBy } from './deployment/adoption.js';
import { Deployment } from './deployment/deployment.js';
import { flushOthers } from './deployment/flush.js';
import { ForeignFiles } from './deployment/foreign-files.js';
import type { DeploymentContext } from './deployment/gateways.js';
import { filesInOrder, GROUPS_IN_ORDER, listDeployment } from './deployment/listing.js';
import { DerivedFiles } from './derived-files.js';
import { Downloads } from './downloads.js';
import { notFound } from './failures.js';
import { FastdfsTrunkStore } from './fastdfs-trunk-store.js';
import { flushTimeoutOf } from './flush.js';
import type { CachedFiles, GatewayStore } from './gateway-store.js';
import { listGroups } from './groups.js';
import { PendingIds } from './id-pending.js';
import { type ListSources, listFiles } from './listing.js';
import { locate } from './location.js';
import { Lookup } from './lookup.js';
import { MissingFiles } from './missing-files.js';
import { type StoreOptions, tailBytesOf } from './options.js';
import { listingOf } from './pages.js';
import { putFile } from './put-file.js';
import { Reader } from './reader.js';
import { readiness } from './readiness.js';
import { Reads } from './reads.js';
import { Registration } from './registration.js';
import { FileIdWaiters } from './settling.js';
import { type SiblingOptions, Siblings } from './siblings.js';
import { fileCounts } from './store-counts.js';
import { infoOf } from './stored-file.js';
import type {
  FileInfo,
  FileLocation,
  FilePage,
  FileStore,
  FileStoreEvents,
  Flushed,
  FlushOptions,
  GetOptions,
  GroupListing,
  GroupOptions,
  GroupPage,
  Listing,
  ListOptions,
  Readiness,
  ReadOptions,
  Receipt,
  RegisterOptions,
  StoredFile,
  StoreStats,
  UnfinishedUploads,
} from './types.js';
import { Uploads } from './uploads.js';

/** The FileStore of `open()`: a staging directory in front of FastDFS. */

/** Default age up to which an upload is found by its mark. */
const ONCE_MS = 24 * 3_600_000;

export interface StoreParts {
  readonly options: StoreOptions;
  readonly staging: Staging;
  readonly clients: Clients;
  readonly trackers: readonly string[];
  readonly now: () => number;
  /** Stops the embedded node, if this store started one. */
  readonly closeNode: () => Promise<void>;
  readonly deployed?: DeploymentContext | undefined;
  /** Copies of other servers' staged files. */
  readonly held?: HeldCopies | undefined;
  /** Sibling processes that share a data directory with this one. */
  readonly siblings?: readonly SiblingOptions[] | undefined;
}

export class LocalFileStore extends EventEmitter<FileStoreEvents> implements GatewayStore {
  readonly trackers: readonly string[];
  readonly #parts: StoreParts;
  readonly #staging: Staging;
  readonly #uploads: Uploads;
  readonly #derived: DerivedFiles;
  readonly #reader: Reader;
  readonly #lookup: Lookup;
  readonly #registration: Registration;
  readonly #settling: FileIdWaiters;
  readonly unfinished: UnfinishedUploads;
  readonly deployment?: Deployment;
  readonly siblings?: Siblings;
  readonly copies?: NonNullable<GatewayStore['copies']>;
  readonly #foreignFiles: ForeignFiles | undefined;
  readonly #reads: Reads;
  readonly #missing = new MissingFiles((error) => this.report(error));
  #deletedFiles = 0;
  #closing: Promise<void> | undefined;

  constructor(parts: StoreParts) {
    super();
    this.#parts = parts;
    this.trackers = parts.trackers;
    const { staging, clients, options } = parts;
    const client = clients.reading;
    this.#staging = staging;
    const downloads = new Downloads(client, staging, this.#missing);
    const readerOptions = {
      cacheBytes: options.cacheSize - tailBytesOf(options.cacheSize),
      cacheFilter: options.cacheFilter,
      readAheadBytes: options.readAhead,
      smallFileBytes: options.smallFileLimit,
    };
    this.#reader = new Reader(staging, downloads, readerOptions);
    this.#derived = new DerivedFiles({
      staging,
      limitBytes: options.derivedSize,
      demand: (key) => this.stat(key),
      // A directory of a worker may be open alone, for maintenance.
      knows: (key) =>
        originOf(key) === staging.origin || (this.siblings ?? this.deployment) !== undefined,
      forget: (key) => this.#reader.forget(key),
    });
    this.#uploads = new Uploads({
      ...{ store: this, staging, client, options, now: parts.now, derived: this.#derived },
      throwIfClosed: () => this.#throwIfClosed(),
    });
    this.unfinished = this.#uploads.unfinished;
    const reads = new Reads({
      store: this,
      isClosed: () => this.#closing !== undefined,
      throwIfClosed: (cause) => this.#throwIfClosed(cause),
    });
    this.#reads = reads;
    const { deployed, now } = parts;
    if (deployed) {
      this.deployment = new Deployment({
        ...{ ...deployed, outbox: staging.fileMap.outbox!, now },
        staged: () => {
          const waiting = staging.fileMap.counters();
          const bytes = waiting.waitingBytes + waiting.spooledBytes;
          return { files: waiting.waitingFiles + waiting.spooledFiles, bytes };
        },
        adoption: adoptionBy(staging, new FastdfsTrunkStore(clients.merging), parts.held),
        deleteHere: (key) => this.#deleteHere(key),
        forget: (key, file) => {
          this.#reader.forget(key);
          this.#foreignFiles?.forget(key);
          if (file) this.#reader.forgetRemote(file.trunkFileId, file.offset);
          staging.changes.run(this.#derived.removeOf(key));
        },
        report: (error) => this.report(error),
        onRefused: (error) => {
          this.emit('refused', error);
          // Deferred: `close` waits for the round that is running now.
          setImmediate(() => void this.close().catch((failure) => this.report(failure)));
        },
      });
      const { held } = parts;
      const foreign = new ForeignFiles({
        ...{ deployment: this.deployment, now, held, downloads, reads },
        cache: this.#reader.cache,
        readMapped: (...asked) => this.#lookup.readMapped(...asked),
        smallFileBytes: options.smallFileLimit,
      });
      this.#foreignFiles = foreign;
      if (held) {
        this.copies = {
          receive: (origin, stream) =>
            held.receive(origin, stream, this.deployment!.isAdopted(origin)),
          leave: () => held.leave(),
          find: (origin, key) => foreign.findHeld(origin, parseKey(key)!),
        };
      }
    }
    const pendingIds = new PendingIds({
      options,
      now,
      failure: () => staging.merging.inFlight.failure,
    });
    if (parts.siblings) {
      const { origin } = staging;
      const here = { client, missing: this.#missing, reader: this.#reader, reads, now, pendingIds };
      const ownerOf = (each: number) => this.deployment?.ownerOf(each) ?? each;
      this.siblings = new Siblings(parts.siblings, { ...here, readerOptions, origin, ownerOf });
    }
    this.#lookup = new Lookup({
      ...{ staging, client, downloads, reader: this.#reader, reads, now, pendingIds },
      ...{ foreignFiles: this.#foreignFiles, siblings: this.siblings },
    });
    this.#registration = new Registration({ staging, lookup: this.#lookup, now });
    this.#settling = new FileIdWaiters((key) => this.#fileIdOf(key));
    this.#forwardEvents();
  }

  readonly put: FileStore['put'] = (body, options) => this.#uploads.put(body, options);
  readonly putFile: FileStore['putFile'] = (path, options) => putFile(this, path, options);
  readonly putAll: FileStore['putAll'] = (parts, options) => this.#uploads.putAll(parts, options);

  async register(fileId: string, options: RegisterOptions = {}): Promise<Receipt> {
    this.#throwIfClosed();
    return withStoreErrors(() => this.#registration.register(fileId, options));
  }

  async findOnce(
    once: Uint8Array,
    {
      withinMs = ONCE_MS,
      onlyHere = false,
    }: { readonly withinMs?: number; readonly onlyHere?: boolean } = {},
  ): Promise<Receipt[]> {
    this.#throwIfClosed();
    const since = Math.max(0, this.#parts.now() - withinMs);
    const found = this.#lookup.findOnce(Buffer.from(once), since);
    const others = this.#others({ onlyHere });
    if (found.length > 0 || !others) return found;
    return this.#foreignFiles!.findOnce(Buffer.from(once), withinMs, others);
  }

  get sharesMarks(): boolean {
    return this.deployment?.isMapAvailable ?? true;
  }

  /** Starts this server's part in the deployment. */
  async start(): Promise<void> {
    await this.deployment?.start();
    this.#derived.start();
  }

  get(id: string, options: GetOptions = {}): Promise<StoredFile> {
    // As few calls as possible: every download passes through here.
    if (!getChannel.hasSubscribers) return this.#get(id, options);
    return getChannel.tracePromise(() => this.#get(id, options), { store: this, id });
  }

  async #get(id: string, options: GetOptions): Promise<StoredFile> {
    this.#throwIfClosed();
    try {
      return this.#lookup.findNow(id) ?? (await this.#lookup.find(id, options));
    } catch (error) {
      throw storeErrorOf(error);
    }
  }

  readonly cached: CachedFiles = {
    get: (key, known) =>
      this.#mustBypassCache() || !this.#isCurrent(key)
        ? undefined
        : this.#readerOf(key).inMemory(key, this.#parts.now(), known),
    has: (key) => this.#reader.cache.has(key),
    isCurrent: ({ key, bytes }) =>
      !this.#mustBypassCache() && this.#reader.cache.peek(key) === bytes && this.#isCurrent(key),
    served: ({ bytes }) => this.#reads.count(bytes.length),
  };

  #readerOf(key: string): Reader {
    return this.siblings?.ofText(key)?.reader ?? this.#reader;
  }

  /** False once another server has deleted the file, or another process of this one. */
  #isCurrent(key: string): boolean {
    const foreign = this.#foreignFiles;
    const parsed = foreign && parseKey(key);
    const sibling = this.siblings?.ofText(key);
    if (!sibling) return !parsed || foreign.isCurrent(parsed);
    // Its own process may not have heard yet what another server has deleted.
    return sibling.reader.isAlive(key) && !(parsed && foreign.isKnownRemoved(parsed));
  }

  /** True if reads must not take the shortcut: they are published, or the store is closing. */
  #mustBypassCache(): boolean {
    return getChannel.hasSubscribers || readChannel.hasSubscribers || this.#closing !== undefined;
  }

  async stat(id: string, options: GetOptions = {}): Promise<FileInfo> {
    const key = options.onlyHere ? undefined : parseKey(id);
    const foreign = key && this.#lookup.isForeign(key) ? this.#foreignFiles : undefined;
    if (!key || !foreign) return infoOf(await this.get(id, options));
    this.#throwIfClosed();
    return infoOf(await withStoreErrors(() => foreign.stat(key, options.signal)));
  }

  async locate(id: string, options: GetOptions = {}): Promise<FileLocation> {
    this.#throwIfClosed();
    const parts = { ...this.#parts, siblings: this.siblings, lookup: this.#lookup };
    return withStoreErrors(() => locate(id, options, parts));
  }

  list(options: ListOptions = {}): Listing {
    return listingOf('files', options, (asked) => this.#list(asked));
  }

  async #list(options: ListOptions): Promise<FilePage> {
    const sources = this.#listSources();
    const here = (asked: ListOptions) => withStoreErrors(() => listFiles(asked, sources));
    const others = this.#others(options);
    if (!others) return here(options);
    const page = await listDeployment(
      options,
      { ...others, here, ask: async (url, asked) => others.at(url).list(asked) },
      filesInOrder(options),
    );
    // Their own servers may not know yet.
    const files = page.files.filter(({ key }) => !sources.isRemoved(parseKey(key)!));
    return { ...page, files };
  }

  groups(options: GroupOptions = {}): GroupListing {
    return listingOf('groups', options, (asked) => this.#groups(asked));
  }

  async #groups(options: GroupOptions): Promise<GroupPage> {
    const sources = this.#listSources();
    const here = (asked: GroupOptions) => withStoreErrors(() => listGroups(asked, sources));
    const others = this.#others(options);
    if (!others) return here(options);
    return listDeployment(
      options,
      { ...others, here, ask: async (url, asked) => others.at(url).groups(asked) },
      GROUPS_IN_ORDER,
    );
  }

  /** The other servers of the deployment, unless they are not to be asked. */
  #others({ onlyHere = false }: { readonly onlyHere?: boolean | undefined }) {
    const { deployment } = this;
    const foreign = this.#foreignFiles;
    if (!deployment || !foreign || onlyHere) return undefined;
    return {
      ownUrl: this.#parts.options.peerUrl,
      isHere: (origin: number) =>
        origin === deployment.origin || (this.siblings?.has(origin) ?? false),
      gateways: () => deployment.gateways(),
      at: (url: string) => foreign.at(url),
    };
  }

  #listSources(): ListSources {
    this.#throwIfClosed();
    return {
      all: [this.#staging, ...(this.siblings?.all.map(({ staging }) => staging) ?? [])],
      now: this.#parts.now,
      isRemoved: (key) => this.#foreignFiles?.isKnownRemoved(key) ?? false,
      infoOf: (row) => this.#lookup.infoOf(row),
    };
  }

  delete(id: string, options: { readonly onlyHere?: boolean } = {}): Promise<void> {
    return traced(
      deleteChannel,
      () => ({ store: this, key: id }),
      () => withStoreErrors(() => this.#delete(id, options.onlyHere ?? false)),
    );
  }

  async #delete(id: string, onlyHere: boolean): Promise<void> {
    this.#throwIfClosed();
    const found = await this.#lookup.toDelete(id, onlyHere);
    if ('key' in found) {
      const { key, sibling } = found;
      const remove = sibling ? sibling.delete(formatKey(key)) : this.#deleteHere(key);
      if (!(await remove)) throw notFound(id);
      if (!sibling) {
        await this.siblings?.removeDerivedOf(key).catch((error: Error) => this.report(error));
        await this.deployment?.announceDeleted(key);
      }
    } else if ('foreignKey' in found) {
      await this.#foreignFiles!.delete(found.foreignKey);
    } else {
      await this.#lookup.deleteRemote(found.fileId, found.slice);
    }
    this.#deletedFiles += 1;
  }

  async #deleteHere(key: Buffer): Promise<boolean> {
    const derived = this.#staging.fileMap.derivedOf(key);
    const isDeleted = await this.#staging.deletions.delete(key);
    for (const each of [key, ...derived.map((row) => row.key)]) this.#reader.forget(each);
    this.#settling.lookAt(formatKey(key));
    return isDeleted;
  }

  async settled(key: string, options: Pick<ReadOptions, 'signal'> = {}): Promise<string> {
    this.#throwIfClosed();
    const parsed = parseKey(key);
    if (parsed && this.#foreignFiles && this.#lookup.isForeign(parsed)) {
      return this.#foreignFiles.settled(parsed, options.signal);
    }
    return this.#fileIdOf(key) ?? this.#settling.wait(key, options.signal);
  }

  /** Undefined until the file has one; throws `not_found` if it never will. */
  #fileIdOf(key: string): string | undefined {
    const row = this.#lookup.row(key);
    const id = fileIdOf(row);
    if (id !== undefined || !row.trunk || row.trunk.isThin) return id;
    throw new StoreError(
      'not_found',
      `${key} is merged, but no FastDFS id can be made for it from ${row.trunk.fileId}; read it by its key`,
    );
  }

  async flush(options: FlushOptions = {}): Promise<Flushed> {
    this.#throwIfClosed();
    const timeoutMs = flushTimeoutOf(options);
    const others = this.#others(options);
    const there = others ? flushOthers(others, { ...options, timeoutMs }) : {};
    const all = [there, this.#flushHere(timeoutMs, options.signal)] as const;
    // Nothing goes on once the call has failed.
    await Promise.allSettled(all);
    return (await Promise.all(all))[0];
  }

  async #flushHere(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    void this.#uploads.direct.flush();
    await withStoreErrors(() => this.#staging.merging.finish(timeoutMs, signal));
    this.#settling.lookAgain();
  }

  ready(): Promise<Readiness> {
    const [isOpen, reach] = [this.#closing === undefined, this.#foreignFiles?.reach];
    return readiness(this.#staging, this.#parts.clients.reading, isOpen, reach?.problems() ?? []);
  }

  async cluster(): Promise<readonly StorageMember[]> {
    this.#throwIfClosed();
    return membersNow(this.#parts.clients.reading);
  }

  stats(): StoreStats {
    return {
      ...fileCounts(this.#staging.stats()),
      containerLimitBytes: this.#parts.options.containerSize,
      ...this.#uploads.stats(),
      ...{ ...this.#reads.counts, missingInFastdfs: this.#missing.count },
      deletedFiles: this.#deletedFiles,
      cache: this.#reader.cache.stats(),
      connections: sumOf(this.#parts.clients),
      ...(this.deployment ? { map: this.deployment.stats() } : {}),
      ...(this.#parts.held ? { held: this.#parts.held.stats() } : {}),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#settling.close();
    await this.#uploads.direct.flush();
    await this.#foreignFiles?.close();
    await this.deployment?.close();
    await this.#parts.held?.close();
    this.siblings?.close();
    await this.#staging.close();
    await Promise.all([this.#parts.clients.reading.close(), this.#parts.clients.merging.close()]);
    await this.#parts.closeNode();
  }

  #forwardEvents(): void {
    const { staging } = this.#parts;
    staging.changes.on('error', (error) => this.report(error));
    staging.changes.on('damage', (damage) => this.emit('damage', damage));
    staging.changes.on('trunk', (event) => {
      this.#settling.lookAgain();
      if (trunkChannel.hasSubscribers) trunkChannel.publish({ ...event, store: this });
      this.emit('trunk', event);
    });
    // Events for single files are created only if there is a listener.
    (this as EventEmitter).on('newListener', (name: string) => {
      if (name !== 'merged' || staging.changes.listenerCount('merged') > 0) return;
      staging.changes.on('merged', (event) => this.emit('merged', event));
    });
  }

  /** Without a listener, a background error must neither end the process nor go unseen. */
  report(error: Error): void {
    const { name: type, message, code = '' } = error as NodeJS.ErrnoException;
    if (this.listenerCount('error') > 0) this.emit('error', error);
    // As text: Node refuses errors of another realm.
    else process.emitWarning(message, { type, code });
  }

  #throwIfClosed(cause?: unknown): void {
    if (this.#closing) throw new StoreError('closed', 'the store is closed', { cause });
  }
}
