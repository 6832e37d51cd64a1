/**
 * What the client merging paper measured (tables 1 and 2): another machine, another
 * time, files up to 100 MB. Its course over the concurrency is what compares.
 */

/** MB/s by concurrency. */
export const PAPER_WRITE: Readonly<Record<string, ReadonlyMap<number, number>>> = {
  direct: by([1, 5, 20, 50, 100, 200], [4.46, 3.89, 2.92, 2.48, 2.34, 2.11]),
  own: by([1, 5, 20, 50, 100, 200], [6.38, 5.74, 5.09, 4.92, 4.84, 4.83]),
  merging: by([1, 5, 20, 50, 100, 200], [7.72, 7.56, 7.51, 7.43, 7.37, 7.33]),
};

export const FETCH_CONCURRENCIES = [20, 50, 100, 200] as const;

/** Fetches/s by concurrency. */
export const PAPER_FETCH: Readonly<Record<string, ReadonlyMap<number, number>>> = {
  direct: by(FETCH_CONCURRENCIES, [42.58, 40.32, 34.67, 30.43]),
  own: by(FETCH_CONCURRENCIES, [95.4, 93.88, 85.65, 78.36]),
  merging: by(FETCH_CONCURRENCIES, [115.26, 114.62, 112.67, 108.58]),
};

function by(concurrencies: readonly number[], figures: readonly number[]) {
  return new Map(concurrencies.map((concurrency, index) => [concurrency, figures[index]!]));
}

export function paperRatio(
  table: Readonly<Record<string, ReadonlyMap<number, number>>>,
  column: 'own' | 'merging',
  concurrency: number,
): number | string {
  const figure = table[column]?.get(concurrency);
  const direct = table.direct?.get(concurrency);
  return figure === undefined || direct === undefined ? '' : figure / direct;
}
