/** Sizes and durations, as people write them. */

const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};
const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

export const UNITS = {
  size: { units: SIZE_UNITS, example: '64MiB' },
  duration: { units: DURATION_UNITS, example: '60s' },
};

/** Bytes or milliseconds; undefined for what has no unit that is known. */
export function withUnit(kind: 'size' | 'duration', text: string): number | undefined {
  const { units } = UNITS[kind];
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(text);
  if (!match || !Object.hasOwn(units, match[2]!)) return undefined;
  return Math.round(Number(match[1]) * units[match[2]!]!);
}

/** `64 MiB`, for people. */
export function formatBytes(bytes: number): string {
  const [unit, factor] = Object.entries(SIZE_UNITS).findLast(([, size]) => bytes >= size) ?? [
    'B',
    1,
  ];
  const value = bytes / factor;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${unit}`;
}
