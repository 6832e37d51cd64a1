import {
  type ForwardTarget,
  type LeasedFile,
  type LeaseReply,
  MAX_LEASED_METADATA_BYTES,
} from '@stevedore/protocol';
import type { HomeId } from './guest-hosts.js';
import { LeaseLine, type LeaseLineParts, SAFE_MS, type SessionRequest } from './lease-line.js';

/**
 * Which of this storage's files the storages that have their bytes answer for: all that
 * may, until they are changed. Whoever changes, describes, moves or deletes a file takes it
 * back first; it is offered again afterwards, if its bytes are still there.
 */

/** Files that others answer for; what is more this storage answers for itself. */
export const MAX_LEASES = 16_384;
/** A lease is prolonged four times before it would run out. */
const PROLONG_MS = 500;

/** A file of this storage whose bytes another one has. */
export interface LentFile {
  readonly at: HomeId;
  readonly file: LeasedFile;
}

export interface LeasesParts {
  readonly send: (to: HomeId, request: SessionRequest) => Promise<LeaseReply>;
  /** The file at the path, if another storage has its bytes and may answer for it. */
  readonly describe: (path: string) => LentFile | undefined;
  /** Files that others had before this process began; undefined: that cannot be told yet. */
  readonly earlier: () => readonly string[] | undefined;
  /** Where reads of the file go from now on; undefined: they come here. */
  readonly onForward: (name: string, target: ForwardTarget | undefined) => void;
  /** Never goes back. */
  readonly nowMs: () => number;
  readonly newSession: () => string;
}

export class Leases {
  readonly #parts: LeasesParts;
  readonly #lines = new Map<string, LeaseLine>();
  /** Files that are being changed, with the number of those who do. */
  readonly #held = new Map<string, number>();
  /** Of those, the ones to be offered afterwards. */
  readonly #wanted = new Set<string>();
  /** What an earlier process granted has run out by then. */
  readonly #safeAtMs: number;
  #hasBegun = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: LeasesParts) {
    this.#parts = parts;
    this.#safeAtMs = parts.nowMs() + SAFE_MS;
  }

  /** Files that others answer for, as far as is known here. */
  get granted(): number {
    return this.#sum((line) => line.granted);
  }

  start(): void {
    this.#timer = setInterval(() => this.prolong(), PROLONG_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
    for (const line of this.#lines.values()) line.close();
  }

  /** Grants what was offered, and prolongs what was granted. */
  prolong(): void {
    if (!this.#hasBegun) {
      const earlier = this.#parts.earlier();
      this.#hasBegun = earlier !== undefined;
      for (const path of earlier ?? []) this.offer(path);
    }
    for (const [key, line] of this.#lines) {
      if (line.isIdle) this.#lines.delete(key);
      else void line.work();
    }
  }

  /** The bytes of the file are elsewhere now, or have been there all the time. */
  offer(path: string): void {
    if (this.#held.has(path)) {
      this.#wanted.add(path);
      return;
    }
    const lent = this.#parts.describe(path);
    if (!lent || this.#sum((line) => line.granted + line.offered) >= MAX_LEASES) return;
    if ((lent.file.metadata?.length ?? 0) > MAX_LEASED_METADATA_BYTES) return;
    this.#lineTo(lent.at).offer(path);
  }

  /**
   * Resolves once nobody but this storage answers for the file, and nobody will until the
   * function that it gives is called. `whereIs` tells which other storage has its bytes.
   */
  async takeBack(path: string, whereIs: () => HomeId | undefined): Promise<() => void> {
    this.#held.set(path, (this.#held.get(path) ?? 0) + 1);
    const mayBeFromBefore = this.#parts.nowMs() < this.#safeAtMs;
    if (this.#lines.size === 0 && !mayBeFromBefore) return () => this.#release(path);
    try {
      const at = whereIs();
      if (at) this.#wanted.add(path);
      // Leases of an earlier process, of which no line knows yet.
      if (at && mayBeFromBefore) this.#lineTo(at);
      const there = at && keyOf(at);
      await Promise.all([...this.#lines].map(([key, line]) => line.takeBack(path, key === there)));
      return () => this.#release(path);
    } catch (error) {
      this.#release(path);
      throw error;
    }
  }

  #sum(of: (line: LeaseLine) => number): number {
    let sum = 0;
    for (const line of this.#lines.values()) sum += of(line);
    return sum;
  }

  #release(path: string): void {
    const left = this.#held.get(path)! - 1;
    if (left > 0) {
      this.#held.set(path, left);
      return;
    }
    this.#held.delete(path);
    if (this.#wanted.delete(path)) this.offer(path);
  }

  #lineTo(at: HomeId): LeaseLine {
    const key = keyOf(at);
    const known = this.#lines.get(key);
    if (known) return known;
    const { send, describe, onForward, nowMs, newSession } = this.#parts;
    const parts: LeaseLineParts = {
      send: (request) => send(at, request),
      nowMs,
      newSession,
      describe: (path) => {
        const lent = this.#held.has(path) ? undefined : describe(path);
        return lent && keyOf(lent.at) === key ? lent.file : undefined;
      },
      onGranted: (_path, name) => onForward(name, at),
      onRevoked: (_path, name) => onForward(name, undefined),
    };
    const line = new LeaseLine(parts, this.#safeAtMs);
    this.#lines.set(key, line);
    return line;
  }
}

function keyOf({ group, id }: HomeId): string {
  return `${group}/${id}`;
}
