import type { FileStore, StorageMember, StoreStats, TrunkEvent } from '@stevedore/client';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { redactIds } from '../observe/log.js';
import { errorCode } from '../observe/store-metrics.js';

/**
 * Data for the web console: the store's figures, their history over the last ten minutes, the last
 * trunks and the last errors. Everything is bounded; the cluster is queried only while the console
 * is open, at most every few seconds.
 */

export interface Sample {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly stagedBytes: number;
  readonly acknowledgedFiles: number;
  readonly reads: number;
}

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
  readonly ready: Awaited<ReturnType<FileStore['ready']>>;
  readonly stats: ReturnType<FileStore['stats']>;
  readonly samples: readonly Sample[];
  readonly merges: readonly Merge[];
  readonly trouble: readonly Trouble[];
  /** Undefined while the trackers do not answer. */
  readonly cluster: readonly StorageMember[] | undefined;
  /** Of the storages that move files between their tiers. */
  readonly migrations: readonly StorageMigration[];
}

/** Of a store, or of the workers of a gateway together. */
export interface FeedSource extends Pick<FileStore, 'trackers' | 'ready' | 'cluster'> {
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
  readonly now?: () => number;
}

const SAMPLE_INTERVAL_MS = 5_000;
const MAX_SAMPLES = 120;
const MAX_MERGES = 30;
const MAX_TROUBLE = 20;
const MAX_MESSAGE_CHARS = 500;
const CLUSTER_AGE_MS = 5_000;

export class ConsoleFeed {
  readonly #options: FeedOptions;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #samples: Sample[] = [];
  readonly #merges: Merge[] = [];
  readonly #trouble: Trouble[] = [];
  readonly #timer: NodeJS.Timeout;
  readonly #migrationsOf: Migrations | undefined;
  #cluster: readonly StorageMember[] | undefined;
  #migrations: readonly StorageMigration[] = [];
  #clusterAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
    const { store, askMigration } = options;
    if (askMigration) this.#migrationsOf = new Migrations(askMigration, this.#now);
    store.on('trunk', this.#onTrunk);
    store.on('error', this.#onError);
    void this.sample();
    this.#timer = setInterval(() => this.sample(), SAMPLE_INTERVAL_MS).unref();
  }

  async sample(): Promise<void> {
    const stats = await Promise.resolve(this.#options.store.stats()).catch(() => undefined);
    if (!stats) return;
    const { stagedBytes, acknowledgedFiles, reads } = stats;
    keep(this.#samples, MAX_SAMPLES, { at: this.#now(), stagedBytes, acknowledgedFiles, reads });
  }

  async state(): Promise<ConsoleState> {
    const { store, version, embedded } = this.#options;
    const [ready, stats] = await Promise.all([
      store.ready(),
      store.stats(),
      this.#refreshCluster(),
    ]);
    return {
      version,
      now: this.#now(),
      startedAt: this.#startedAt,
      trackers: store.trackers,
      embedded,
      ready,
      stats,
      samples: this.#samples,
      merges: this.#merges,
      trouble: this.#trouble,
      cluster: this.#cluster,
      migrations: this.#migrations,
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#options.store.off('trunk', this.#onTrunk);
    this.#options.store.off('error', this.#onError);
  }

  /** Viewers at the same time share one request. */
  #refreshCluster(): Promise<void> {
    if (this.#now() - this.#clusterAt < CLUSTER_AGE_MS) return Promise.resolve();
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

/**
 * The moves of the storages that have a metadata tier. A storage without one, or of another
 * program, is not asked again for a while. The number of requests is bounded, and a storage that
 * does not answer is left out.
 */

/** Undefined for a storage that moves nothing. */
export type AskMigration = (address: string) => Promise<MigrationStatus | undefined>;

export interface StorageMigration {
  /** `host:port` */
  readonly storage: string;
  readonly status: MigrationStatus;
}

const MAX_STORAGES = 16;
const ASK_AGAIN_MS = 600_000;
const MAX_KNOWN = 1000;

export class Migrations {
  readonly #ask: AskMigration;
  readonly #now: () => number;
  /** Storages that move nothing, and when they said so. */
  readonly #without = new Map<string, number>();

  constructor(ask: AskMigration, now: () => number) {
    this.#ask = ask;
    this.#now = now;
  }

  async of(members: readonly StorageMember[]): Promise<readonly StorageMigration[]> {
    const asked = members.filter(({ active, address }) => active && this.#mayMove(address));
    const answers = await Promise.all(
      asked.slice(0, MAX_STORAGES).map(({ address }) => this.#statusOf(address)),
    );
    return answers.filter((answer) => answer !== undefined);
  }

  #mayMove(address: string): boolean {
    return this.#now() - (this.#without.get(address) ?? Number.NEGATIVE_INFINITY) > ASK_AGAIN_MS;
  }

  async #statusOf(storage: string): Promise<StorageMigration | undefined> {
    try {
      const status = await this.#ask(storage);
      if (status) return { storage, status };
      if (this.#without.size >= MAX_KNOWN) this.#without.clear();
      this.#without.set(storage, this.#now());
    } catch {
      // It is down; the cluster's table shows that.
    }
    return undefined;
  }
}
