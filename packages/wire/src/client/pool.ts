import type { Address } from '../address.js';
import type { Budget, Sharer } from './budget.js';
import type { Call } from './call.js';
import { Connection, type SocketOptions } from './connection.js';

/**
 * The connections to one address: a bounded number, the last used first, each
 * leased to one call at a time. Calls that find none free, here or within the budget
 * of all pools, wait in order, a bounded number of them for a bounded time.
 */

export interface PoolPolicy {
  /** Connections to all addresses together, idle ones included. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** Calls that may wait for a connection to one address; one more fails at once. */
  readonly maxQueuedPerAddress: number;
  /** How long a call waits for a connection to become free. */
  readonly leaseTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** An unused connection is closed after so long. */
  readonly maxIdleMs: number;
  readonly socket?: SocketOptions;
  /**
   * Waits for `connected` and makes the first exchanges, such as an authentication; if it
   * rejects, the connection is closed.
   */
  readonly hello: (
    connection: Connection,
    connected: Promise<void>,
    call: Call,
    timeoutMs: number,
  ) => Promise<void>;
  /** A connection was ended from the other side. By default another takes its place. */
  readonly onLost?: () => void;
}

interface Waiter {
  readonly call: Call;
  readonly connectMs: number;
  /** Running number over all pools. */
  readonly turn: number;
  readonly resolve: (connection: Connection | Promise<Connection>) => void;
  readonly reject: (error: unknown) => void;
  timer: NodeJS.Timeout | undefined;
}

export class Pool implements Sharer {
  readonly address: Address;
  readonly #policy: PoolPolicy;
  readonly #budget: Budget;
  readonly #all = new Set<Connection>();
  /** The most recently used is the last. */
  readonly #idle: Connection[] = [];
  /** Insertion order is the order of service. */
  readonly #queue = new Set<Waiter>();
  #closed = false;

  constructor(address: Address, policy: PoolPolicy, budget: Budget) {
    this.address = address;
    this.#policy = policy;
    this.#budget = budget;
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

  get waitingSince(): number | undefined {
    return this.#full ? undefined : this.#firstWaiter?.turn;
  }

  get idleSinceMs(): number | undefined {
    return this.#idle[0]?.idleSinceMs;
  }

  closeIdle(): void {
    this.#idle[0]?.destroy();
  }

  useRoom(): void {
    const waiter = this.#nextWaiter();
    waiter?.resolve(this.#connect(waiter.call, waiter.connectMs));
  }

  /**
   * A connection for this call alone, to be given back by `release`. With `fresh`,
   * none that lay idle. `stepMs` shortens the waits for a free connection and for a
   * new one. Rejects with `pool_exhausted`, `connect_failed`, `closed`,
   * or the error that ended the call.
   */
  async lease(call: Call, stepMs: number, fresh = false): Promise<Connection> {
    call.throwIfEnded();
    if (this.#closed) throw call.error('closed', 'the client is closed');
    if (fresh) {
      // Makes room: what lies idle here is as doubtful as the one that just failed.
      if (this.#full || this.#budget.full) this.closeIdle();
    } else {
      const idle = this.#takeIdle();
      if (idle) return idle;
    }
    const connectMs = Math.min(this.#policy.connectTimeoutMs, stepMs);
    if (!this.#full) {
      if (!this.#budget.full || this.#budget.makeRoom()) return this.#connect(call, connectMs);
      this.#budget.starve(this);
    }
    return this.#enqueue(call, connectMs, Math.min(this.#policy.leaseTimeoutMs, stepMs));
  }

  /** Takes a connection back. One in any doubt has been closed before. */
  release(connection: Connection): void {
    if (connection.state !== 'leased') {
      connection.destroy();
      return;
    }
    if (this.#budget.owesRoom(this, this.#firstWaiter?.turn)) {
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
    while (this.#idle[0] && now - this.#idle[0].idleSinceMs > this.#policy.maxIdleMs) {
      this.#idle[0].destroy();
    }
  }

  /** Ends all waits and connections with `closed`; resolves when every socket is released. */
  async close(): Promise<void> {
    this.#closed = true;
    for (let waiter = this.#nextWaiter(); waiter; waiter = this.#nextWaiter()) {
      waiter.reject(waiter.call.error('closed', 'the client was closed'));
    }
    const connections = [...this.#all];
    for (const connection of connections) connection.close();
    await Promise.all(connections.map((connection) => connection.whenReleased()));
  }

  get #full(): boolean {
    return this.#all.size >= this.#policy.maxConnectionsPerAddress;
  }

  #takeIdle(): Connection | undefined {
    this.evict(performance.now());
    const connection = this.#idle.pop();
    connection?.lease();
    return connection;
  }

  async #connect(call: Call, connectMs: number): Promise<Connection> {
    const { connection, connected } = Connection.open(
      this.address,
      this.#policy.socket ?? {},
      connectMs,
      call,
      (closed) => this.#onClosed(closed),
    );
    // An ended call gives up at once, before the connection could be counted.
    if (connection.state !== 'closed') {
      this.#all.add(connection);
      this.#budget.opened();
    }
    try {
      await this.#policy.hello(connection, connected, call, connectMs);
      return connection;
    } catch (error) {
      connection.destroy(error);
      throw error;
    }
  }

  #enqueue(call: Call, connectMs: number, leaseMs: number): Promise<Connection> {
    const address = this.address.text;
    if (this.#queue.size >= this.#policy.maxQueuedPerAddress) {
      throw call.error('pool_exhausted', `${this.#queue.size} calls wait already`, { address });
    }
    return new Promise((resolve, reject) => {
      const turn = this.#budget.nextTurn();
      const waiter: Waiter = { call, connectMs, turn, resolve, reject, timer: undefined };
      const giveUp = (error: unknown): void => {
        this.#drop(waiter);
        reject(error);
      };
      waiter.timer = setTimeout(() => {
        giveUp(
          call.error('pool_exhausted', `no connection became free in ${leaseMs} ms`, {
            address,
          }),
        );
      }, leaseMs);
      this.#queue.add(waiter);
      call.watch(giveUp);
    });
  }

  #drop(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    waiter.call.unwatch();
    this.#queue.delete(waiter);
  }

  get #firstWaiter(): Waiter | undefined {
    return this.#queue.size === 0 ? undefined : this.#queue.values().next().value;
  }

  #nextWaiter(): Waiter | undefined {
    const waiter = this.#firstWaiter;
    if (waiter) this.#drop(waiter);
    return waiter;
  }

  #onClosed(connection: Connection): void {
    const counted = this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    // A pool that was full, and so had no claim, may have one now.
    if (this.#queue.size > 0) this.#budget.starve(this);
    if (counted) this.#budget.closed();
    if (connection.lost) this.#policy.onLost?.();
  }
}
