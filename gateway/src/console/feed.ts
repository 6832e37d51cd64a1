import type { StorageMember, StoreStats, TrunkEvent } from '@stevedore/client';
import type { GatewayStore } from '@stevedore/client/internal';
import type { Finding } from '../doctor/finding.js';
import { redactIds } from '../observe/log.js';
import { errorCode } from '../observe/store-metrics.js';
import { attention } from './attention.js';
import { History, type HistoryTable, type Span } from './history.js';
import { type AskMigration, highestLoad, Migrations, type StorageMigration } from './migrations.js';

/**
 * Data for the web console: the store's figures, their history over the last day, what needs
 * attention, the last trunks and the last errors. Everything is bounded. The cluster is queried at
 * most every few seconds while the console is open, else once a minute, and then only for the load
 * of storages with a metadata tier.
 */

export interface Merge extends TrunkEvent {
  readonly at: number;
}

export interface Trouble {
  readonly at: number;
  readonly code: string;
  readonly message: string;
  /** How often it occurred in a row. */
  readonly times: number;
}

export interface ConsoleState {
  readonly version: string;
  readonly now: number;
  readonly startedAt: number;
  readonly trackers: readonly string[];
  readonly embedded: boolean;
  readonly ready: Awaited<ReturnType<GatewayStore['ready']>>;
  readonly stats: ReturnType<GatewayStore['stats']>;
  /** What needs attention, worst first. */
  readonly attention: readonly Finding[];
  readonly merges: readonly Merge[];
  readonly trouble: readonly Trouble[];
  /** Undefined while the trackers do not answer. */
  readonly cluster: readonly StorageMember[] | undefined;
  /** Of the storages that move files between their tiers. */
  readonly migrations: readonly StorageMigration[];
  /** Sizes in which every picture may be asked for. */
  readonly pictureSizes: readonly string[];
}

/** Where the console's data come from. */
export interface ConsoleSource {
  state(): Promise<ConsoleState>;
  history(span: Span): HistoryTable | Promise<HistoryTable>;
}

/** Of a store, or of the workers of a gateway together. */
export interface FeedSource extends Pick<GatewayStore, 'trackers' | 'ready' | 'cluster'> {
  readonly stats: () => StoreStats | Promise<StoreStats>;
  on(name: 'trunk', listener: (trunk: TrunkEvent) => void): unknown;
  on(name: 'error', listener: (error: Error) => void): unknown;
  off(name: 'trunk', listener: (trunk: TrunkEvent) => void): unknown;
  off(name: 'error', listener: (error: Error) => void): unknown;
}

export interface FeedOptions {
  readonly store: FeedSource;
  readonly version: string;
  /** True if tracker and storage run in this process. */
  readonly embedded: boolean;
  /** Asks a storage for its moves; default: asks none. */
  readonly askMigration?: AskMigration | undefined;
  /** False while access is open: an id is enough to read a file. */
  readonly showsIds: boolean;
  /** What the doctor says about who reaches the gateway. */
  readonly access?: Finding | undefined;
  /** Default: none. */
  readonly pictureSizes?: readonly string[];
  /** The longest time that a file is meant to wait for a trunk; default 60 s. */
  readonly mergeMaxAgeMs?: number | undefined;
  readonly now?: () => number;
}

const SAMPLE_INTERVAL_MS = 5_000;
const MAX_MERGES = 30;
const MAX_TROUBLE = 20;
const MAX_MESSAGE_CHARS = 500;
const CLUSTER_AGE_MS = 5_000;
/** While nobody looks. */
const QUIET_CLUSTER_AGE_MS = 60_000;
const MERGE_MAX_AGE_MS = 60_000;

