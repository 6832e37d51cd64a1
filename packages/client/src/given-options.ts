import type { Duration, Size } from '@stevedore/options';

/**
 * The options of `open()` and `connect()` as a program writes them: made from their tables by the
 * test `unit/client/given-options`.
 */

/** What `open()` takes. */
export interface OpenOptions {
  /** Directory of the container, the FileMap and the embedded node. Default: ./stevedore-data. */
  readonly directory?: string;
  /** Trackers of a FastDFS cluster, HOST:PORT,...; none: an embedded node. Default: none. */
  readonly trackers?: readonly string[];
  /**
   * Most connections to one tracker or storage, for reading and for merging each. Default: 16. From
   * 1 to 1024.
   */
  readonly connections?: number;
  /**
   * Map of a deployment, postgres://USER@HOST/DATABASE, by which every server serves every key.
   * Default: none.
   */
  readonly map?: string;
  /**
   * URL at which other servers reach this one; none: where a gateway listens, unless it is on
   * loopback; without it, they read its merged files only. Default: none.
   */
  readonly peerUrl?: string;
  /**
   * Machines that have an upload when it is acknowledged; auto: 2 with a map, but 1 while no other
   * gateway, the partner, can keep a copy. Default: auto.
   */
  readonly stagedCopies?: 'auto' | 1 | 2;
  /** URL of the partner; none: the deployment chooses one. Default: none. */
  readonly partner?: string;
  /**
   * How long another gateway is silent in the map before this one adopts its files; 0: never by
   * itself. Default: 300s. Milliseconds, or text like `60s`.
   */
  readonly adoptAfter?: Duration;
  /**
   * Disk space for copies held for other gateways. Default: 20GiB. At least 1MiB. Bytes, or text
   * like `64MiB`.
   */
  readonly heldSize?: Size;
  /** Port of the embedded tracker; 0 picks a free one. Default: 0. */
  readonly trackerPort?: number;
  /** Port of the embedded storage; 0 picks a free one. Default: 0. */
  readonly storagePort?: number;
  /** The embedded storage keeps small files and hot slices as rows. Default: off. */
  readonly metadataTier?: boolean;
  /**
   * File with the secret of trackers and storages; of several lines, the first is used. Default:
   * none.
   */
  readonly clusterSecretFile?: string;
  /** Largest size of a trunk. Default: 64MiB. From 1MiB to 2GiB. Bytes, or text like `64MiB`. */
  readonly trunkSize?: Size;
  /**
   * Longest time a file waits to be packed into a trunk. Default: 60s. At least 10ms. Milliseconds,
   * or text like `60s`.
   */
  readonly mergeMaxAge?: Duration;
  /**
   * Longest time until a file has its FastDFS id; until then thin trunks are joined; 0: never.
   * Default: 600s. Milliseconds, or text like `60s`.
   */
  readonly idMaxAge?: Duration;
  /**
   * Largest file that is packed into a trunk. Default: 4MiB. From 1B to 16MiB. Bytes, or text like
   * `64MiB`.
   */
  readonly smallFileLimit?: Size;
  /** Largest file that is accepted. Default: 1GiB. At least 1B. Bytes, or text like `64MiB`. */
  readonly maxFileSize?: Size;
  /**
   * Age at which an unfinished resumable upload is removed. Default: 86400s. At least 1s.
   * Milliseconds, or text like `60s`.
   */
  readonly unfinishedAge?: Duration;
  /**
   * Longest time that direct mode collects files. Default: 100ms. Milliseconds, or text like `60s`.
   */
  readonly directMaxWait?: Duration;
  /**
   * Most bytes that direct mode collects. Default: 4MiB. From 1B to 64MiB. Bytes, or text like
   * `64MiB`.
   */
  readonly directBuffer?: Size;
  /**
   * Disk space for staged files; when it is full, uploads are refused. Default: 20GiB. At least
   * 1MiB. Bytes, or text like `64MiB`.
   */
  readonly containerSize?: Size;
  /**
   * Disk space for read copies of files in FastDFS, the oldest go first. Default: 1GiB. Bytes, or
   * text like `64MiB`.
   */
  readonly retain?: Size;
  /**
   * Bytes of all derived files together, such as pictures in other sizes; the oldest go first.
   * Default: 1GiB. At least 1MiB. Bytes, or text like `64MiB`.
   */
  readonly derivedSize?: Size;
  /**
   * Storages that have a trunk before its files may leave this disk; 0: two if the storage group
   * has two active, else one. Default: 0. At most 32.
   */
  readonly confirmCopies?: number;
  /**
   * Most bytes per second that the background scrub reads; 0 disables it. Default: 1MiB. Bytes, or
   * text like `64MiB`.
   */
  readonly scrubRate?: Size;
  /**
   * Memory for files just uploaded or read; 0 disables it. Default: an eighth of the memory. Bytes,
   * or text like `64MiB`.
   */
  readonly cacheSize?: Size;
  /** Put a Bloom filter in front of the cache. Default: off. */
  readonly cacheFilter?: boolean;
  /**
   * Bytes to read at once of an affinity group; 0 reads each file alone. Default: 1MiB. At most
   * 16MiB. Bytes, or text like `64MiB`.
   */
  readonly readAhead?: Size;
  /**
   * When an upload is acknowledged; sync: it is on disk; os: the operating system has it. Default:
   * sync.
   */
  readonly durability?: 'sync' | 'os';
}

/** What `connect()` takes. */
export interface ConnectOptions {
  /**
   * URL of a gateway or of a proxy in front of several; may include a path. Default:
   * http://127.0.0.1:8080.
   */
  readonly url?: string;
  /** API key, if the gateway requires one. Default: none. */
  readonly apiKey?: string;
  /** Most connections; large files use as many more. Default: 64. From 1 to 10000. */
  readonly connections?: number;
  /** Longest wait for a connection. Default: 5s. At least 1ms. Milliseconds, or text like `60s`. */
  readonly connectTimeout?: Duration;
  /**
   * Longest wait for an answer, and for the next piece of a body. Default: 30s. At least 1ms.
   * Milliseconds, or text like `60s`.
   */
  readonly answerTimeout?: Duration;
  /**
   * Longest time to retry a call, if that cannot store a file twice; 0: never. Default: 15s. At
   * most 3600s. Milliseconds, or text like `60s`.
   */
  readonly retryTime?: Duration;
}
