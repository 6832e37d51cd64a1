import { type IoServerRecord, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { PeerAccess } from '../net/frame-client.js';
import type { Endpoint } from '../options.js';
import { chooseServers } from './choice.js';
import { ServerConnections, type ServerLink } from './server-connections.js';

/**
 * The I/O servers that a storage knows of: from the trackers, and by their last
 * addresses from its records, so that it finds its data files while no tracker answers.
 */

export interface KnownServersOptions {
  readonly access: PeerAccess;
  readonly maxConnectionsPerServer: number;
  readonly connectTimeoutMs: number;
  readonly timeoutMs: number;
  /** A server has another address than before, or is new. */
  readonly onLearned: (servers: readonly ServerAddress[]) => void;
}

export interface ServerAddress extends Endpoint {
  readonly id: string;
}

/** An I/O server as operators see it. */
export interface IoServerStatus {
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** A tracker says that it lives, and it has not failed to answer a moment ago. */
  readonly isActive: boolean;
  readonly freeBytes: number;
}

interface Known {
  readonly record: IoServerRecord;
  readonly connections: ServerConnections;
}

export class KnownServers {
  readonly #options: KnownServersOptions;
  readonly #known = new Map<string, Known>();
  readonly #listeners = new Set<() => void>();
  #turn = 0;
  #isClosed = false;

  constructor(options: KnownServersOptions) {
    this.#options = options;
  }

  /** Servers by their last addresses; whether they live is not known. */
  remember(servers: readonly ServerAddress[]): void {
    for (const server of servers) {
      if (this.#known.has(server.id)) continue;
      this.#set({ ...server, totalBytes: 0, freeBytes: 0, isActive: false });
    }
  }

  /** What the trackers say now, all of it. */
  learn(servers: readonly IoServerRecord[]): void {
    const told = new Map(servers.map((server) => [server.id, server]));
    const moved: ServerAddress[] = [];
    for (const server of servers) {
      const before = this.#known.get(server.id)?.record;
      if (before?.host !== server.host || before.port !== server.port) moved.push(server);
      this.#set(server);
    }
    for (const { record } of this.#known.values()) {
      if (!told.has(record.id)) this.#set({ ...record, isActive: false });
    }
    if (moved.length > 0) this.#options.onLearned(moved);
    for (const hear of this.#listeners) hear();
  }

  /** Hears whenever the trackers have been asked. */
  onLearn(hear: () => void): void {
    this.#listeners.add(hear);
  }

  /** True if there is a server that takes new data files. */
  get hasActive(): boolean {
    return this.#active().length > 0;
  }

  /** Servers for a new data file; none if none can take it. */
  choose(bytes: number | undefined, stripeBytes: number, width: number): string[] {
    this.#turn += 1;
    return chooseServers(this.#active(), { bytes, stripeBytes, width, turn: this.#turn });
  }

  /** True if it is worth asking this server. */
  isReachable(id: string): boolean {
    const known = this.#known.get(id);
    return known !== undefined && !known.connections.isAway;
  }

  /** Runs a request that may be sent twice; status 11 if the server cannot be reached. */
  use<Result>(id: string, action: (link: ServerLink) => Promise<Result>): Promise<Result> {
    const known = this.#known.get(id);
    if (!known) {
      return Promise.reject(new StatusError(Status.tryAgain, `I/O server ${id} is not known`));
    }
    return known.connections.use(action);
  }

  addressOf(id: string): Endpoint | undefined {
    return this.#known.get(id)?.record;
  }

  get ids(): string[] {
    return [...this.#known.keys()];
  }

  status(): IoServerStatus[] {
    return [...this.#known.values()].map(({ record, connections }) => ({
      id: record.id,
      host: record.host,
      port: record.port,
      isActive: record.isActive && !connections.isAway,
      freeBytes: record.freeBytes,
    }));
  }

  close(): void {
    this.#isClosed = true;
    for (const { connections } of this.#known.values()) connections.close();
  }

  #active(): IoServerRecord[] {
    return [...this.#known.values()]
      .filter(({ record, connections }) => record.isActive && !connections.isAway)
      .map(({ record }) => record);
  }

  #set(record: IoServerRecord): void {
    const { id, host, port } = record;
    const before = this.#known.get(id);
    const isSame = before?.record.host === host && before.record.port === port;
    if (isSame) {
      this.#known.set(id, { record, connections: before.connections });
      return;
    }
    before?.connections.close();
    const { access, maxConnectionsPerServer, connectTimeoutMs, timeoutMs } = this.#options;
    const connections = new ServerConnections({
      id,
      host,
      port,
      access,
      maxConnections: maxConnectionsPerServer,
      connectTimeoutMs,
      timeoutMs,
    });
    if (this.#isClosed) connections.close();
    this.#known.set(id, { record, connections });
  }
}
