import type { Address } from '../address.js';
import { Budget } from './budget.js';
import { Pool, type PoolPolicy } from './pool.js';

/**
 * One pool for each address in use. A single timer, which never keeps the process
 * alive, closes connections that lay idle for too long and forgets empty pools.
 */

export interface PoolStats {
  /** Sockets, those being connected included. */
  readonly open: number;
  readonly idle: number;
  /** Sockets in the hands of a call. */
  readonly leased: number;
  /** Calls that wait for a connection. */
  readonly queued: number;
}

const MAX_SWEEP_MS = 5_000;

export class Pools {
  readonly #policy: PoolPolicy;
  readonly #pools = new Map<string, Pool>();
  readonly #budget: Budget;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(policy: PoolPolicy) {
    this.#policy = policy;
    this.#budget = new Budget(policy.maxConnections, () => this.#pools.values());
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The pool of an address; use it at once, an unused one is forgotten by and by. */
  of(address: Address): Pool {
    let pool = this.#pools.get(address.text);
    if (!pool) {
      pool = new Pool(address, this.#policy, this.#budget);
      this.#pools.set(address.text, pool);
      this.#startSweeping();
    }
    return pool;
  }

  stats(): PoolStats {
    let open = 0;
    let idle = 0;
    let queued = 0;
    for (const pool of this.#pools.values()) {
      open += pool.open;
      idle += pool.idle;
      queued += pool.queued;
    }
    return { open, idle, leased: open - idle, queued };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()));
  }

  #startSweeping(): void {
    if (this.#timer || this.#closed) return;
    const everyMs = Math.min(MAX_SWEEP_MS, Math.ceil(this.#policy.maxIdleMs / 2));
    this.#timer = setInterval(() => this.#sweep(), everyMs).unref();
  }

  #sweep(): void {
    const now = performance.now();
    for (const [text, pool] of this.#pools) {
      pool.evict(now);
      if (pool.unused) this.#pools.delete(text);
    }
    if (this.#pools.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
