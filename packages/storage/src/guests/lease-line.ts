import {
  type LeasedFile,
  type LeaseReply,
  type LeaseRequest,
  leasedFileBytes,
  MAX_LEASE_LIST_BYTES,
  MAX_LEASE_MS,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';

/**
 * What one other storage may answer for in the place of this one, and until when. One
 * request is under way at a time, in a session that the other end confirms; whatever goes
 * wrong ends the session, and the next one begins with nothing granted.
 *
 *     unknown --confirmed--> confirmed --failed, or not known there--> unknown
 *
 * A lease counts from the clock of an earlier reply, so it is over, at the latest, its
 * length after that reply arrived here. A request prolongs it only if it brings all that
 * is to be revoked. So a file that is taken back is free as soon as one of these is true:
 * the other end has confirmed that; a new session is confirmed, in which it was never
 * granted; the lease has run out.
 */

/** Clocks may differ by so much in their pace. */
const CLOCK_TOLERANCE = 1.1;
export const LEASE_MS = MAX_LEASE_MS;
export const SAFE_MS = LEASE_MS * CLOCK_TOLERANCE;

export interface LeaseLineParts {
  /** Undefined: the own id, or where the other storage is, is not known. */
  readonly send: (request: SessionRequest) => Promise<LeaseReply>;
  /** Never goes back. */
  readonly nowMs: () => number;
  /** Of a new session. */
  readonly newSession: () => string;
  /** As it is now; undefined: it is not to be granted any more. */
  readonly describe: (path: string) => LeasedFile | undefined;
  /** The other storage answers for the file from now on, or does not any more. */
  readonly onGranted: (path: string, name: string) => void;
  readonly onRevoked: (path: string, name: string) => void;
}

export type SessionRequest = Omit<LeaseRequest, 'homeGroup' | 'homeId'>;

interface Revocation {
  readonly name: string;
  readonly done: Promise<void>;
  readonly resolve: () => void;
}

export class LeaseLine {
  readonly #parts: LeaseLineParts;
  #session: string;
  #isConfirmed = false;
  /** Clock of the last reply, and when it came. */
  #echo = 0;
  #echoAtMs = 0;
  /** Nothing that was ever granted there counts after this, unless it is prolonged. */
  #safeAtMs: number;
  readonly #offered = new Set<string>();
  /** What the other end has, or may have, in this session, with the names. */
  readonly #granted = new Map<string, string>();
  readonly #revoking = new Map<string, Revocation>();
  /** Those who wait for what an earlier session may have granted. */
  readonly #unknown = new Set<() => void>();
  /** Paths of `granted` of the request that is under way. */
  #sent: string[] = [];
  #working: Promise<void> | undefined;
  #isClosed = false;

  /** Before `safeAtMs` the other end may have leases of an earlier process. */
  constructor(parts: LeaseLineParts, safeAtMs: number) {
    this.#parts = parts;
    this.#safeAtMs = safeAtMs;
    this.#session = parts.newSession();
  }

  get granted(): number {
    return this.#granted.size;
  }

  get offered(): number {
    return this.#offered.size;
  }

  /** Nothing is granted, nothing waits, and nothing from before counts. */
  get isIdle(): boolean {
    return (
      this.#granted.size + this.#offered.size + this.#revoking.size === 0 &&
      this.#parts.nowMs() >= this.#safeAtMs
    );
  }

  /** To be granted with one of the next requests. */
  offer(path: string): void {
    if (!this.#granted.has(path) || this.#revoking.has(path)) this.#offered.add(path);
  }

  /**
   * Resolves once the other end does not answer for the file any more. `isThere`: it has the
   * file's bytes, so an earlier session may have let it. Status 11 if this storage ends first.
   */
  async takeBack(path: string, isThere: boolean): Promise<void> {
    this.#offered.delete(path);
    if (this.#isConfirmed) {
      const name = this.#granted.get(path);
      if (name === undefined) return;
      const { done } = this.#revoking.get(path) ?? this.#revoke(path, name);
      void this.work();
      await this.#orSafe(done);
    } else {
      if (!isThere || this.#parts.nowMs() >= this.#safeAtMs) return;
      const done = new Promise<void>((resolve) => this.#unknown.add(resolve));
      void this.work();
      await this.#orSafe(done);
    }
    if (this.#isClosed) throw new StatusError(Status.tryAgain, 'the storage ends');
  }

  /** Sends what waits, and prolongs the lease; one request after the other. Never rejects. */
  work(): Promise<void> {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
      // What came while the last request was under way.
      if (!this.#isClosed && this.#isConfirmed && this.#revoking.size > 0) void this.work();
    });
    return this.#working;
  }

  /** Nobody waits any more. */
  close(): void {
    this.#isClosed = true;
    for (const { resolve } of this.#revoking.values()) resolve();
    for (const resolve of this.#unknown) resolve();
    this.#unknown.clear();
  }

  async #work(): Promise<void> {
    let beginnings = 0;
    do {
      if (this.#isClosed) return;
      const request = this.#request();
      let reply: LeaseReply;
      try {
        reply = await this.#parts.send(request);
      } catch {
        this.#lost();
        return;
      }
      if (!reply.isKnown && this.#isConfirmed) this.#lost();
      this.#echo = reply.clock;
      this.#echoAtMs = this.#parts.nowMs();
      if (reply.isKnown) this.#taken(request, reply);
      else beginnings += 1;
      // A session begins with a second request; one that does not is tried again later.
      if (beginnings > 1) return;
    } while (!this.#isConfirmed || this.#revoking.size > 0 || this.#offered.size > 0);
  }

  #request(): SessionRequest {
    const revoked: string[] = [];
    const granted: LeasedFile[] = [];
    let bytes = 0;
    let isWhole = true;
    this.#sent = [];
    if (this.#isConfirmed) {
      for (const { name } of this.#revoking.values()) {
        bytes += 1 + name.length;
        isWhole = bytes <= MAX_LEASE_LIST_BYTES;
        if (!isWhole) break;
        revoked.push(name);
      }
      for (const path of this.#offered) {
        if (this.#revoking.has(path)) continue;
        const file = this.#parts.describe(path);
        bytes += file ? leasedFileBytes(file) : 0;
        if (bytes > MAX_LEASE_LIST_BYTES) break;
        this.#offered.delete(path);
        if (!file) continue;
        granted.push(file);
        this.#granted.set(path, file.name);
        this.#sent.push(path);
      }
    }
    const echo = isWhole ? this.#echo : 0;
    if (echo > 0) this.#safeAtMs = Math.max(this.#safeAtMs, this.#echoAtMs + SAFE_MS);
    return { session: this.#session, echo, leaseMs: LEASE_MS, revoked, granted };
  }

  #taken(request: SessionRequest, { refused }: LeaseReply): void {
    if (!this.#isConfirmed) {
      this.#isConfirmed = true;
      for (const resolve of this.#unknown) resolve();
      this.#unknown.clear();
    }
    const revoked = new Set(request.revoked);
    for (const [path, { name, resolve }] of this.#revoking) {
      if (!revoked.has(name)) continue;
      this.#revoking.delete(path);
      this.#granted.delete(path);
      resolve();
    }
    const isRefused = new Set(refused);
    for (const [place, path] of this.#sent.entries()) {
      if (isRefused.has(place)) this.#granted.delete(path);
      else if (!this.#revoking.has(path)) this.#parts.onGranted(path, request.granted[place]!.name);
    }
  }

  #revoke(path: string, name: string): Revocation {
    let resolve = (): void => {};
    const done = new Promise<void>((settle) => {
      resolve = settle;
    });
    const revocation = { name, done, resolve };
    this.#revoking.set(path, revocation);
    this.#parts.onRevoked(path, name);
    return revocation;
  }

  /** The session has ended: what it granted may count until its lease has run out. */
  #lost(): void {
    const wasConfirmed = this.#isConfirmed;
    this.#isConfirmed = false;
    this.#session = this.#parts.newSession();
    this.#echo = 0;
    if (!wasConfirmed) return;
    for (const [path, name] of this.#granted) {
      this.#parts.onRevoked(path, name);
      // What waits to be taken back is not granted again by this.
      if (!this.#revoking.has(path)) this.#offered.add(path);
    }
    for (const { resolve } of this.#revoking.values()) this.#unknown.add(resolve);
    this.#granted.clear();
    this.#revoking.clear();
  }

  /** With `done`, or as soon as nothing that was granted counts any more. */
  async #orSafe(done: Promise<void>): Promise<void> {
    let isDone = false;
    const settled = done.then(() => {
      isDone = true;
    });
    for (;;) {
      const leftMs = this.#safeAtMs - this.#parts.nowMs();
      if (isDone || leftMs <= 0) return;
      let timer: NodeJS.Timeout | undefined;
      const later = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, Math.ceil(leftMs));
      });
      await Promise.race([settled, later]);
      clearTimeout(timer);
    }
  }
}
