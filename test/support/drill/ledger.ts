import { hash } from 'node:crypto';
import type { Random } from '../random.js';

/**
 * The drill's own books: what was acknowledged and deleted, when, and what turned out to be wrong.
 * Times are those of `performance.now()`.
 */

export interface Entry {
  readonly key: string;
  readonly sha256: string;
  readonly origin: number;
  readonly acknowledgedAt: number;
  readonly expiresAt: number;
  /** Machines that had it when it was acknowledged, by its receipt. */
  readonly copies: number;
  /** excused: it may have been on one machine alone, which is gone. */
  state: 'there' | 'deleting' | 'deleted' | 'excused';
  deletedAt: number;
  /** The map was away when it was deleted, so others may not know yet. */
  isUntold: boolean;
  /** What it was found to be, last. */
  wrong: Wrong | undefined;
}

/** late: read when it should be gone. undead: it does not go. */
export type Wrong = 'lost' | 'altered' | 'late' | 'undead';

const FRESH = 60;
const FINDINGS = 60;
const TRIES = 20;

export class DrillLedger {
  readonly entries: Entry[] = [];
  readonly #deleted: Entry[] = [];
  readonly #expiring: Entry[] = [];
  readonly findings: string[] = [];
  readonly counts: Record<Wrong, number> = { lost: 0, altered: 0, late: 0, undead: 0 };
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  get deletions(): number {
    return this.#deleted.length;
  }

  get expiring(): number {
    return this.#expiring.length;
  }

  add(key: string, content: Buffer, copies = 1, expiresAt = Number.POSITIVE_INFINITY): void {
    const entry: Entry = {
      ...{ key, sha256: digestOf(content), origin: originOf(key), expiresAt, copies },
      ...{
        acknowledgedAt: performance.now(),
        state: 'there',
        deletedAt: 0,
        isUntold: false,
        wrong: undefined,
      },
    };
    if (expiresAt === Number.POSITIVE_INFINITY) this.entries.push(entry);
    else this.#expiring.push(entry);
  }

  fresh(): Entry | undefined {
    return this.#there(Math.max(0, this.entries.length - FRESH));
  }

  any(): Entry | undefined {
    return this.#there(0);
  }

  /** As often a new one as any. */
  deleted(): Entry | undefined {
    const all = this.#deleted;
    const from = this.#random.next() < 0.5 ? Math.max(0, all.length - FRESH) : 0;
    return all[from + this.#random.below(all.length - from)];
  }

  allDeleted(): readonly Entry[] {
    return this.#deleted;
  }

  /** A file with an end, now or before. */
  ending(): Entry | undefined {
    return this.#expiring[this.#random.below(this.#expiring.length)];
  }

  noteDeleted(entry: Entry, isUntold: boolean): void {
    entry.state = 'deleted';
    entry.isUntold = isUntold;
    entry.deletedAt = performance.now();
    this.#deleted.push(entry);
  }

  /** Some of the newest, and some of all. */
  sample(newest: number, others: number): Entry[] {
    const all = this.entries;
    const some = Array.from({ length: others }, () => all[this.#random.below(all.length)]);
    return [...new Set([...all.slice(-newest), ...some])].flatMap((entry) => entry ?? []);
  }

  wrong(entry: Entry, wrong: Wrong, why: string): void {
    if (entry.wrong === wrong) return;
    entry.wrong = wrong;
    this.counts[wrong] += 1;
    const age = Math.round((performance.now() - entry.acknowledgedAt) / 1000);
    this.find(
      `${wrong}: ${entry.key} of origin ${entry.origin}, ${age} s old, ${entry.copies} copies: ${why}`,
    );
  }

  find(finding: string): void {
    if (this.findings.length >= FINDINGS) return;
    this.findings.push(finding);
    console.log(finding);
  }

  #there(from: number): Entry | undefined {
    for (let tries = 0; tries < TRIES; tries++) {
      const entry = this.entries[from + this.#random.below(this.entries.length - from)];
      if (entry?.state === 'there') return entry;
    }
    return undefined;
  }
}

export function digestOf(content: Buffer): string {
  return hash('sha256', content, 'base64url');
}

function originOf(key: string): number {
  return Buffer.from(key, 'base64url').readUInt16BE(6);
}
