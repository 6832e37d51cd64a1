import { stat } from 'node:fs/promises';
import { presignedUpload, signedDownload } from '@stevedore/middleware/core';
import { givenText, type OptionTable, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import {
  type ApiKey,
  changeKeyFile,
  keyFacts,
  keyOptions,
  makeApiKey,
  readKeyFile,
} from '../access/api-keys.js';
import { parseGatewayOptions } from '../options.js';
import { UsageError } from './errors.js';
import { clientOptions, define, flags, readConfigFile } from './options.js';

/** `stevedore keys`: API keys in the file that the gateway's `apiKeys` names. */

const DEFAULT_FILE = './stevedore-keys.json';

const KEYS_HELP = `
Examples:
  stevedore keys add shop --scopes write,read      prints the new key, this one time
  stevedore keys list
  stevedore keys revoke Zk3wQ9xTb0aL               by its id, or by its name

A gateway that runs with --api-keys FILE takes the change within a second. To replace a
key, add a new one, hand it over, and revoke the old one.`;

const keysOptions = flags({
  file: option.text('', `file of API keys; none: the configured apiKeys, or ${DEFAULT_FILE}`),
  ...keyOptions,
} satisfies OptionTable);

export function keys(command: Command): void {
  command
    .argument('<action>', 'add, list or revoke')
    .argument('[name]', 'name of the new key; id or name of the key to revoke');
  define(command, keysOptions, KEYS_HELP, async (options, action: string, name?: string) => {
    const path = options.file === '' ? configuredFile() : options.file;
    if (action === 'add') await add(path, name, options);
    else if (action === 'list') await list(path);
    else if (action === 'revoke') await revoke(path, name);
    else throw new UsageError(`"${action}" is not one of add, list, revoke`);
  });
}

function configuredFile(): string {
  const configured = process.env.STEVEDORE_API_KEYS ?? readConfigFile().apiKeys;
  return (typeof configured === 'string' && givenText(configured)) || DEFAULT_FILE;
}

async function add(
  path: string,
  name: string | undefined,
  options: OptionValues<typeof keysOptions>,
): Promise<void> {
  if (name === undefined) throw new UsageError('name the new key');
  const now = new Date();
  const { key, text } = makeApiKey({ name, ...keyFacts(options, now) }, now);
  await changeKeyFile(path, (keys) => [...keys, key]);
  process.stderr.write(`${path}: ${key.id} for ${name}. The key is shown only once:\n`);
  process.stdout.write(`${text}\n`);
}

async function list(path: string): Promise<void> {
  // A missing file has no keys either, but its name may be wrong.
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
  if (which === undefined) throw new UsageError('name a key; stevedore keys list shows them');
  let revoked: ApiKey | undefined;
  await changeKeyFile(path, (keys) => {
    revoked = keyNamed(keys, which, path);
    return keys.filter((each) => each !== revoked);
  });
  process.stderr.write(`${revoked?.id} of ${revoked?.name} is revoked\n`);
}

function keyNamed(keys: readonly ApiKey[], which: string, path: string): ApiKey {
  const named = keys.filter(({ id }) => id === which);
  const found = named.length > 0 ? named : keys.filter(({ name }) => name === which);
  const [key] = found;
  if (!key) throw new UsageError(`${path} has no key "${which}"`);
  if (found.length > 1) {
    throw new UsageError(`"${which}" has ${found.length} keys; revoke them by their ids`);
  }
  return key;
}

/** `stevedore sign`: a URL for one download or one upload, signed with the gateway's secret. */

const SIGN_HELP = `
Examples:
  stevedore sign KEY --expires-in 1h
  stevedore sign group1/M00/00/00/....jpg --download
  stevedore sign --upload --max-size 5MiB --type 'image/*'

The secret is the first of urlSecret, from STEVEDORE_URL_SECRET or the configuration file.`;

const signOptions = {
  url: clientOptions.url,
  ...flags({
    expiresIn: option.duration('1h', 'how long the URL is valid', { minimum: '1s' }),
    download: option.boolean(false, 'make the browser save the file instead of showing it'),
    upload: option.boolean(false, 'sign an upload instead of a download'),
    policy: option.text('', 'upload: to this policy of the gateway'),
    maxSize: option.size(0, 'upload: no longer than this; 0: as the gateway takes it'),
    type: option.text('', 'upload: of this media type only, like image/*'),
    group: option.text('', 'upload: affinity group'),
    ttl: option.duration(0, 'upload: how long the file lives; 0: for ever'),
    reusable: option.boolean(false, 'upload: any number of files instead of one'),
  }),
} satisfies OptionTable;

export function sign(command: Command): void {
  command.argument('[id]', 'key or FastDFS id of the file to download');
  define(command, signOptions, SIGN_HELP, (options, id: string | undefined) => {
    process.stdout.write(`${options.url.replace(/\/+$/, '')}${pathOf(id, options)}\n`);
  });
}

function pathOf(id: string | undefined, options: OptionValues<typeof signOptions>): string {
  const { upload, download, expiresIn, maxSize, ttl, type, group, policy, reusable } = options;
  if (upload && id !== undefined)
    throw new UsageError('--upload takes no file id: a new file has none yet');
  const expiresAt = new Date(Date.now() + expiresIn);
  if (upload) {
    return presignedUpload(secret(), expiresAt, {
      ...(maxSize === 0 ? {} : { maxBytes: maxSize }),
      ...(ttl === 0 ? {} : { ttlSeconds: Math.ceil(ttl / 1000) }),
      ...(type === '' ? {} : { type }),
      ...(group === '' ? {} : { group }),
      ...(policy === '' ? {} : { policy }),
      reusable,
    });
  }
  if (id === undefined) throw new UsageError('name a file, or use --upload');
  return signedDownload(secret(), id, expiresAt, download ? { download: '1' } : {});
}

function secret(): string {
  const { urlSecret } = parseGatewayOptions({
    environment: process.env,
    file: readConfigFile(),
  });
  const [first] = urlSecret;
  if (first !== undefined) return first;
  throw new UsageError('no urlSecret: set STEVEDORE_URL_SECRET to the secret of the gateway');
}
