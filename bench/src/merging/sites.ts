import type { SeededRandom } from '../harness/seeded-random.js';

/** Sites that are simulated: when their files come, and when they are deleted. Pure. */

export const TRUNK_BYTES = 64 * 2 ** 20;

/** So many files, so many milliseconds after the beginning. */
export interface Arrival {
  readonly at: number;
  readonly count: number;
}

interface WeekSite {
  readonly title: string;
  arrivals(forMs: number): Iterable<Arrival>;
}

const HOUR_MS = 3_600_000;
const NOON_HOUR = 12;
const TICK_MS = 100;

function* steady(forMs: number, everyMs: number, count = 1): Generator<Arrival> {
  for (let at = 0; at < forMs; at += everyMs) yield { at, count };
}

function* noon(forMs: number): Generator<Arrival> {
  for (let at = 0; at < forMs; at += 2_000) {
    yield { at, count: 1 };
    if (Math.floor(at / HOUR_MS) % 24 !== NOON_HOUR) continue;
    for (let part = TICK_MS; part < 2_000; part += TICK_MS) yield { at: at + part, count: 3 };
  }
}

export const WEEK_SITES = {
  minute: { title: '1 a minute', arrivals: (ms) => steady(ms, 60_000) },
  'ten-seconds': { title: '1 in 10 s', arrivals: (ms) => steady(ms, 10_000) },
  'two-seconds': { title: '1 in 2 s', arrivals: (ms) => steady(ms, 2_000) },
  noon: { title: '1 in 2 s, 29 a second for an hour at noon', arrivals: noon },
  fast: { title: '500 a second', arrivals: (ms) => steady(ms, TICK_MS, 50) },
} as const satisfies Readonly<Record<string, WeekSite>>;

export type WeekSiteName = keyof typeof WEEK_SITES;

/** Times are days. */
export interface Upload {
  readonly at: number;
  readonly group?: string;
  /** Set if the app knows when it is to be deleted. */
  readonly expiresAt?: number;
  /** When a user deletes it; infinite: never. */
  readonly deletedAt: number;
}

interface MonthSite {
  readonly title: string;
  /** In order. */
  uploads(days: number, perDay: number, random: SeededRandom): Upload[];
}

function inOrder(uploads: Upload[]): Upload[] {
  return uploads.sort((a, b) => a.at - b.at);
}

/**
 * Albums of 5 to 200 pictures, uploaded within half an hour. Two of five are there for a few days.
 * One picture of twelve is deleted alone.
 */
function albums(days: number, perDay: number, random: SeededRandom): Upload[] {
  const uploads: Upload[] = [];
  for (let at = 0; at < days; at += random.exponential(53 / perDay)) {
    const group = `album-${uploads.length}`;
    const count = Math.round(5 * 40 ** random.next());
    const end = at + random.exponential(random.next() < 0.4 ? 4 : 300);
    for (let index = 0; index < count; index += 1) {
      const alone = random.next() < 1 / 12 ? at + random.exponential(20) : Infinity;
      const deletedAt = Math.min(end, alone);
      uploads.push({ at: at + (random.next() * 0.5) / 24, group, deletedAt });
    }
  }
  return inOrder(uploads);
}

/** Attachments with 30 days to live; those of paying users stay. One of seven is deleted early. */
function chat(days: number, perDay: number, random: SeededRandom): Upload[] {
  const uploads: Upload[] = [];
  for (let at = 0; at < days; at += random.exponential(1 / perDay)) {
    const early = random.next() < 1 / 7 ? at + random.exponential(5) : Infinity;
    const stays = random.next() < 0.3;
    uploads.push({ at, deletedAt: early, ...(stays ? {} : { expiresAt: at + 30 }) });
  }
  return uploads;
}

/** Eight pictures of a product, replaced together: of half of the products after two weeks. */
function shop(days: number, perDay: number, random: SeededRandom): Upload[] {
  const uploads: Upload[] = [];
  for (let at = 0; at < days; at += random.exponential(8 / perDay)) {
    const group = `product-${uploads.length}`;
    const deletedAt = at + random.exponential(random.next() < 0.5 ? 15 : 200);
    for (let index = 0; index < 8; index += 1) {
      uploads.push({ at: at + (random.next() * 0.1) / 24, group, deletedAt });
    }
  }
  return inOrder(uploads);
}

export const MONTH_SITES = {
  albums: { title: 'albums', uploads: albums },
  chat: { title: 'chat attachments', uploads: chat },
  shop: { title: "a shop's pictures", uploads: shop },
} as const satisfies Readonly<Record<string, MonthSite>>;

export type MonthSiteName = keyof typeof MONTH_SITES;
