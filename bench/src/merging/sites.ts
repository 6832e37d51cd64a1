/** Sites whose weeks are simulated: when their files come. Pure. */

export const TRUNK_BYTES = 64 * 2 ** 20;
/** Log-uniform: 25 KB in the mean. */
export const MIN_FILE_BYTES = 2_000;
export const MAX_FILE_BYTES = 100_000;

/** So many files, so many milliseconds after the beginning. */
export interface Arrival {
  readonly at: number;
  readonly count: number;
}

export interface Site {
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

export const SITES = {
  minute: { title: '1 a minute', arrivals: (ms) => steady(ms, 60_000) },
  'ten-seconds': { title: '1 in 10 s', arrivals: (ms) => steady(ms, 10_000) },
  'two-seconds': { title: '1 in 2 s', arrivals: (ms) => steady(ms, 2_000) },
  noon: { title: '1 in 2 s, 29 a second for an hour at noon', arrivals: noon },
  fast: { title: '500 a second', arrivals: (ms) => steady(ms, TICK_MS, 50) },
} as const satisfies Readonly<Record<string, Site>>;

export type SiteName = keyof typeof SITES;
