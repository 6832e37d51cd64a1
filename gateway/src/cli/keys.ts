import { stat } from 'node:fs/promises';
import { fromFlags, type OptionSpec, parseOptions } from '@stevedore/options';
import type { Command } from 'commander';
import {
  type ApiKey,
  makeApiKey,
  readKeyFile,
  SCOPES,
  type Scope,
  writeKeyFile,
} from '../access/api-keys.js';
import { readConfigFile } from './config-file.js';
import { UsageError } from './usage.js';

/** `stevedore keys`: API keys in the file that the gateway's `apiKeys` names. */

const DEFAULT_FILE = './stevedore-keys.json';

const HELP = `
Examples:
  stevedore keys add shop --scopes write,read      prints the new key, this one time
  stevedore keys list
  stevedore keys revoke Zk3wQ9xTb0aL               by its id, or by its name

A gateway that runs with --api-keys FILE takes the change within a second. To replace a
key, add a new one, hand it over, and revoke the old one.`;

interface Flags {
  readonly file?: string;
  readonly scopes?: string;
  readonly expiresIn?: string;
  readonly requestsPerSecond?: string;
  readonly bytesPerDay?: string;
}

export function configure(command: Command): void {
  command
    .argument('<action>', 'add, list or revoke')
    .argument('[name]', 'of the new key; id or name of the one to revoke')
    .option(
      '--file <path>',
      `file of keys (default: apiKeys of the configuration, or ${DEFAULT_FILE})`,
    )
    .option('--scopes <list>', 'what the key may do: read, write, delete (default: all)')
    .option('--expires-in <duration>', 'when it ends (default: never)')
    .option('--requests-per-second <number>', 'how often it may be used (default: no limit)')
    .option('--bytes-per-day <size>', 'what it may upload in a day of UTC (default: no limit)')
    .addHelpText('after', HELP)
    .action(async (action: string, name: string | undefined, flags: Flags) => {
      const path = flags.file ?? configuredFile();
      if (action === 'add') await add(path, name, flags);
      else if (action === 'list') await list(path);
      else if (action === 'revoke') await revoke(path, name);
      else throw new UsageError(`"${action}" is not one of add, list, revoke`);
    });
}

function configuredFile(): string {
  const configured = process.env.STEVEDORE_API_KEYS ?? readConfigFile().apiKeys;
  return typeof configured === 'string' && configured !== '' ? configured : DEFAULT_FILE;
}

async function add(path: string, name: string | undefined, flags: Flags): Promise<void> {
  if (name === undefined) throw new UsageError('a name is needed: whose key is it?');
  const limits = parseLimits(flags);
  const now = new Date();
  const { key, text } = makeApiKey(
    {
      name,
      scopes: parseScopes(flags.scopes),
      ...(limits.expiresIn === 0
        ? {}
        : { expiresAt: new Date(now.getTime() + limits.expiresIn).toISOString() }),
      ...(limits.requestsPerSecond === 0 ? {} : { requestsPerSecond: limits.requestsPerSecond }),
      ...(limits.bytesPerDay === 0 ? {} : { bytesPerDay: limits.bytesPerDay }),
    },
    now,
  );
  await writeKeyFile(path, [...(await readKeyFile(path)), key]);
  process.stderr.write(`${path}: ${key.id} for ${name}. The key is shown this one time:\n`);
  process.stdout.write(`${text}\n`);
}

async function list(path: string): Promise<void> {
  // A file that is not there has no keys either, but may be the wrong one.
  await stat(path);
  for (const key of await readKeyFile(path)) process.stdout.write(`${describe(key)}\n`);
}

function describe({ id, name, scopes, createdAt, expiresAt, ...limits }: ApiKey): string {
  const { requestsPerSecond, bytesPerDay } = limits;
  return [
    id,
    name,
    scopes.join(','),
    `since ${createdAt}`,
    ...(expiresAt === undefined ? [] : [`until ${expiresAt}`]),
    ...(requestsPerSecond === undefined ? [] : [`${requestsPerSecond} requests/s`]),
    ...(bytesPerDay === undefined ? [] : [`${bytesPerDay} bytes/day`]),
  ].join('  ');
}

async function revoke(path: string, which: string | undefined): Promise<void> {
  if (which === undefined) throw new UsageError('which key? stevedore keys list shows them');
  const keys = await readKeyFile(path);
  const named = keys.filter(({ id }) => id === which);
  const found = named.length > 0 ? named : keys.filter(({ name }) => name === which);
  if (found.length === 0) throw new UsageError(`${path} has no key "${which}"`);
  if (found.length > 1) {
    throw new UsageError(`"${which}" has ${found.length} keys; revoke them by their ids`);
  }
  await writeKeyFile(
    path,
    keys.filter((key) => key !== found[0]),
  );
  process.stderr.write(`${found[0]!.id} of ${found[0]!.name} is revoked\n`);
}

function parseScopes(text: string | undefined): readonly Scope[] {
  if (text === undefined) return SCOPES;
  const scopes = text.split(',').map((scope) => scope.trim());
  const wrong = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (wrong !== undefined) throw new UsageError(`"${wrong}" is not one of ${SCOPES.join(', ')}`);
  return scopes as Scope[];
}

const limitOptions = {
  expiresIn: { kind: 'duration', default: 0, help: '' } as OptionSpec<number>,
  requestsPerSecond: { kind: 'integer', default: 0, help: '' } as OptionSpec<number>,
  bytesPerDay: { kind: 'size', default: 0, help: '' } as OptionSpec<number>,
};

function parseLimits({ expiresIn, requestsPerSecond, bytesPerDay }: Flags) {
  return parseOptions(limitOptions, [fromFlags({ expiresIn, requestsPerSecond, bytesPerDay })]);
}
