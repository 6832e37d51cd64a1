import { presignedUpload, signedDownload } from '@stevedore/middleware/core';
import { fromFlags, type OptionSpec, parseOptions } from '@stevedore/options';
import type { Command } from 'commander';
import { parseGatewayOptions } from '../options.js';
import { readConfigFile } from './config-file.js';
import { addUrlOption } from './url-option.js';
import { UsageError } from './usage.js';

/** `stevedore sign`: a URL for one download or one upload, signed with the gateway's secret. */

const HELP = `
Examples:
  stevedore sign KEY --expires-in 1h
  stevedore sign group1/M00/00/00/....jpg --download
  stevedore sign --upload --max-size 5MiB --type 'image/*'

The secret is the first of urlSecret, from STEVEDORE_URL_SECRET or the configuration file.`;

interface Flags {
  readonly upload?: boolean;
  readonly policy?: string;
  readonly expiresIn?: string;
  readonly maxSize?: string;
  readonly type?: string;
  readonly group?: string;
  readonly ttl?: string;
  readonly reusable?: boolean;
  readonly download?: boolean;
  readonly url: string;
}

const numberOptions = {
  expiresIn: {
    kind: 'duration',
    default: 3_600_000,
    minimum: 1000,
    help: '',
  } as OptionSpec<number>,
  maxSize: { kind: 'size', default: 0, help: '' } as OptionSpec<number>,
  ttl: { kind: 'duration', default: 0, help: '' } as OptionSpec<number>,
};

export function configure(command: Command): void {
  addUrlOption(command)
    .argument('[id]', 'key or FastDFS id of the file to download')
    .option('--expires-in <duration>', 'how long the URL is valid (default: 1h)')
    .option('--download', 'the browser keeps the file instead of showing it')
    .option('--upload', 'a URL for an upload instead')
    .option('--policy <name>', 'upload: to this policy of the gateway')
    .option('--max-size <size>', 'upload: no longer than this')
    .option('--type <type>', 'upload: of this media type only, like image/*')
    .option('--group <name>', 'upload: affinity group')
    .option('--ttl <duration>', 'upload: how long the file lives')
    .option('--reusable', 'upload: any number of files instead of one')
    .addHelpText('after', HELP)
    .action((id: string | undefined, flags: Flags) => {
      const path = flags.upload ? uploadUrl(id, flags) : downloadUrl(id, flags);
      process.stdout.write(`${flags.url.replace(/\/+$/, '')}${path}\n`);
    });
}

function downloadUrl(id: string | undefined, flags: Flags): string {
  if (id === undefined) throw new UsageError('which file? or --upload for an upload');
  const { expiresAt } = parseNumbers(flags);
  return signedDownload(secret(), id, expiresAt, flags.download ? { download: '1' } : {});
}

function uploadUrl(id: string | undefined, flags: Flags): string {
  if (id !== undefined) throw new UsageError('a new file has no key yet');
  const { expiresAt, maxSize, ttl } = parseNumbers(flags);
  const { type, group, policy, reusable } = flags;
  return presignedUpload(secret(), expiresAt, {
    ...(maxSize === 0 ? {} : { maxBytes: maxSize }),
    ...(ttl === 0 ? {} : { ttlSeconds: Math.ceil(ttl / 1000) }),
    ...(type === undefined ? {} : { type }),
    ...(group === undefined ? {} : { group }),
    ...(policy === undefined ? {} : { policy }),
    ...(reusable ? { reusable } : {}),
  });
}

function parseNumbers({ expiresIn, maxSize, ttl }: Flags) {
  const numbers = parseOptions(numberOptions, [fromFlags({ expiresIn, maxSize, ttl })]);
  return { ...numbers, expiresAt: new Date(Date.now() + numbers.expiresIn) };
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
