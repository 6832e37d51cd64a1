import type { Address } from '../address.js';
import { Connection, type SocketOptions } from './connection.js';
import type { Call } from './reply.js';

/**
 * Connections to any number of addresses, bounded per address and in total. Each is leased to one
 * call at a time, the last used first. Calls that find none free, or no room in total, wait in
 * order, in a bounded number and for a bounded time. If there is room at an address but not in
 * total, an idle connection to another address is closed, and the room of a closed connection goes
 * to the call that has waited longest.
 */

export interface PoolPolicy {
  /** Most connections in total, including idle ones. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** Most calls waiting for one address; one more fails at once. */
  readonly maxQueuedPerAddress: number;
  /** How long a call waits for a free connection. */
  readonly leaseTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** An idle connection is closed after this time. */
  readonly maxIdleMs: number;
  readonly socket?: SocketOptions;
  /**
   * Waits for `connected` and makes the first exchanges, such as an authentication. If it rejects,
   * the connection is closed.
   */
  readonly hello: (
    connection: Connection,
    connected: Promise<void>,
    call: Call,
    timeoutMs: number,
  ) => Promise<void>;
  /** The other side closed a connection. By default another takes its place. */
  readonly onLost?: () => void;
}

export interface PoolStats {
  /** Sockets, including those being connected. */
  readonly open: number;
  readonly idle: number;
  /** Sockets leased to a call. */
  readonly leased: number;
  /** Calls waiting for a connection. */
  readonly queued: number;
}

interface Waiter {
  readonly call: Call;
  readonly connectMs: number;
  /** Sequence number over all addresses. */
  readonly turn: number;
  readonly resolve: (connection: Connection | Promise<Connection>) => void;
  readonly reject: (error: unknown) => void;
  timer: NodeJS.Timeout | undefined;
}

/** Connections and waiting calls of one address. */
interface Lane {
  readonly address: Address;
  readonly all: Set<Connection>;
  /** The most recently used is last. */
  readonly idle: Connection[];
  /** In the order of service. */
  readonly queue: Set<Waiter>;
}

