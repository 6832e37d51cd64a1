import type { Address } from './address.js';
import { authenticate } from './authentication.js';
import type { Budget, Sharer } from './budget.js';
import { connectChannel, traced } from './channels.js';
import { Connection } from './connection.js';
import type { Deadline } from './deadline.js';
import type { Settings } from './options.js';

/**
 * The connections to one address: a bounded number, the last used first, each
 * leased to one call at a time. Calls that find none free, here or within the budget
 * of all pools, wait in order, a bounded number of them for a bounded time.
 */

export type PoolLimits = Pick<
  Settings,
  | 'maxConnections'
  | 'maxConnectionsPerAddress'
  | 'maxQueuedPerAddress'
  | 'leaseTimeoutMs'
  | 'connectTimeoutMs'
  | 'maxIdleMs'
  | 'secret'
>;

interface Waiter {
  readonly deadline: Deadline;
  readonly connectMs: number;
  /** Running number over all pools. */
  readonly turn: number;
  readonly resolve: (connection: Connection | Promise<Connection>) => void;
  readonly reject: (error: unknown) => void;
  timer: NodeJS.Timeout | undefined;
}

export class Pool implements Sharer {
  readonly address: Address;
  readonly #limits: PoolLimits;
  readonly #budget: Budget;
  readonly #all = new Set<Connection>();
  /** The most recently used is the last. */
  readonly #idle: Connection[] = [];
  /** Insertion order is the order of service. */
  readonly #queue = new Set<Waiter>();
  #closed = false;

  constructor(address: Address, limits: PoolLimits, budget: Budget) {
    this.address = address;
    this.#limits = limits;
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
    waiter?.resolve(this.#connect(waiter.deadline, waiter.connectMs));
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
      if (this.#full || this.#budget.full) this.closeIdle();
    } else {
      const idle = this.#takeIdle();
      if (idle) return idle;
    }
    const connectMs = Math.min(this.#limits.connectTimeoutMs, stepMs);
    if (!this.#full) {
      if (!this.#budget.full || this.#budget.makeRoom()) return this.#connect(deadline, connectMs);
      this.#budget.starve(this);
    }
    return this.#enqueue(deadline, connectMs, Math.min(this.#limits.leaseTimeoutMs, stepMs));
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
    if (connection.state !== 'closed') {
      this.#all.add(connection);
      this.#budget.opened();
    }
    await traced(
      connectChannel,
      () => ({ address: this.address.text }),
      () => this.#introduced(connection, connected, deadline, connectMs),
    );
    return connection;
  }

  async #introduced(
    connection: Connection,
    connected: Promise<void>,
    deadline: Deadline,
    connectMs: number,
  ): Promise<void> {
    await connected;
    const { secret } = this.#limits;
    if (secret !== undefined) await authenticate(connection, secret, deadline, connectMs);
  }

  #enqueue(deadline: Deadline, connectMs: number, leaseMs: number): Promise<Connection> {
    const address = this.address.text;
    if (this.#queue.size >= this.#limits.maxQueuedPerAddress) {
      throw deadline.error('pool_exhausted', `${this.#queue.size} calls wait already`, { address });
    }
    return new Promise((resolve, reject) => {
      const turn = this.#budget.nextTurn();
      const waiter: Waiter = { deadline, connectMs, turn, resolve, reject, timer: undefined };
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
  }
}
