import assert from 'node:assert';
import type { GatewayStore } from '@stevedore/client/internal';
import { ProblemError, type UploadQuota } from '@stevedore/middleware/core';
import type { ApiKey } from './api-keys.js';

/**
 * The ledger of API keys: requests per second (a bucket of one second's worth, at least one) and
 * bytes stored per day (UTC). Bytes are reserved before they are written; at the end of an upload
 * the reservation is given back, and what was stored is counted. So no key ever stores more than
 * its quota. The bytes of an unfinished upload that never becomes a file are given back.
 *
 * One process counts for all workers of a gateway, from its start. In a deployment with a map it
 * uses only bytes that the map has granted it, some more than it needs now, and returns them when
 * the key is quiet. While the map does not answer, each server grants itself what it needs, and
 * reports it later. Of the requests per second, each live server of the deployment has an equal part:
 * no request waits for the map.
 */

export type Limited = Pick<ApiKey, 'id' | 'requestsPerSecond' | 'bytesPerDay'>;

export interface KeyBytes {
  readonly id: string;
  readonly bytes: number;
}

/** Counts the usage of keys; one process of a gateway counts for all. */
export interface Ledger {
  /** Counts a request. Throws, or rejects with, `rate_limited`. */
  request(key: Limited): void | Promise<void>;
  /**
   * Reserves `wanted` bytes of today's, or what is left if that is at least `least`; resolves with
   * their number. Throws, or rejects with, `quota_exceeded`, or `too_large` if `least` is more than
   * a day's. For a key with a `bytesPerDay`.
   */
  reserve(key: Limited, least: number, wanted: number): number | Promise<number>;
  /** Gives a reservation back, and counts what was stored. */
  settle(id: string, reservedBytes: number, storedBytes: number): void;
  /** Gives back bytes that were counted on that day and are removed again. */
  giveBack(id: string, day: number, bytes: number): void;
  /** Bytes stored today (UTC) with keys that have a `bytesPerDay`, as far as they are counted. */
  today(): readonly KeyBytes[] | Promise<readonly KeyBytes[]>;
  /** Drops keys that were revoked and have no uploads in progress. */
  prune(isKey: (id: string) => boolean): void;
  /** Counts together with other servers from now on, until it is closed. */
  share?(usage: SharedUsage): void;
  /** Returns what is reserved in the map and not used. */
  close?(): Promise<void>;
}

type Deployment = NonNullable<GatewayStore['deployment']>;
export type ReserveInMap = Deployment['reserveUsage'];

/** What a ledger needs to know of the deployment; of one in another process, it has to ask. */
export interface SharedUsage {
  readonly reserveUsage: ReserveInMap;
  readonly liveServers: () => number | Promise<number>;
}

class Use {
  tokens: number;
  at: number;
  day = 0;
  limitBytes = 0;
  storedBytes = 0;
  /** Of uploads in progress, whatever the day they began on. */
  reservedBytes = 0;
  /** What this process may use; without a map that is all of the limit. */
  grantedBytes = 0;
  /** What the map has counted for this process, and for all others. */
  mappedBytes = 0;
  elsewhereBytes = 0;
  isQuiet = false;
  /** Requests to the map are made one at a time. */
  turn: Promise<unknown> = Promise.resolve();

  constructor(tokens: number, at: number) {
    this.tokens = tokens;
    this.at = at;
  }
}

const DAY_MS = 86_400_000;
/** Reserved in the map at a time, so that few uploads wait for it: at most a share of the limit. */
const GRANT_BYTES = 2 ** 20;
const GRANT_SHARE = 1 / 16;
/** A key without uploads for this long is quiet. */
const QUIET_MS = 1_000;
const NOTHING = (): void => {};

