import { StoreError } from '@stevedore/staging';

/**
 * Options, in one form for `open()`, the command line, the environment and
 * `stevedore.config.json`. A table of specs says each option's name, unit,
 * default and help; from it come the flags, the checks and the docs. An unknown
 * name, a wrong unit or a value out of bounds is an `invalid_option` error.
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
  readonly choices?: readonly string[];
}

export type OptionTable = Readonly<Record<string, OptionSpec>>;

/** The parsed values of a table. */
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]: Table[Name] extends OptionSpec<infer Value> ? Value : never;
};

/** Raw values, as they come from an object, a flag, the environment or the file. */
export type RawOptions = Readonly<Record<string, unknown>>;

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

/** `trunkSize` -> `STEVEDORE_TRUNK_SIZE` */
export function environmentName(option: string): string {
  return `STEVEDORE_${option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** `trunkSize` -> `--trunk-size` */
export function flagName(option: string): string {
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * Values for every option of the table. Sources come in order of precedence;
 * each has a label for messages ("flag", "environment", "stevedore.config.json").
 */
export function parseOptions<Table extends OptionTable>(
  table: Table,
  sources: readonly { readonly label: string; readonly values: RawOptions }[],
): OptionValues<Table> {
  const values: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(table)) values[name] = spec.default;
  for (const { label, values: raw } of [...sources].reverse()) {
    for (const [name, value] of Object.entries(raw)) {
      if (value === undefined) continue;
      const spec = Object.hasOwn(table, name) ? table[name] : undefined;
      if (!spec) throw unknownOption(label, name, Object.keys(table));
      values[name] = parseOption(`${label} ${name}`, spec, value);
    }
  }
  return Object.freeze(values) as OptionValues<Table>;
}

/** What the environment says about the options of the table. */
export function environmentOptions(table: OptionTable, environment: NodeJS.ProcessEnv): RawOptions {
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(table)) {
    const value = environment[environmentName(name)];
    if (value !== undefined && value !== '') values[name] = value;
  }
  return values;
}

/** `64MiB`, for people. */
export function formatBytes(bytes: number): string {
  const units = Object.entries(SIZE_UNITS).reverse();
  const [unit, factor] = units.find(([, size]) => bytes >= size) ?? ['B', 1];
  const value = bytes / factor;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${unit}`;
}

function parseOption(label: string, spec: OptionSpec, value: unknown): unknown {
  switch (spec.kind) {
    case 'size':
      return bounded(label, spec, withUnit(label, value, SIZE_UNITS, '64MiB'));
    case 'duration':
      return bounded(label, spec, withUnit(label, value, DURATION_UNITS, '60s'));
    case 'integer':
      return bounded(label, spec, wholeNumber(label, value));
    case 'port':
      return bounded(label, { ...spec, minimum: 0, maximum: 65_535 }, wholeNumber(label, value));
    case 'boolean':
      return parseBoolean(label, value);
    case 'list':
      return parseList(label, value);
    case 'text':
      return parseText(label, spec, value);
  }
}

/** Numbers are bytes or milliseconds as they are. */
function withUnit(
  label: string,
  value: unknown,
  units: Readonly<Record<string, number>>,
  example: string,
): number {
  if (typeof value === 'number') return wholeNumber(label, value);
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(String(value));
  const factor = match && Object.hasOwn(units, match[2]!) ? units[match[2]!] : undefined;
  if (!match || factor === undefined) {
    const known = Object.keys(units).join(', ');
    throw invalidOption(
      `${label}: "${value}" has no known unit; write it like ${example} (${known})`,
    );
  }
  return Math.round(Number(match[1]) * factor);
}

function wholeNumber(label: string, value: unknown): number {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0) {
    throw invalidOption(`${label}: "${value}" is not a whole number`);
  }
  return number;
}

function bounded(label: string, spec: OptionSpec, value: number): number {
  const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = spec;
  if (value < minimum || value > maximum) {
    throw invalidOption(`${label}: ${value} is outside ${minimum} to ${maximum}`);
  }
  return value;
}

function parseBoolean(label: string, value: unknown): boolean {
  if (value === true || value === 'true' || value === '1') return true;
  if (value === false || value === 'false' || value === '0') return false;
  throw invalidOption(`${label}: "${value}" is neither true nor false`);
}

function parseList(label: string, value: unknown): readonly string[] {
  const items = typeof value === 'string' ? value.split(',') : value;
  if (!Array.isArray(items) || items.some((item) => typeof item !== 'string')) {
    throw invalidOption(`${label}: a list of texts is needed`);
  }
  return items.map((item: string) => item.trim()).filter((item) => item !== '');
}

function parseText(label: string, spec: OptionSpec, value: unknown): string {
  if (typeof value !== 'string') throw invalidOption(`${label}: a text is needed`);
  if (spec.choices && !spec.choices.includes(value)) {
    throw invalidOption(`${label}: "${value}" is none of ${spec.choices.join(', ')}`);
  }
  return value;
}

function unknownOption(label: string, name: string, known: readonly string[]): StoreError {
  return invalidOption(`${label}: there is no option "${name}"; known are ${known.join(', ')}`);
}

export function invalidOption(message: string): StoreError {
  return new StoreError('invalid_option', message);
}
