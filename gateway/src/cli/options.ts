import { readFileSync } from 'node:fs';
import { type StoreOptions, storeOptions } from '@stevedore/client/internal';
import {
  environmentName,
  flagName,
  fromEnvironment,
  fromFlags,
  givenJson,
  isServiceLink,
  nearestName,
  type OptionSource,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  option,
  parseOptions,
  type RawOptions,
  typedDefault,
} from '@stevedore/options';
import { storageFlags } from '@stevedore/storage/flags';
import { tierFlags } from '@stevedore/tiering/flags';
import { trackerFlags } from '@stevedore/tracker/flags';
import { type Command, Option } from 'commander';
import {
  CONFIG_FILE,
  gatewayOptions,
  logOption,
  openOptions,
  parseGatewayOptions,
} from '../options.js';
import { UsageError } from './errors.js';

/**
 * Tables of options as flags and help of a command, and their values from the command line, the
 * environment and ./stevedore.config.json.
 */

/** Options of one command alone: flags without environment variables. */
export function flags<Table extends OptionTable>(table: Table): Table {
  const marked = Object.entries(table).map(([name, spec]) => [name, { ...spec, only: 'flag' }]);
  return Object.fromEntries(marked) as Table;
}

export const jsonOption = flags({ json: option.boolean(false, 'print JSON') });

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** Of every command that talks to a gateway. */
export const clientOptions = {
  url: option.text(DEFAULT_URL, 'URL of the gateway', { short: 'u' }),
  apiKey: option.text('', 'API key, if the gateway requires one', { only: 'environment' }),
} satisfies OptionTable;

export const migrateOptions = {
  storage: option.text('127.0.0.1:23000', 'HOST:PORT of the storage', { short: 's' }),
  clusterSecretFile: option.text('', "file with the cluster's secret, if it has one"),
  ...jsonOption,
} satisfies OptionTable;

/** Of both a standalone tracker and a storage. */
export const nodeOptions = {
  clusterSecretFile: option.text(
    '',
    "file with the cluster's secret; of several lines, all are accepted and the first is sent",
    { see: 'OPERATIONS.md#securing-trackers-and-storages' },
  ),
  withoutSecret: option.choice(
    'nothing',
    ['nothing', 'read', 'all'],
    'what a client without the secret may do; all: while you roll it out',
  ),
  ...logOption,
  metrics: option.text(
    '',
    'HOST:PORT for GET /metrics; a port alone is on 127.0.0.1, 0 picks a free one',
  ),
} satisfies OptionTable;

export const trackerOptions = {
  ...trackerFlags,
  ...nodeOptions,
} satisfies OptionTable;

export const storageOptions = {
  ...storageFlags,
  ...tierFlags,
  ...nodeOptions,
} satisfies OptionTable;

export type NodeOptions = typeof nodeOptions;

const PLACEHOLDERS: Readonly<Record<OptionSpec['kind'], string>> = {
  boolean: '',
  duration: ' <duration>',
  integer: ' <number>',
  list: ' <list>',
  port: ' <port>',
  size: ' <size>',
  text: ' <text>',
};

export function addOptions(command: Command, table: OptionTable): Command {
  for (const [name, spec] of Object.entries(table)) {
    if (spec.only === 'environment') {
      command.addHelpText('after', `\nEnvironment:\n  ${environmentName(name)}  ${spec.help}`);
      continue;
    }
    const short = spec.short === undefined ? '' : `-${spec.short}, `;
    const flag = `${short}${flagName(name)}${placeholder(spec)}`;
    // No default in the parser: it could not be distinguished from a given flag.
    command.addOption(new Option(flag, helpOf(name, spec)));
  }
  return command;
}

function placeholder({ kind, default: value, choices }: OptionSpec): string {
  if (choices) return ` <${choices.join('|')}>`;
  // The flag alone would repeat the default.
  return kind === 'boolean' && value === true ? ' [true|false]' : PLACEHOLDERS[kind];
}

function helpOf(name: string, spec: OptionSpec): string {
  const { help, only, kind } = spec;
  if (only !== 'flag') return `${help} (default: ${typedDefault(spec)}; ${environmentName(name)})`;
  return kind === 'boolean' ? help : `${help} (default: ${typedDefault(spec)})`;
}

export function givenFlags(command: Command, table: OptionTable): Record<string, unknown> {
  const given = Object.keys(table).map((name) => [name, command.getOptionValue(name) as unknown]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/** A flag takes precedence over the environment. */
export function optionSources(command: Command, table: OptionTable): readonly OptionSource[] {
  return [fromFlags(givenFlags(command, table)), fromEnvironment(table, process.env)];
}

export function optionsOf<Table extends OptionTable>(
  command: Command,
  table: Table,
): OptionValues<Table> {
  return parseOptions(table, optionSources(command, table));
}

/** A command with these options and this help; `action` gets their values and the arguments. */
export function define<Table extends OptionTable, Arguments extends unknown[]>(
  command: Command,
  table: Table,
  help: string,
  action: (options: OptionValues<Table>, ...args: Arguments) => unknown,
): void {
  addOptions(command, table)
    .addHelpText('after', help)
    .action(async (...given: unknown[]) => {
      // After the arguments, commander passes its own options and the command.
      await action(optionsOf(command, table), ...(given.slice(0, -2) as Arguments));
    });
}

/** Options in ./stevedore.config.json, if it exists: a JSON object by option name. */
export function readConfigFile(path = CONFIG_FILE): RawOptions {
  let value: unknown;
  try {
    value = givenJson(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code, name, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return {};
    if (name !== 'SyntaxError') throw error;
    throw new UsageError(`${path} is not valid JSON: ${message}`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as RawOptions;
  }
  throw new UsageError(`${path} must hold a JSON object of options`);
}

/** One environment may configure a gateway, a storage and `put` at once. */
const TABLES = [
  ...[gatewayOptions, storageOptions, trackerOptions],
  ...[clientOptions, migrateOptions],
];
/** Used by this repository's tests and benchmarks. */
const RESERVED = /^STEVEDORE_(?:TEST|BENCH)_/;

/** A sentence for each variable with our prefix that no command reads: most likely mistyped. */
export function unknownVariables(environment: NodeJS.ProcessEnv): readonly string[] {
  const options = TABLES.flatMap((table: OptionTable) => Object.entries(table));
  const read = options.filter(([, { only }]) => only !== 'flag');
  const known = [...new Set(read.map(([name]) => environmentName(name)))];
  const isUnknown = ([name, value = '']: [string, string | undefined]): boolean =>
    name.startsWith('STEVEDORE_') &&
    value !== '' &&
    !known.includes(name) &&
    !RESERVED.test(name) &&
    !isServiceLink(name, value);
  return Object.entries(environment)
    .filter(isUnknown)
    .map(([name]) => {
      const near = nearestName(name, known);
      const hint =
        near === undefined ? 'unset it, or give it another prefix' : `did you mean ${near}?`;
      return `no command reads ${name}; ${hint}`;
    });
}

/**
 * The options of the gateway that owns the directory, except that the embedded node gets free
 * ports: no other program uses that node, and the usual ports may be taken.
 */
const { trackerPort, storagePort } = storeOptions;
const upkeepOptions = { ...gatewayOptions, trackerPort, storagePort };

export function storeOptionsOf(command: Command): StoreOptions {
  const sources = {
    flags: givenFlags(command, storeOptions),
    environment: process.env,
    file: readConfigFile(),
  };
  return openOptions(parseGatewayOptions(sources, upkeepOptions)) as StoreOptions;
}
