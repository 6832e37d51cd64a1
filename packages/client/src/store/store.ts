import { EventEmitter } from 'node:events';
import { formatKey, parseKey, StoreError, storeErrorOf, withStoreErrors } from '@stevedore/staging';
import { adoptionBy } from '../adoption/adoption.js';
import type { Returns } from '../adoption/returning.js';
import { Deployment } from '../deployment/deployment.js';
import type { DeploymentContext } from '../deployment/gateways.js';
import { FilesElsewhere } from '../holders/files-elsewhere.js';
import { FilesInMemory } from '../holders/files-in-memory.js';
import type { GatewayFiles } from '../holders/gateway-files.js';
import type { Found } from '../holders/holder.js';
import { Holders } from '../holders/holders.js';
import type { SecondCopies } from '../holders/second-copies.js';
import { filesInOrder, GROUPS_IN_ORDER, listDeployment } from '../list/deployment-listing.js';
import { listGroups } from '../list/groups.js';
import { type ListSources, listFiles } from '../list/listing.js';
import { listingOf } from '../list/pages.js';
import { flushTimeoutOf } from '../options.js';
import { DerivedFiles } from '../put/derived-files.js';
import { FastdfsTrunkStore } from '../put/fastdfs-trunk-store.js';
import { putFile } from '../put/put-file.js';
import { Uploads } from '../put/uploads.js';
import { Downloads } from '../read/downloads.js';
import { FastdfsIds } from '../read/fastdfs-ids.js';
import { PendingIds } from '../read/id-pending.js';
import { MissingFiles } from '../read/missing-files.js';
import { Reader } from '../read/reader.js';
import { Reads } from '../read/reads.js';
import { infoOf } from '../read/stored-file.js';
import { deleteChannel, getChannel, traced, trunkChannel } from './channels.js';
import { membersNow, type StorageMember, sumOf } from './cluster.js';
import type { GatewayStore } from './gateway-store.js';
import { locate } from './location.js';
import { readiness } from './readiness.js';
import { FileIdWaiters } from './settling.js';
import { fileCounts } from './store-counts.js';
import type { StoreParts } from './store-parts.js';
import type {
  FileInfo,
  FileLocation,
  FileStore,
  FileStoreEvents,
  Flushed,
  FlushOptions,
  GetOptions,
  GroupListing,
  GroupOptions,
  Listing,
  ListOptions,
  Readiness,
  ReadOptions,
  Receipt,
  StoredFile,
  StoreStats,
  UnfinishedUploads,
} from './types.js';

/** The FileStore of `open()`: a staging directory in front of FastDFS. */

/** Default age up to which an upload is found by its mark. */
const ONCE_MS = 24 * 3_600_000;

export class LocalFileStore extends EventEmitter<FileStoreEvents> implements GatewayStore {
  readonly trackers: readonly string[];
  readonly deployment?: Deployment;
  readonly siblings?: Holders;
  readonly copies?: SecondCopies;
  readonly cached: FilesInMemory;
  readonly #parts: StoreParts;
  readonly #uploads: Uploads;
  readonly #derived: DerivedFiles;
  readonly #reads = new Reads(this);
  readonly #reader: Reader;
  readonly #holders: Holders;
  readonly #ids: FastdfsIds;
  readonly #settling: FileIdWaiters;
  #returns: Returns | undefined;
  readonly #missing = new MissingFiles((error) => this.report(error));
  #deletedFiles = 0;
  #closing: Promise<void> | undefined;