export class ConsoleFeed implements ConsoleSource {
  readonly #options: FeedOptions;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #history = new History();
  readonly #stored = { trunks: 0, fill: 0 };
  #waitingSince: number | undefined;
  readonly #merges: Merge[] = [];
  readonly #trouble: Trouble[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #migrationsOf: Migrations | undefined;
  #cluster: readonly StorageMember[] | undefined;
  #migrations: readonly StorageMigration[] = [];
  #clusterAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
    const { askMigration } = options;
    if (askMigration) this.#migrationsOf = new Migrations(askMigration, this.#now);
  }

  /** The history begins, until `close`. */
  start(): void {
    const { store } = this.#options;
    store.on('trunk', this.#onTrunk);
    store.on('error', this.#onError);
    // A failure costs a point of the history, no more.
    const sample = () => void this.sample().catch(() => undefined);
    sample();
    this.#timer = setInterval(sample, SAMPLE_INTERVAL_MS).unref();
  }

  async sample(): Promise<void> {
    const { store } = this.#options;
    const stats = await Promise.resolve(store.stats()).catch(() => undefined);
    if (!stats) return;
    if (this.#migrationsOf) await this.#refreshCluster(QUIET_CLUSTER_AGE_MS);
    const { stagedBytes, acknowledgedFiles, reads, cache } = stats;
    this.#noteWaiting(stats);
    this.#history.add({
      at: this.#now(),
      stagedBytes,
      uploads: acknowledgedFiles,
      downloads: reads,
      cacheHits: cache.hits,
      cacheMisses: cache.misses,
      ...this.#stored,
      load: highestLoad(this.#migrations),
    });
  }

  history(span: Span): HistoryTable {
    return this.#history.table(span);
  }

  async state(): Promise<ConsoleState> {
    const { store, version, embedded, pictureSizes = [] } = this.#options;
    const [ready, stats] = await Promise.all([
      store.ready(),
      store.stats(),
      this.#refreshCluster(CLUSTER_AGE_MS),
    ]);
    this.#noteWaiting(stats);
    const { access, mergeMaxAgeMs = MERGE_MAX_AGE_MS } = this.#options;
    const facts = {
      now: this.#now(),
      trackers: store.trackers,
      ready,
      stats,
      cluster: this.#cluster,
      migrations: this.#migrations,
    };
    const waitingSince = this.#waitingSince;
    const trouble = this.#trouble.at(-1);
    return {
      ...facts,
      version,
      startedAt: this.#startedAt,
      embedded,
      pictureSizes,
      attention: attention({ ...facts, waitingSince, mergeMaxAgeMs, access, trouble }),
      merges: this.#merges,
      trouble: this.#trouble,
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#options.store.off('trunk', this.#onTrunk);
    this.#options.store.off('error', this.#onError);
  }

  #noteWaiting({ stagedFiles }: StoreStats): void {
    this.#waitingSince = stagedFiles === 0 ? undefined : (this.#waitingSince ?? this.#now());
  }

  /** Viewers at the same time share one request. */
  #refreshCluster(maxAgeMs: number): Promise<void> {
    if (this.#now() - this.#clusterAt < maxAgeMs) return Promise.resolve();
    this.#asking ??= this.#askCluster().finally(() => {
      this.#clusterAt = this.#now();
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #askCluster(): Promise<void> {
    this.#cluster = await this.#options.store.cluster().catch(() => undefined);
    this.#migrations = (await this.#migrationsOf?.of(this.#cluster ?? [])) ?? [];
  }

  readonly #onTrunk = (trunk: TrunkEvent): void => {
    const shown = this.#options.showsIds ? trunk : { ...trunk, fileId: '', taskId: '' };
    keep(this.#merges, MAX_MERGES, { ...shown, at: this.#now() });
    this.#waitingSince = undefined;
    if (trunk.kind !== 'trunk') return;
    this.#stored.trunks += 1;
    this.#stored.fill += trunk.fill;
  };

  readonly #onError = (error: Error): void => {
    const code = errorCode(error);
    const { showsIds } = this.#options;
    const text = error.message.slice(0, MAX_MESSAGE_CHARS);
    const message = showsIds ? text : redactIds(text);
    const last = this.#trouble.at(-1);
    const again = last?.code === code && last.message === message;
    const times = again ? last.times + 1 : 1;
    if (again) this.#trouble.pop();
    keep(this.#trouble, MAX_TROUBLE, { at: this.#now(), code, message, times });
  };
}

function keep<Entry>(entries: Entry[], maxEntries: number, entry: Entry): void {
  entries.push(entry);
  if (entries.length > maxEntries) entries.shift();
}
