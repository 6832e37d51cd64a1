import {
  environmentName,
  flagName,
  formatBytes,
  type OptionSpec,
  type OptionTable,
} from '@stevedore/client';
import { type Command, Option } from 'commander';

/**
 * Flags from an option table: one per option, its default and its environment
 * variable shown. Values stay as they were typed; the table checks them.
 */

const PLACEHOLDERS: Readonly<Record<OptionSpec['kind'], string>> = {
  boolean: '',
  duration: ' <duration>',
  integer: ' <number>',
  list: ' <list>',
  port: ' <port>',
  size: ' <size>',
  text: ' <text>',
};

export function addOptionFlags(command: Command, table: OptionTable): void {
  for (const [name, spec] of Object.entries(table)) {
    const placeholder = spec.choices ? ` <${spec.choices.join('|')}>` : PLACEHOLDERS[spec.kind];
    const flag = `${flagName(name)}${placeholder}`;
    // No default for the parser: it could not be told from a flag that was given.
    const help = `${spec.help} (default: ${describeDefault(spec)}; ${environmentName(name)})`;
    command.addOption(new Option(flag, help));
  }
}

/** The flags that were given, by option name. */
export function givenFlags(command: Command, table: OptionTable): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const name of Object.keys(table)) {
    const value: unknown = command.getOptionValue(name);
    if (value !== undefined) given[name] = value;
  }
  return given;
}

/** `64 MiB`, `60 s`, `none`. */
export function describeValue(spec: OptionSpec, value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',');
  if (spec.kind === 'size') return formatBytes(Number(value));
  if (spec.kind === 'duration') return `${Number(value) / 1000} s`;
  if (spec.kind === 'boolean') return value === true ? 'on' : 'off';
  if (value === '') return 'none';
  return String(value);
}

function describeDefault(spec: OptionSpec): string {
  return describeValue(spec, spec.default).replace(/^(\d+) ([A-Za-z]+)$/, '$1$2');
}

/** Variables that other commands and the tests of an installation know. */
const OTHER_VARIABLES = /^STEVEDORE_(?:URL|API_KEY|TEST_\w+|BENCH_\w+)$/;

/** Variables with our prefix that no option answers to: most likely mistyped. */
export function unknownVariables(table: OptionTable, environment: NodeJS.ProcessEnv): string[] {
  const known = new Set(Object.keys(table).map(environmentName));
  return Object.keys(environment).filter(
    (name) => name.startsWith('STEVEDORE_') && !known.has(name) && !OTHER_VARIABLES.test(name),
  );
}
