import { heated } from '@stevedore/balance';
import { LEAST_HEATING, Place } from '../tiers/constants.js';
import type { Tier } from '../tiers/tier.js';
import type { AccessedRow } from './accessed-files.js';

/** Which rows leave where their room is short: those that are asked for least. */

/** Writes down how often rows were asked for. */
export function heatRows(accessed: Iterable<AccessedRow>, nowMs: number): void {
  for (const { tier, name, accesses } of accessed) {
    const record = tier.records.find(name);
    if (!record) continue;
    const heat = heated(record.heat, nowMs, accesses);
    if (heat > record.heat + LEAST_HEATING) tier.records.setHeat(name, heat);
  }
}

/** Rows that together have so many bytes, of each tier at most `most`. */
export function* coldestRows(
  tiers: readonly Tier[],
  bytes: number,
  most: number,
): Generator<{ readonly tier: Tier; readonly name: string; readonly size: number }> {
  let left = bytes;
  for (const tier of tiers) {
    if (left <= 0) return;
    for (const { name, size } of tier.records.coldest(Place.row, most)) {
      if (left <= 0) return;
      left -= size;
      yield { tier, name, size };
    }
  }
}
