import type { Address } from './address.js';
import { Connection } from './connection.js';
import type { Deadline } from './deadline.js';
import type { Settings } from './options.js';

/**
 * The connections to one address: a bounded number, the last used first, each
 * leased to one call at a time. Calls that find none free wait in order, a bounded
 * number of them for a bounded time.
 */

export type PoolLimits = Pick<
  Settings,
  | 'maxConnectionsPerAddress'
  | 'maxQueuedPerAddress'
  | 'leaseTimeoutMs'
  | 'connectTimeoutMs'
  | 'maxIdleMs'
>;

interface Waiter {
  readonly deadline: Deadline;
  readonly connectMs: number;
  readonly resolve: (connection: Connection | Promise<Connection>) => void;
  readonly reject: (error: unknown) => void;
  timer: NodeJS.Timeout | undefined;
}

export class Pool {
  readonly address: Address;
  readonly #limits: PoolLimits;
  readonly #all = new Set<Connection>();
  /** The most recently used is the last. */
  readonly #idle: Connection[] = [];
  /** Insertion order is the order of service. */
  readonly #queue = new Set<Waiter>();
  #closed = false;

  constructor(address: Address, limits: PoolLimits) {
    this.address = address;
    this.#limits = limits;
  }

  get open(): number {
    return this.#all.size;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get queued(): number {
    return this.#queue.size;
  }

  get unused(): boolean {
    return this.#all.size === 0 && this.#queue.size === 0;
  }

  /**
   * A connection for this call alone, to be given back by `release`. With `fresh`,
   * none that lay idle. `stepMs` shortens the waits for a free connection and for a
   * new one. Rejects with `pool_exhausted`, `connect_failed`, `closed`,
   * or the error that ended the call.
   */
  async lease(deadline: Deadline, stepMs: number, fresh = false): Promise<Connection> {
    deadline.throwIfEnded();
    if (this.#closed) throw deadline.error('closed', 'the client is closed');
    if (fresh) {
      // Makes room: what lies idle here is as doubtful as the one that just failed.
      if (this.#full) this.#idle[0]?.destroy();
    } else {
      const idle = this.#takeIdle();
      if (idle) return idle;
    }
    const connectMs = Math.min(this.#limits.connectTimeoutMs, stepMs);
    if (!this.#full) return this.#connect(deadline, connectMs);
    return this.#enqueue(deadline, connectMs, Math.min(this.#limits.leaseTimeoutMs, stepMs));
  }

  /** Takes a connection back. One in any doubt has been closed before. */
  release(connection: Connection): void {
    if (connection.state !== 'leased') {
      connection.destroy();
      return;
    }
    const waiter = this.#nextWaiter();
    if (waiter) {
      waiter.resolve(connection);
      return;
    }
    connection.rest();
    this.#idle.push(connection);
  }

  /** Closes what has been idle for too long. */
  evict(now: number): void {
    // The first are the longest unused.
    while (this.#idle[0] && now - this.#idle[0].idleSinceMs > this.#limits.maxIdleMs) {
      this.#idle[0].destroy();
    }
  }

  /** Ends all waits and connections with `closed`; resolves when every socket is released. */
  async close(): Promise<void> {
    this.#closed = true;
    for (let waiter = this.#nextWaiter(); waiter; waiter = this.#nextWaiter()) {
      waiter.reject(waiter.deadline.error('closed', 'the client was closed'));
    }
    const connections = [...this.#all];
    for (const connection of connections) connection.close();
    await Promise.all(connections.map((connection) => connection.whenReleased()));
  }

  get #full(): boolean {
    return this.#all.size >= this.#limits.maxConnectionsPerAddress;
  }

  #takeIdle(): Connection | undefined {
    this.evict(performance.now());
    const connection = this.#idle.pop();
    connection?.lease();
    return connection;
  }

  async #connect(deadline: Deadline, connectMs: number): Promise<Connection> {
    const { connection, connected } = Connection.open(this.address, connectMs, deadline, (closed) =>
      this.#onClosed(closed),
    );
    // An ended call gives up at once, before the connection could be counted.
    if (connection.state !== 'closed') this.#all.add(connection);
    await connected;
    return connection;
  }

  #enqueue(deadline: Deadline, connectMs: number, leaseMs: number): Promise<Connection> {
    const address = this.address.text;
    if (this.#queue.size >= this.#limits.maxQueuedPerAddress) {
      throw deadline.error('pool_exhausted', `${this.#queue.size} calls wait already`, { address });
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { deadline, connectMs, resolve, reject, timer: undefined };
      const giveUp = (error: unknown): void => {
        this.#drop(waiter);
        reject(error);
      };
      waiter.timer = setTimeout(() => {
        giveUp(
          deadline.error('pool_exhausted', `no connection became free in ${leaseMs} ms`, {
            address,
          }),
        );
      }, leaseMs);
      this.#queue.add(waiter);
      deadline.watch(giveUp);
    });
  }

  #drop(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    waiter.deadline.unwatch();
    this.#queue.delete(waiter);
  }

  #nextWaiter(): Waiter | undefined {
    const waiter = this.#queue.values().next().value;
    if (waiter) this.#drop(waiter);
    return waiter;
  }

  #onClosed(connection: Connection): void {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    if (this.#closed || this.#full) return;
    const waiter = this.#nextWaiter();
    waiter?.resolve(this.#connect(waiter.deadline, waiter.connectMs));
  }
}