  constructor(parts: StoreParts) {
    super();
    const { staging, clients, options, now, held } = parts;
    this.#parts = parts;
    this.trackers = parts.trackers;
    const downloads = new Downloads(clients.reading, this.#missing);
    const pendingIds = new PendingIds(options, staging, now);
    this.#reader = new Reader(downloads, this.#reads, pendingIds, options);
    this.#derived = new DerivedFiles(staging, this, this.#reader, options.derivedSize);
    this.#uploads = new Uploads(this, parts, this.#reads, this.#derived);
    if (parts.deployed) this.deployment = this.#deploymentOf(parts.deployed);
    const context = { reader: this.#reader, now, deployment: this.deployment };
    const remove = (key: Buffer) => this.#deleteOwn(key);
    this.#holders = new Holders(staging, context, remove, parts.siblings, held);
    if (parts.siblings) this.siblings = this.#holders;
    if (held) this.copies = this.#holders.elsewhere!.copies;
    this.cached = new FilesInMemory(this.#holders, context);
    this.#ids = new FastdfsIds(this.#holders, clients.reading, context);
    this.#settling = new FileIdWaiters((key) => this.#fileIdOf(key));
    this.#forwardEvents();
  }

  /** This server's part in the deployment. */
  #deploymentOf(deployed: DeploymentContext): Deployment {
    const { staging, clients, held, now, options } = this.#parts;
    const trunkStore = new FastdfsTrunkStore(clients.merging);
    return new Deployment({
      ...deployed,
      outbox: staging.fileMap.outbox!,
      now,
      staged: () => {
        const waiting = staging.fileMap.counters();
        const bytes = waiting.waitingBytes + waiting.spooledBytes;
        return { files: waiting.waitingFiles + waiting.spooledFiles, bytes };
      },
      adoption: adoptionBy(staging, trunkStore, held, options.adoptAfter),
      deleteHere: (key) => this.#deleteHere(key),
      forget: (key, file) => {
        this.#reader.forget(key);
        this.#holders.elsewhere?.peers.forget(key);
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
  }

  readonly put: FileStore['put'] = (body, options) => this.#uploads.put(body, options);
  readonly putFile: FileStore['putFile'] = (path, options) => putFile(this, path, options);
  readonly putAll: FileStore['putAll'] = (parts, options) => this.#uploads.putAll(parts, options);

  get unfinished(): UnfinishedUploads {
    return this.#uploads.unfinished;
  }

  async findOnce(
    once: Uint8Array,
    options: { readonly withinMs?: number; readonly onlyHere?: boolean } = {},
  ): Promise<Receipt[]> {
    this.#reads.throwIfClosed();
    const { withinMs = ONCE_MS } = options;
    const mark = Buffer.from(once);
    const since = Math.max(0, this.#parts.now() - withinMs);
    for (const files of this.#holders.all) {
      const found = files.findOnce(mark, since);
      if (found.length > 0) return found;
    }
    return this.#others(options)?.findOnce(mark, withinMs) ?? [];
  }

  get sharesMarks(): boolean {
    return this.deployment?.isMapAvailable ?? true;
  }

  /** Starts this server's part in the deployment. */
  async start(): Promise<void> {
    await this.deployment?.start();
    const { elsewhere } = this.#holders;
    this.#returns = elsewhere && this.#parts.returned?.(elsewhere);
    await this.#returns?.start();
    this.#derived.start();
  }

  get(id: string, options: GetOptions = {}): Promise<StoredFile> {
    // As few calls as possible: every download passes through here.
    if (!getChannel.hasSubscribers) return this.#get(id, options);
    return getChannel.tracePromise(() => this.#get(id, options), { store: this, id });
  }

  async #get(id: string, options: GetOptions): Promise<Found> {
    this.#reads.throwIfClosed();
    try {
      const key = parseKey(id);
      return (key && this.#holders.findNow(key)) ?? (await this.#find(id, key, options));
    } catch (error) {
      throw storeErrorOf(error);
    }
  }

  #find(id: string, key: Buffer | undefined, options: GetOptions): Promise<Found> {
    if (!key) return this.#ids.find(id, options.signal);
    return this.#holders.of(key, options.onlyHere).find(key, options);
  }

  async stat(id: string, options: GetOptions = {}): Promise<FileInfo> {
    const key = parseKey(id);
    const holder = key && !options.onlyHere ? this.#holders.of(key) : undefined;
    if (!key || !(holder instanceof FilesElsewhere)) return infoOf(await this.get(id, options));
    this.#reads.throwIfClosed();
    const { signal } = options;
    return infoOf(await withStoreErrors(() => holder.find(key, { isStat: true, signal })));
  }

  async locate(id: string, options: GetOptions = {}): Promise<FileLocation> {
    this.#reads.throwIfClosed();
    return withStoreErrors(async () => {
      const found = await this.#find(id, parseKey(id), options);
      return locate(found, this.#parts.clients.reading, options.signal);
    });
  }

  list(options: ListOptions = {}): Listing {
    return listingOf('files', options, async (asked) => {
      const sources = this.#listSources();
      const here = (each: ListOptions) => withStoreErrors(() => listFiles(each, sources));
      const others = this.#others(asked);
      if (!others) return here(asked);
      const order = filesInOrder(asked);
      const page = await listDeployment(
        asked,
        others,
        here,
        (peer, each) => peer.list(each),
        order,
      );
      // Their own servers may not know yet.
      const files = page.files.filter(({ key }) => !sources.isRemoved(parseKey(key)!));
      return { ...page, files };
    });
  }

  groups(options: GroupOptions = {}): GroupListing {
    return listingOf('groups', options, async (asked) => {
      const sources = this.#listSources();
      const here = (each: GroupOptions) => withStoreErrors(() => listGroups(each, sources));
      const others = this.#others(asked);
      if (!others) return here(asked);
      const ask = (peer: GatewayFiles, each: GroupOptions) => peer.groups(each);
      return listDeployment(asked, others, here, ask, GROUPS_IN_ORDER);
    });
  }

  /** The other servers of the deployment, unless they are not to be asked. */
  #others({ onlyHere }: { readonly onlyHere?: boolean | undefined }): FilesElsewhere | undefined {
    return onlyHere ? undefined : this.#holders.elsewhere;
  }

  #listSources(): ListSources {
    this.#reads.throwIfClosed();
    const { all, own } = this.#holders;
    return {
      all: all.map(({ staging }) => staging),
      now: this.#parts.now,
      isRemoved: (key) => this.deployment?.isKnownRemoved(key) ?? false,
      infoOf: (row) => infoOf(own.file(row)),
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
    this.#reads.throwIfClosed();
    const key = parseKey(id) ?? (await this.#ids.keyOf(id, onlyHere));
    await (key ? this.#holders.of(key, onlyHere).delete(key) : this.#ids.delete(id));
    this.#deletedFiles += 1;
  }

  async #deleteOwn(key: Buffer): Promise<boolean> {
    if (!(await this.#deleteHere(key))) return false;
    await this.siblings?.removeDerivedOf(key).catch((error: Error) => this.report(error));
    await this.deployment?.announceDeleted(key);
    return true;
  }

  async #deleteHere(key: Buffer): Promise<boolean> {
    const derived = this.#parts.staging.fileMap.derivedOf(key);
    const isDeleted = await this.#parts.staging.deletions.delete(key);
    for (const each of [key, ...derived.map((row) => row.key)]) this.#reader.forget(each);
    this.#settling.lookAt(formatKey(key));
    return isDeleted;
  }

  async settled(key: string, options: Pick<ReadOptions, 'signal'> = {}): Promise<string> {
    this.#reads.throwIfClosed();
    const parsed = parseKey(key);
    const holder = parsed && this.#holders.of(parsed);
    if (holder instanceof FilesElsewhere) return holder.settled(parsed!, options.signal);
    return this.#fileIdOf(key) ?? this.#settling.wait(key, options.signal);
  }

  /** Undefined until the file has one; throws `not_found` if it never will. */
  #fileIdOf(key: string): string | undefined {
    const parsed = parseKey(key);
    if (!parsed) throw new StoreError('invalid_id', `"${key}" is not a key`);
    return this.#holders.of(parsed, true).fileIdOf(parsed);
  }

  async flush(options: FlushOptions = {}): Promise<Flushed> {
    this.#reads.throwIfClosed();
    const timeoutMs = flushTimeoutOf(options);
    const there = this.#others(options)?.flush({ ...options, timeoutMs });
    const all = [there ?? {}, this.#flushHere(timeoutMs, options.signal)] as const;
    // Nothing goes on once the call has failed.
    await Promise.allSettled(all);
    return (await Promise.all(all))[0];
  }

  async #flushHere(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    void this.#uploads.direct.flush();
    await withStoreErrors(() => this.#parts.staging.merging.finish(timeoutMs, signal));
    this.#settling.lookAgain();
  }

  ready(): Promise<Readiness> {
    const [isOpen, reach] = [!this.#reads.isClosed, this.#holders.elsewhere?.peers.reach];
    return readiness(
      this.#parts.staging,
      this.#parts.clients.reading,
      isOpen,
      reach?.problems() ?? [],
    );
  }

  async cluster(): Promise<readonly StorageMember[]> {
    this.#reads.throwIfClosed();
    return membersNow(this.#parts.clients.reading);
  }

  stats(): StoreStats {
    return {
      ...fileCounts(this.#parts.staging.stats()),
      containerLimitBytes: this.#parts.options.containerSize,
      ...this.#uploads.stats(),
      ...this.#reads.counts,
      missingInFastdfs: this.#missing.count,
      deletedFiles: this.#deletedFiles,
      cache: this.#reader.cache.stats(),
      connections: sumOf(this.#parts.clients),
      ...(this.deployment ? { map: this.deployment.stats() } : {}),
      ...(this.#parts.held ? { held: this.#parts.held.stats() } : {}),
    };
  }

  close(): Promise<void> {
    this.#reads.isClosed = true;
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#settling.close();
    await this.#returns?.stop();
    await this.#uploads.direct.flush();
    await this.#holders.elsewhere?.close();
    await this.deployment?.close();
    await this.#parts.held?.close();
    this.#holders.close();
    await this.#parts.staging.close();
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
}