/** Longest delay that a timer accepts. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
const MAX_SWEEP_MS = 5_000;

export class Pool {
  readonly #policy: PoolPolicy;
  readonly #lanes = new Map<string, Lane>();
  #open = 0;
  #queued = 0;
  #turn = 0;
  /** Closes connections idle for too long. It never keeps the process alive. */
  #sweeper: NodeJS.Timeout | undefined;
  closed = false;

  constructor(policy: PoolPolicy) {
    this.#policy = policy;
  }

  stats(): PoolStats {
    let idle = 0;
    for (const lane of this.#lanes.values()) idle += lane.idle.length;
    return { open: this.#open, idle, leased: this.#open - idle, queued: this.#queued };
  }

  /** Leases an idle connection to this call, until `release`; undefined if there is none. */
  leaseIdle(address: Address): Connection | undefined {
    const idle = this.#lanes.get(address.text)?.idle.pop();
    if (idle && performance.now() - idle.idleSinceMs > this.#policy.maxIdleMs) {
      // The others have been idle for longer still.
      idle.destroy();
      return undefined;
    }
    idle?.lease();
    return idle;
  }

  /**
   * Leases a connection that is not idle to this call, until `release`. `stepMs` shortens the waits
   * for a free connection and for a new one. Rejects with `pool_exhausted`, `connect_failed`,
   * `closed`, or the error that ended the call.
   */
  async lease(address: Address, call: Call, stepMs: number): Promise<Connection> {
    call.throwIfEnded();
    if (this.closed) throw call.error('closed', 'the client is closed');
    const lane = this.#lane(address);
    // Makes room: an idle connection here is as doubtful as one that just failed.
    if (this.#isFull(lane) || this.#hasNoRoom) lane.idle[0]?.destroy();
    const { connectTimeoutMs, leaseTimeoutMs } = this.#policy;
    const connectMs = Math.min(connectTimeoutMs, stepMs);
    if (!this.#isFull(lane) && (!this.#hasNoRoom || this.#makeRoom())) {
      return this.#connect(lane, call, connectMs);
    }
    return this.#enqueue(lane, call, connectMs, Math.min(leaseTimeoutMs, stepMs));
  }

  /** Takes a connection back. One whose state is uncertain was closed by its user. */
  release(connection: Connection): void {
    const lane = this.#lanes.get(connection.address.text);
    if (connection.state !== 'leased' || !lane) {
      connection.destroy();
      return;
    }
    const waiter = this.#queued === 0 ? undefined : firstOf(lane);
    if (this.#queued > lane.queue.size) {
      const first = this.#longestWaiting();
      if (first && first !== lane && (!waiter || isBefore(first, lane))) {
        connection.destroy();
        return;
      }
    }
    if (waiter) {
      this.#drop(lane, waiter);
      waiter.resolve(connection);
      return;
    }
    connection.rest();
    lane.idle.push(connection);
  }

  /** Ends all waits and connections with `closed`; resolves when every socket is released. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.#sweeper);
    const lanes = [...this.#lanes.values()];
    for (const lane of lanes) {
      for (const waiter of lane.queue) {
        this.#drop(lane, waiter);
        waiter.reject(waiter.call.error('closed', 'the client was closed'));
      }
    }
    const connections = lanes.flatMap(({ all }) => [...all]);
    for (const connection of connections) connection.close();
    await Promise.all(connections.map((connection) => connection.whenReleased()));
  }

  get #hasNoRoom(): boolean {
    return this.#open >= this.#policy.maxConnections;
  }

  #isFull({ all }: Lane): boolean {
    return all.size >= this.#policy.maxConnectionsPerAddress;
  }

  #lane(address: Address): Lane {
    let lane = this.#lanes.get(address.text);
    if (!lane) {
      lane = { address, all: new Set(), idle: [], queue: new Set() };
      this.#lanes.set(address.text, lane);
      const everyMs = Math.min(MAX_SWEEP_MS, Math.ceil(this.#policy.maxIdleMs / 2));
      this.#sweeper ??= setInterval(() => this.#sweep(), everyMs).unref();
    }
    return lane;
  }

  async #connect(lane: Lane, call: Call, connectMs: number): Promise<Connection> {
    const { hello, socket = {} } = this.#policy;
    const { connection, connected } = Connection.open(
      lane.address,
      socket,
      connectMs,
      call,
      (closed) => this.#onClosed(lane, closed),
    );
    // An ended call has closed it at once, before it could be counted.
    if (connection.state !== 'closed') {
      lane.all.add(connection);
      this.#open++;
    }
    try {
      await hello(connection, connected, call, connectMs);
      return connection;
    } catch (error) {
      connection.destroy(error);
      throw error;
    }
  }

  #enqueue(lane: Lane, call: Call, connectMs: number, leaseMs: number): Promise<Connection> {
    const { queue } = lane;
    const address = lane.address.text;
    if (queue.size >= this.#policy.maxQueuedPerAddress) {
      throw call.error('pool_exhausted', `${queue.size} calls wait already`, { address });
    }
    return new Promise((resolve, reject) => {
      const turn = ++this.#turn;
      const waiter: Waiter = { call, connectMs, turn, resolve, reject, timer: undefined };
      const giveUp = (error: unknown): void => {
        this.#drop(lane, waiter);
        reject(error);
      };
      waiter.timer = setTimeout(() => {
        const message = `no connection became free in ${leaseMs} ms`;
        giveUp(call.error('pool_exhausted', message, { address }));
      }, leaseMs);
      queue.add(waiter);
      this.#queued++;
      call.watch(giveUp);
    });
  }

  #drop({ queue }: Lane, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    waiter.call.unwatch();
    if (queue.delete(waiter)) this.#queued--;
  }

  /**
   * The address whose first call has waited longest, among those that may have more connections.
   */
  #longestWaiting(): Lane | undefined {
    let longest: Lane | undefined;
    for (const lane of this.#lanes.values()) {
      if (lane.queue.size === 0 || this.#isFull(lane)) continue;
      if (!longest || isBefore(lane, longest)) longest = lane;
    }
    return longest;
  }

  /** Closes the connection idle longest; false if there is none. */
  #makeRoom(): boolean {
    let oldest: Connection | undefined;
    for (const { idle } of this.#lanes.values()) {
      const first = idle[0];
      if (first && (!oldest || first.idleSinceMs < oldest.idleSinceMs)) oldest = first;
    }
    oldest?.destroy();
    return !this.#hasNoRoom;
  }

  #onClosed(lane: Lane, connection: Connection): void {
    const at = lane.idle.indexOf(connection);
    if (at !== -1) lane.idle.splice(at, 1);
    if (lane.all.delete(connection)) {
      this.#open--;
      if (this.#queued > 0 && !this.#hasNoRoom) this.#useRoom();
    }
    if (connection.lost) this.#policy.onLost?.();
  }

  #useRoom(): void {
    const lane = this.#longestWaiting();
    const waiter = lane && firstOf(lane);
    if (!lane || !waiter) return;
    this.#drop(lane, waiter);
    waiter.resolve(this.#connect(lane, waiter.call, waiter.connectMs));
  }

  #sweep(): void {
    const now = performance.now();
    for (const [text, lane] of this.#lanes) {
      const { idle } = lane;
      // The first are idle longest.
      while (idle[0] && now - idle[0].idleSinceMs > this.#policy.maxIdleMs) idle[0].destroy();
      if (lane.all.size === 0 && lane.queue.size === 0) this.#lanes.delete(text);
    }
    if (this.#lanes.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}

function firstOf({ queue }: Lane): Waiter | undefined {
  return queue.size === 0 ? undefined : queue.values().next().value;
}

/** True if the first call of `one` has waited longer than that of `other`. */
function isBefore(one: Lane, other: Lane): boolean {
  return (firstOf(one)?.turn ?? 0) < (firstOf(other)?.turn ?? 0);
}
