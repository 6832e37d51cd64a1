import { FastdfsClient } from './client.js';
import { FastdfsError } from './errors.js';
import type { FastdfsOptions } from './options.js';

/** Clients of several clusters side by side, each with its own trackers and pools. */
export class FastdfsClusters implements AsyncDisposable {
  readonly #clients: ReadonlyMap<string, FastdfsClient>;

  /** Does no I/O. Throws FastdfsError `invalid_argument`. */
  constructor(clusters: Readonly<Record<string, FastdfsOptions>>) {
    this.#clients = new Map(
      Object.entries(clusters).map(([name, options]) => [name, new FastdfsClient(options)]),
    );
  }

  get names(): readonly string[] {
    return [...this.#clients.keys()];
  }

  /** Throws FastdfsError `invalid_argument` for a name that was not given. */
  get(name: string): FastdfsClient {
    const client = this.#clients.get(name);
    if (client) return client;
    throw new FastdfsError('invalid_argument', `no cluster "${name}"`, { operation: 'clusters' });
  }

  /** Closes every client. */
  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
