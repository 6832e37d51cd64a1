import {
  environmentName,
  flagName,
  formatBytes,
  type OptionSpec,
  type OptionTable,
} from '@stevedore/options';
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
    const flag = `${flagName(name)}${placeholder(spec)}`;
    // No default for the parser: it could not be told from a flag that was given.
    const help = `${spec.help} (default: ${describeDefault(spec)}; ${environmentName(name)})`;
    command.addOption(new Option(flag, help));
  }
}

function placeholder(spec: OptionSpec): string {
  if (spec.choices) return ` <${spec.choices.join('|')}>`;
  // The flag alone would say what is so anyway.
  if (spec.kind === 'boolean' && spec.default === true) return ' [true|false]';
  return PLACEHOLDERS[spec.kind];
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

/** As it would be typed: `64MiB`, `60s`, `none`. */
function describeDefault({ kind, default: value }: OptionSpec): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',');
  if (kind === 'size') return formatBytes(Number(value)).replace(' ', '');
  if (kind === 'duration') return Number(value) < 1000 ? `${value}ms` : `${Number(value) / 1000}s`;
  if (kind === 'boolean') return value === true ? 'on' : 'off';
  return value === '' ? 'none' : String(value);
}
