import { StoreError } from '@stevedore/staging';
import { closestMatch } from 'leven';

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

/** Where options come from, and what an option is called there: errors say what was typed. */
export interface OptionSource {
  readonly values: RawOptions;
  readonly nameOf: (option: string) => string;
}

export function fromFlags(values: RawOptions): OptionSource {
  return { values, nameOf: flagName };
}

export function fromEnvironment(table: OptionTable, environment: NodeJS.ProcessEnv): OptionSource {
  return { values: environmentOptions(table, environment), nameOf: environmentName };
}

export function fromFile(path: string, values: RawOptions): OptionSource {
  return { values, nameOf: (option) => `${path}: ${option}` };
}

export function fromProgram(values: RawOptions): OptionSource {
  return { values, nameOf: (option) => option };
}

/**
 * Values for every option of the table, from sources in order of precedence. `check`
 * finds options that contradict each other; `nameOf` tells it what each is called where
 * it was given, and of a default what it would be called in the first source.
 */
export function parseOptions<Table extends OptionTable>(
  table: Table,
  sources: readonly OptionSource[],
  check?: (values: OptionValues<Table>, nameOf: (option: string) => string) => void,
): OptionValues<Table> {
  const values: Record<string, unknown> = {};
  const names = new Map<string, string>();
  for (const [name, spec] of Object.entries(table)) values[name] = spec.default;
  for (const { values: raw, nameOf } of [...sources].reverse()) {
    for (const [name, value] of Object.entries(raw)) {
      if (value === undefined) continue;
      const spec = Object.hasOwn(table, name) ? table[name] : undefined;
      if (!spec) throw unknownOption(nameOf, name, Object.keys(table));
      names.set(name, nameOf(name));
      values[name] = parseOption(nameOf(name), spec, value);
    }
  }
  const parsed = Object.freeze(values) as OptionValues<Table>;
  check?.(parsed, (option) => names.get(option) ?? sources[0]?.nameOf(option) ?? option);
  return parsed;
}

function environmentOptions(table: OptionTable, environment: NodeJS.ProcessEnv): RawOptions {
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
  if (value === '0') return 0;
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(String(value));
  const factor = match && Object.hasOwn(units, match[2]!) ? units[match[2]!] : undefined;
  if (!match || factor === undefined) {
    const known = Object.keys(units).join(', ');
    const what = /^\d+$/.test(String(value)) ? 'no unit' : 'no known unit';
    throw invalidOption(`${label}: "${value}" has ${what}; write it like ${example} (${known})`);
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
  const shown = (number: number): string => {
    if (spec.kind === 'size') return formatBytes(number);
    return spec.kind === 'duration' ? `${number} ms` : String(number);
  };
  if (value < minimum) {
    throw invalidOption(`${label}: ${shown(value)} is less than ${shown(minimum)}`);
  }
  if (value > maximum) {
    throw invalidOption(`${label}: ${shown(value)} is more than ${shown(maximum)}`);
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

function unknownOption(
  nameOf: (option: string) => string,
  name: string,
  known: readonly string[],
): StoreError {
  const near = nearestName(name, known);
  const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean ${near}?`;
  return invalidOption(`${nameOf(name)} is no option; ${hint}`);
}

/** The known name that differs in a third of its letters at most. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const maxDistance = Math.max(2, Math.floor(name.length / 3));
  return closestMatch(name, [...known], { maxDistance });
}

export function invalidOption(message: string): StoreError {
  return new StoreError('invalid_option', message);
}
