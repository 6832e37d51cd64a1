import { closestMatch } from 'leven';
import { givenText, hasControl, isServiceLink } from './given.js';
import {
  defaultsOf,
  formatBytes,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  type RawOptions,
  UNITS,
  withUnit,
} from './option.js';

/**
 * Reads options from a program, the command line, the environment or a file. An unknown name, a
 * wrong unit or a value out of bounds is an OptionError, which names the option as the user wrote
 * it.
 */

/** Options that are invalid, alone or together; a line for each problem. */
export class OptionError extends Error {
  override readonly name = 'OptionError';
  readonly code = 'invalid_option';
}

/** `trunkSize` -> `STEVEDORE_TRUNK_SIZE` */
export function environmentName(option: string): string {
  return `STEVEDORE_${option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** `trunkSize` -> `--trunk-size` */
export function flagName(option: string): string {
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A source of options, and what an option is called there: errors repeat what the user typed. */
export interface OptionSource {
  readonly values: RawOptions;
  readonly nameOf: (option: string) => string;
}

export function fromFlags(values: RawOptions): OptionSource {
  return { values, nameOf: flagName };
}

export function fromEnvironment(table: OptionTable, environment: NodeJS.ProcessEnv): OptionSource {
  const values: Record<string, unknown> = {};
  for (const [name, { only }] of Object.entries(table)) {
    const variable = environmentName(name);
    const value = environment[variable] ?? '';
    if (only === 'flag' || value === '' || isServiceLink(variable, value)) continue;
    values[name] = value;
  }
  return { values, nameOf: environmentName };
}

export function fromFile(path: string, values: RawOptions): OptionSource {
  return { values, nameOf: (option) => `${path}: ${option}` };
}

export function fromProgram(values: object): OptionSource {
  return { values: values as RawOptions, nameOf: (option) => option };
}

/** Finds options that are invalid or contradict each other, and yields a sentence for each. */
export type OptionCheck<Table extends OptionTable> = (
  values: OptionValues<Table>,
  nameOf: (option: string) => string,
) => Iterable<string>;

/**
 * Values for every option of the table, from sources in order of precedence. `check` gets the name
 * of each option as it was written or, for a default, its name in the first source. Throws one
 * OptionError with all problems.
 */
export function parseOptions<Table extends OptionTable>(
  table: Table,
  sources: readonly OptionSource[],
  check: OptionCheck<Table> = () => [],
): OptionValues<Table> {
  const values: Record<string, unknown> = { ...defaultsOf(table) };
  const names = new Map<string, string>();
  const problems: string[] = [];
  for (const { values: raw, nameOf } of [...sources].reverse()) {
    for (const [name, value] of Object.entries(raw)) {
      if (value === undefined) continue;
      try {
        const spec = Object.hasOwn(table, name) ? table[name] : undefined;
        if (!spec) throw unknownOption(nameOf, name, Object.keys(table));
        names.set(name, nameOf(name));
        values[name] = parseOption(nameOf(name), spec, value);
      } catch (error) {
        if (!(error instanceof OptionError)) throw error;
        problems.push(error.message);
      }
    }
  }
  const parsed = Object.freeze(values) as OptionValues<Table>;
  const nameOf = (option: string) => names.get(option) ?? sources[0]?.nameOf(option) ?? option;
  // Options that could not be read have their defaults, which may not agree with the others.
  if (problems.length === 0) problems.push(...check(parsed, nameOf));
  if (problems.length > 0) throw new OptionError(problems.join('\n'));
  return parsed;
}

function parseOption(label: string, spec: OptionSpec, given: unknown): unknown {
  const value = typeof given === 'string' && spec.only !== 'flag' ? givenText(given) : given;
  switch (spec.kind) {
    case 'size':
    case 'duration':
      return bounded(label, spec, measured(label, spec.kind, value));
    case 'integer':
    case 'port':
      return bounded(label, spec, wholeNumber(label, value));
    case 'boolean':
      return parseBoolean(label, value);
    case 'list':
      return parseList(label, value);
    case 'text':
      return parseText(label, spec, value);
  }
}

/** A number is bytes or milliseconds. */
function measured(label: string, kind: 'size' | 'duration', value: unknown): number {
  if (typeof value === 'number') return wholeNumber(label, value);
  if (value === '0') return 0;
  const number = withUnit(kind, String(value));
  if (number !== undefined) return number;
  const { units, example } = UNITS[kind];
  const what = /^\d+$/.test(String(value)) ? 'no unit' : 'no known unit';
  const known = Object.keys(units).join(', ');
  throw new OptionError(`${label}: "${value}" has ${what}; write it like ${example} (${known})`);
}

function wholeNumber(label: string, value: unknown): number {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0) {
    throw new OptionError(`${label}: "${value}" is not a whole number`);
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
    throw new OptionError(`${label}: ${shown(value)} is less than ${shown(minimum)}`);
  }
  if (value > maximum) {
    throw new OptionError(`${label}: ${shown(value)} is more than ${shown(maximum)}`);
  }
  return value;
}

function parseBoolean(label: string, value: unknown): boolean {
  if (value === true || value === 'true' || value === '1') return true;
  if (value === false || value === 'false' || value === '0') return false;
  throw new OptionError(`${label}: "${value}" is neither true nor false`);
}

function parseList(label: string, value: unknown): readonly string[] {
  const items = typeof value === 'string' ? value.split(',') : value;
  if (!Array.isArray(items) || items.some((item) => typeof item !== 'string')) {
    throw new OptionError(`${label}: a list of texts is needed`);
  }
  const texts = items.map((item: string) => item.trim()).filter((item) => item !== '');
  for (const text of texts) demandPrintable(label, text);
  return texts;
}

function demandPrintable(label: string, text: string): void {
  if (hasControl(text)) throw new OptionError(`${label}: a line break or control character in it`);
}

function parseText(label: string, spec: OptionSpec, value: unknown): string | number {
  const choice = spec.choices?.find((each) => each === value || String(each) === value);
  if (choice !== undefined) return choice;
  if (typeof value !== 'string') throw new OptionError(`${label}: a text is needed`);
  if (spec.choices) {
    throw new OptionError(`${label}: "${value}" is none of ${spec.choices.join(', ')}`);
  }
  if (spec.only !== 'flag') demandPrintable(label, value);
  return value;
}

function unknownOption(
  nameOf: (option: string) => string,
  name: string,
  known: readonly string[],
): OptionError {
  const near = nearestName(name, known);
  const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean ${near}?`;
  return new OptionError(`${nameOf(name)} is no option; ${hint}`);
}

/** The known name that differs in at most a third of its letters. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const maxDistance = Math.max(2, Math.floor(name.length / 3));
  return closestMatch(name, [...known], { maxDistance });
}
