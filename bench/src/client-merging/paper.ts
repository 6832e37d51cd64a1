/**
 * What the client merging paper measured (tables 1 and 2): another machine, another
 * time, files up to 100 MB. Its course over the concurrency is what compares.
 */

export const WRITE_CONCURRENCIES = [1, 5, 20, 50, 100, 200] as const;
export const FETCH_CONCURRENCIES = [20, 50, 100, 200] as const;

/** MB/s, one per write concurrency. */
export const PAPER_WRITE = {
  direct: [4.46, 3.89, 2.92, 2.48, 2.34, 2.11],
  own: [6.38, 5.74, 5.09, 4.92, 4.84, 4.83],
  merging: [7.72, 7.56, 7.51, 7.43, 7.37, 7.33],
} as const;

/** Fetches/s, one per fetch concurrency. */
export const PAPER_FETCH = {
  direct: [42.58, 40.32, 34.67, 30.43],
  own: [95.4, 93.88, 85.65, 78.36],
  merging: [115.26, 114.62, 112.67, 108.58],
} as const;
