/**
 * The declaration of an option: its kind, its default and one sentence, beside what it configures.
 * Its flag, its environment variable, the help and the reference are generated from it.
 */

export type OptionKind = 'size' | 'duration' | 'text' | 'list' | 'boolean' | 'port' | 'integer';

export interface OptionSpec<Value = unknown> {
  readonly kind: OptionKind;
  /** The value after parsing: bytes, milliseconds, text, list, boolean or number. */
  readonly default: Value;
  readonly help: string;
  readonly minimum?: number;
  readonly maximum?: number;
  /** The words allowed, for `text`. */
  readonly choices?: readonly (string | number)[];
  /** The default in words, if it depends on the machine. */
  readonly shown?: string;
  /** A link to more, relative to the folder of documents. */
  readonly see?: string;
  /** `environment`: no flag, because other users can see flags; `flag`: of one command alone. */
  readonly only?: 'flag' | 'environment';
  /** One letter, for a flag. */
  readonly short?: string;
}

export type OptionTable = Readonly<Record<string, OptionSpec>>;

/** Bytes, or text with a unit: `64MiB`. */
export type Size = number | `${number}${'B' | 'KiB' | 'MiB' | 'GiB' | 'TiB'}`;

/** Milliseconds, or text with a unit: `60s`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

/** The parsed values of a table. */
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]: Table[Name] extends OptionSpec<infer Value> ? Value : never;
};

/** Raw values from an object, a flag, the environment or the file. */
export type RawOptions = Readonly<Record<string, unknown>>;

type Bare = Pick<OptionSpec, 'shown' | 'see' | 'only' | 'short'>;
type Bounds<Value> = Bare & { readonly minimum?: Value; readonly maximum?: Value };

function plain<Value, More extends object = Bare>(kind: OptionKind, kept: Bounds<number> = {}) {
  return (value: Value, help: string, more?: More): OptionSpec<Value> => ({
    kind,
    default: value,
    help,
    ...kept,
    ...more,
  });
}

/** One parser per kind. Sizes and durations are written as `64MiB`, `60s`; 0 needs no unit. */
export const option = {
  size: measured('size'),
  duration: measured('duration'),
  integer: plain<number, Bounds<number>>('integer'),
  port: plain<number>('port', { minimum: 0, maximum: 65_535 }),
  boolean: plain<boolean>('boolean'),
  text: plain<string>('text'),
  list: plain<readonly string[]>('list'),
  choice: <const Choice extends string | number>(
    value: NoInfer<Choice>,
    choices: readonly Choice[],
    help: string,
    more: Bare = {},
  ): OptionSpec<Choice> => ({ kind: 'text', default: value, choices, help, ...more }),
};

function measured(kind: 'size' | 'duration') {
  const measure = (text: string): number => withUnit(kind, text) ?? Number.NaN;
  return (
    value: string | 0,
    help: string,
    { minimum, maximum, ...more }: Bounds<string> = {},
  ): OptionSpec<number> => ({
    kind,
    default: value === 0 ? 0 : measure(value),
    help,
    ...(minimum === undefined ? {} : { minimum: measure(minimum) }),
    ...(maximum === undefined ? {} : { maximum: measure(maximum) }),
    ...more,
  });
}

export function defaultsOf<Table extends OptionTable>(table: Table): OptionValues<Table> {
  const defaults = Object.entries(table).map(([name, spec]) => [name, spec.default]);
  return Object.fromEntries(defaults) as OptionValues<Table>;
}

/** The default as a user would type it: `64MiB`, `60s`; `none`, `on` and `off` for people. */
export function typedDefault({ kind, default: value, shown }: OptionSpec): string {
  if (shown !== undefined) return shown;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',');
  if (kind === 'size' && value !== 0) return formatBytes(Number(value)).replace(' ', '');
  if (kind === 'duration' && value !== 0) {
    return Number(value) < 1000 ? `${value}ms` : `${Number(value) / 1000}s`;
  }
  if (kind === 'boolean') return value === true ? 'on' : 'off';
  return value === '' ? 'none' : String(value);
}

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

/** Bytes or milliseconds; undefined for an unknown unit. */
export function withUnit(kind: 'size' | 'duration', text: string): number | undefined {
  const { units } = UNITS[kind];
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(text) ?? [];
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  return factor === undefined ? undefined : Math.round(Number(amount) * factor);
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