export class LocalLedger implements Ledger {
  readonly #now: () => number;
  readonly #uses = new Map<string, Use>();
  #map: SharedUsage | undefined;
  #servers = 1;
  #sharing: NodeJS.Timeout | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  request(key: Limited): void {
    const { requestsPerSecond } = key;
    if (requestsPerSecond === undefined) return;
    const rate = requestsPerSecond / this.#servers;
    const now = this.#now();
    const use = this.#of(key, now);
    const burst = Math.max(1, rate);
    use.tokens = Math.min(burst, use.tokens + (Math.max(0, now - use.at) / 1000) * rate);
    use.at = now;
    if (use.tokens < 1) {
      const seconds = Math.max(1, Math.ceil((1 - use.tokens) / rate));
      const shared = this.#servers > 1 ? `, shared equally by ${this.#servers} servers` : '';
      const message = `This key may make ${requestsPerSecond} requests a second${shared}.`;
      throw limited('rate_limited', message, seconds);
    }
    use.tokens -= 1;
  }

  reserve(key: Limited, least: number, wanted: number): number | Promise<number> {
    const use = this.#today(key);
    if (least > use.limitBytes) throw new ProblemError('too_large', perDay(use));
    const taken = take(use, least, wanted);
    if (taken !== undefined) return taken;
    if (!this.#map) throw this.#exceeded(use, least);
    const waiting = use.turn.then(() => this.#reserveShared(key, least, wanted));
    use.turn = waiting.catch(NOTHING);
    return waiting;
  }

  settle(id: string, reservedBytes: number, storedBytes: number): void {
    const use = this.#uses.get(id);
    if (!use) return;
    use.reservedBytes -= reservedBytes;
    assert(use.reservedBytes >= 0 && storedBytes >= 0, 'an upload gave back more than it reserved');
    this.#renew(use).storedBytes += storedBytes;
  }

  giveBack(id: string, day: number, bytes: number): void {
    const use = this.#uses.get(id);
    if (use && this.#renew(use).day === day) use.storedBytes = Math.max(0, use.storedBytes - bytes);
  }

  async today(): Promise<readonly KeyBytes[]> {
    const today = [...this.#uses].filter(([, use]) => this.#renew(use).limitBytes > 0);
    await this.#exchange(today, () => 0);
    return today.map(([id, use]) => ({ id, bytes: use.storedBytes + use.elsewhereBytes }));
  }

  share(usage: SharedUsage): void {
    this.#map = usage;
    const look = (): void => {
      void this.#countServers(usage);
      void this.#returnUnused();
    };
    void this.#countServers(usage);
    this.#sharing = setInterval(look, QUIET_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#sharing);
    for (const use of this.#uses.values()) use.isQuiet = true;
    await this.#returnUnused();
  }

  prune(isKey: (id: string) => boolean): void {
    for (const [id, { reservedBytes }] of this.#uses)
      if (!isKey(id) && reservedBytes === 0) this.#uses.delete(id);
  }

  async #reserveShared(key: Limited, least: number, wanted: number): Promise<number> {
    const use = this.#today(key);
    // The one before may have been granted enough.
    const ready = take(use, least, wanted);
    if (ready !== undefined) return ready;
    const step = Math.min(GRANT_BYTES, Math.floor(use.limitBytes * GRANT_SHARE));
    const needed = Math.max(least, Math.min(wanted, use.limitBytes)) - Math.max(0, free(use));
    const isShared = await this.#exchange([[key.id, use]], () => Math.max(needed, step));
    // Alone, this process uses what it needs up to the limit.
    if (!isShared) use.grantedBytes = Math.min(use.limitBytes, use.grantedBytes + needed);
    const taken = take(use, least, wanted);
    if (taken === undefined) throw this.#exceeded(use, least);
    return taken;
  }

  /** Tells the map what was used, and asks it for more. False if it does not answer. */
  async #exchange(
    uses: readonly (readonly [id: string, use: Use])[],
    wantedBytes: (use: Use) => number,
  ): Promise<boolean> {
    if (!this.#map || uses.length === 0) return false;
    const day = Math.floor(this.#now() / DAY_MS);
    const asked: [use: Use, usedBytes: number][] = [];
    const asks = uses.map(([id, use]) => {
      const mine = Math.max(use.grantedBytes, use.storedBytes + use.reservedBytes);
      const usedBytes = mine - use.mappedBytes;
      asked.push([use, usedBytes]);
      use.grantedBytes = mine;
      use.mappedBytes = mine;
      return { id, usedBytes, wantedBytes: wantedBytes(use), limitBytes: use.limitBytes };
    });
    try {
      const grants = new Map(
        (await this.#map.reserveUsage(day, asks)).map((grant) => [grant.id, grant]),
      );
      for (const [id, use] of uses) {
        const grant = grants.get(id);
        if (!grant || use.day !== day) continue;
        const { grantedBytes, bytes } = grant;
        use.grantedBytes += grantedBytes;
        use.mappedBytes += grantedBytes;
        use.elsewhereBytes = Math.max(0, bytes - use.mappedBytes);
      }
      return true;
    } catch {
      // Problems of the map are reported elsewhere. The next request repeats what it has not heard.
      for (const [use, usedBytes] of asked) if (use.day === day) use.mappedBytes -= usedBytes;
      return false;
    }
  }

  /** If they cannot be counted at the moment, as before. */
  async #countServers({ liveServers }: SharedUsage): Promise<void> {
    try {
      this.#servers = Math.max(1, await liveServers());
    } catch {}
  }

  async #returnUnused(): Promise<void> {
    const returning: [string, Use][] = [];
    for (const [id, use] of this.#uses) {
      const usedBytes = this.#renew(use).storedBytes + use.reservedBytes;
      if (use.isQuiet && (use.grantedBytes !== usedBytes || use.mappedBytes !== usedBytes)) {
        use.grantedBytes = usedBytes;
        returning.push([id, use]);
      }
      use.isQuiet = true;
    }
    await this.#exchange(returning, () => 0);
  }

  /** If uploads in progress have reserved what is missing, it may be free soon. */
  #exceeded(use: Use, bytes: number): ProblemError {
    const now = this.#now();
    const isOver = use.storedBytes + use.elsewhereBytes + bytes > use.limitBytes;
    const seconds = isOver ? Math.ceil((DAY_MS - (now % DAY_MS)) / 1000) : 1;
    const leftBytes = Math.max(
      0,
      use.limitBytes - use.elsewhereBytes - use.storedBytes - use.reservedBytes,
    );
    const message = `${perDay(use)} ${leftBytes} of them are left, and this upload needs more.`;
    return limited('quota_exceeded', message, seconds);
  }

  #of(key: Limited, now: number): Use {
    const known = this.#uses.get(key.id);
    if (known) return known;
    const use = new Use(Math.max(1, key.requestsPerSecond ?? 1), now);
    this.#uses.set(key.id, use);
    return use;
  }

  #today(key: Limited): Use {
    const use = this.#renew(this.#of(key, this.#now()));
    use.limitBytes = key.bytesPerDay ?? Number.POSITIVE_INFINITY;
    if (!this.#map) use.grantedBytes = use.limitBytes;
    use.isQuiet = false;
    return use;
  }

  #renew(use: Use): Use {
    const day = Math.floor(this.#now() / DAY_MS);
    if (use.day === day) return use;
    const nothing = { storedBytes: 0, grantedBytes: 0, mappedBytes: 0, elsewhereBytes: 0 };
    return Object.assign(use, nothing, { day });
  }
}

function free({ grantedBytes, storedBytes, reservedBytes }: Use): number {
  return grantedBytes - storedBytes - reservedBytes;
}

/** Undefined if fewer than `least` are free. */
function take(use: Use, least: number, wanted: number): number | undefined {
  const left = free(use);
  if (left < least) return undefined;
  const taken = Math.min(wanted, left);
  use.reservedBytes += taken;
  return taken;
}

function perDay({ limitBytes }: Use): string {
  return `This key may store ${limitBytes} bytes a day.`;
}

function limited(
  code: 'rate_limited' | 'quota_exceeded',
  message: string,
  seconds: number,
): ProblemError {
  return new ProblemError(code, message, undefined, { 'retry-after': String(seconds) });
}

/** Reserved at a time for a body of unknown length. */
const STEP_BYTES = 256 * 1024;

/**
 * One upload's part in the ledger: it reserves bytes before they are written, in one piece if the
 * length is known, and settles at the end.
 */
export class UploadAccount implements UploadQuota {
  readonly #ledger: Ledger;
  readonly #key: Limited;
  #takenBytes = 0;
  #reservedBytes = 0;
  #isSettled = false;

  constructor(ledger: Ledger, key: Limited) {
    this.#ledger = ledger;
    this.#key = key;
  }

  take(bytes: number, expected?: number): void | Promise<void> {
    this.#takenBytes += bytes;
    const lack = this.#takenBytes - this.#reservedBytes;
    if (lack <= 0) return;
    const more = expected === undefined ? STEP_BYTES : expected - this.#reservedBytes;
    const reserving = this.#ledger.reserve(this.#key, lack, Math.max(lack, more));
    if (typeof reserving === 'number') this.#reservedBytes += reserving;
    else
      return reserving.then((reserved) => {
        // The client may have gone while the ledger was asked.
        if (this.#isSettled) this.#ledger.settle(this.#key.id, reserved, 0);
        else this.#reservedBytes += reserved;
      });
  }

  /** Refuses an upload of which at least so many bytes will be stored; reserves nothing. */
  async demand(bytes: number): Promise<void> {
    const reserved = await this.#ledger.reserve(this.#key, bytes, bytes);
    this.#ledger.settle(this.#key.id, reserved, 0);
  }

  /** Call it once, when nothing more is written. */
  settle(storedBytes: number): void {
    this.#isSettled = true;
    if (this.#reservedBytes === 0 && storedBytes === 0) return;
    this.#ledger.settle(this.#key.id, this.#reservedBytes, storedBytes);
  }
}

interface Charge {
  readonly key: string;
  readonly day: number;
  readonly bytes: number;
}

export interface UnfinishedChargesParts {
  readonly ledger: Ledger;
  readonly now: () => number;
  /** True for an upload that is unfinished or has become a file. */
  readonly isKept: (id: string) => Promise<boolean>;
}

const CHECK_INTERVAL_MS = 10_000;

/**
 * What unfinished uploads have used of their keys' bytes today. An upload that is removed, or gets
 * too old, before it is a file gives them back.
 */
export class UnfinishedCharges {
  readonly #parts: UnfinishedChargesParts;
  /** By upload; bounded by the number of unfinished ones. */
  readonly #charges = new Map<string, Charge>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: UnfinishedChargesParts) {
    this.#parts = parts;
  }

  /** Looks for uploads that no request removed, until `close`. */
  start(): void {
    this.#timer = setInterval(() => void this.check(), CHECK_INTERVAL_MS).unref();
  }

  /** Bytes that were counted now. */
  add(id: string, key: string, bytes: number): void {
    const day = Math.floor(this.#parts.now() / DAY_MS);
    const known = this.#charges.get(id);
    const before = known?.day === day ? known.bytes : 0;
    this.#charges.set(id, { key, day, bytes: before + bytes });
  }

  /** They have become a file: their bytes stay counted. */
  keep(ids: readonly string[]): void {
    for (const id of ids) this.#charges.delete(id);
  }

  async check(ids: Iterable<string> = [...this.#charges.keys()]): Promise<void> {
    for (const id of ids) {
      // Without an answer it is looked at again.
      if (!this.#charges.has(id) || (await this.#parts.isKept(id).catch(() => true))) continue;
      const charge = this.#charges.get(id);
      if (charge && this.#charges.delete(id)) {
        this.#parts.ledger.giveBack(charge.key, charge.day, charge.bytes);
      }
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
