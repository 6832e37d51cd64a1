import { type AccessedFile, heated, type Load } from '@stevedore/balance';
import { type ClassInterval, REQUEST_CLASSES, type RequestClass } from '../scheduler/scheduler.js';
import { LEAST_HEATING, Place } from '../tiers/record-rows.js';
import type { Tier } from '../tiers/tier.js';
import type { Tiers } from '../tiers/tiers.js';
import type { ClassStatus } from './status.js';

/** Rows read or written in an interval, with their load; a bounded number of them. */

const MAX_ACCESSED = 10_000;

export interface AccessedRow {
  readonly tier: Tier;
  readonly name: string;
  readonly size: number;
  readonly loadBytes: number;
  readonly accesses: number;
  /** Stored in this interval. */
  readonly isNew: boolean;
}

type Counted = { -readonly [Name in keyof AccessedRow]: AccessedRow[Name] };

export class AccessedFiles {
  readonly #tiers: Tiers;
  readonly #rows = new Map<string, Counted>();

  constructor(tiers: Tiers) {
    this.#tiers = tiers;
  }

  /** Returns the row if this is its first access in the interval. */
  add(path: string, loadBytes: number, size: number, isNew: boolean): AccessedRow | undefined {
    const known = this.#rows.get(path);
    if (known) {
      // Changed in place: every read of a small file passes here.
      known.size = size;
      known.loadBytes += loadBytes;
      known.accesses += 1;
      known.isNew ||= isNew;
      return undefined;
    }
    const at = this.#tiers.locate(path);
    if (!at || this.#rows.size >= MAX_ACCESSED) return undefined;
    const { tier, name } = at;
    const row: Counted = { tier, name, size, loadBytes, accesses: 1, isNew };
    this.#rows.set(path, row);
    return row;
  }

  find(path: string): AccessedRow | undefined {
    return this.#rows.get(path);
  }

  /** Without new files: most of them are rarely read again. */
  get movable(): AccessedFile[] {
    return [...this.#rows]
      .filter(([, { isNew }]) => !isNew)
      .map(([id, { size: sizeBytes, loadBytes }]) => ({ id, sizeBytes, loadBytes }));
  }

  [Symbol.iterator](): IterableIterator<[path: string, row: AccessedRow]> {
    return this.#rows.entries();
  }
}

/** Which rows leave where their room is short: those that are asked for least. */

/** Writing the heat of a row costs as much as a small read of it. */
const HEATED_PER_INTERVAL = 200;

/**
 * Records how often rows were asked for, a bounded number of rows an interval: those whose accesses
 * have waited longest. Accesses of a row that waits are added up.
 */
export class RowHeat {
  readonly #waiting = new Map<string, Pick<Counted, 'tier' | 'name' | 'accesses'>>();

  ended(accessed: AccessedFiles, nowMs: number): void {
    for (const [path, { tier, name, accesses }] of accessed) {
      const known = this.#waiting.get(path);
      if (known) known.accesses += accesses;
      else if (this.#waiting.size < MAX_ACCESSED) {
        this.#waiting.set(path, { tier, name, accesses });
      }
    }
    let left = HEATED_PER_INTERVAL;
    for (const [path, { tier, name, accesses }] of this.#waiting) {
      if (left === 0) return;
      left -= 1;
      this.#waiting.delete(path);
      const record = tier.records.find(name);
      if (!record) continue;
      const heat = heated(record.heat, nowMs, accesses);
      if (heat > record.heat + LEAST_HEATING) tier.records.setHeat(name, heat);
    }
  }
}

/** The coldest rows of all store paths, up to so many bytes and at most `most` of them. */
export function coldestRows(
  tiers: readonly Tier[],
  bytes: number,
  most: number,
): { readonly tier: Tier; readonly name: string; readonly size: number }[] {
  if (bytes <= 0) return [];
  const rows = tiers.flatMap((tier) =>
    tier.records.coldest(Place.row, most).map((row) => ({ tier, ...row })),
  );
  rows.sort((a, b) => a.heat - b.heat).splice(most);
  let left = bytes;
  return rows.filter(({ size }) => {
    left -= size;
    return left + size > 0;
  });
}

/** Load served and forecast of each class, for operators. */

const BYTES = { metadata: 'metadataBytes', smallFile: 'smallFileBytes' } as const;

export class LoadFigures {
  intervals = 0;
  #forecast: Load | undefined;
  readonly #errors = { metadata: 0, smallFile: 0 };
  #classes: Record<RequestClass, ClassStatus> = { metadata: NO_LOAD, smallFile: NO_LOAD };

  get classes(): Readonly<Record<RequestClass, ClassStatus>> {
    return { ...this.#classes };
  }

  /** An interval has ended, with this load; `forecast` is that of the next one. */
  ended(served: Readonly<Record<RequestClass, ClassInterval>>, load: Load, forecast: Load): void {
    this.intervals += 1;
    for (const kind of REQUEST_CLASSES) {
      const bytes = BYTES[kind];
      if (this.#forecast) this.#errors[kind] += Math.abs(this.#forecast[bytes] - load[bytes]);
      this.#classes[kind] = {
        ...served[kind],
        loadBytes: load[bytes],
        forecastBytes: forecast[bytes],
        meanErrorBytes: this.#errors[kind] / Math.max(1, this.intervals - 1),
        busyAnswersTotal: this.#classes[kind].busyAnswersTotal + served[kind].busyAnswers,
      };
    }
    this.#forecast = forecast;
  }
}

const NO_LOAD: ClassStatus = {
  servedBytes: 0,
  servedRequests: 0,
  waitingBytes: 0,
  waitingRequests: 0,
  waitedMs: 0,
  ranMs: 0,
  busyAnswers: 0,
  busyAnswersTotal: 0,
  loadBytes: 0,
  forecastBytes: 0,
  meanErrorBytes: 0,
};
