import { presignedUpload, signedDownload } from '@stevedore/middleware/core';
import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import { parseGatewayOptions } from '../options.js';
import { UsageError } from './errors.js';
import { addOptions, clientOptions, flags, optionsOf, readConfigFile } from './options.js';

/** `stevedore sign`: a URL for one download or one upload, signed with the gateway's secret. */

const HELP = `
Examples:
  stevedore sign KEY --expires-in 1h
  stevedore sign group1/M00/00/00/....jpg --download
  stevedore sign --upload --max-size 5MiB --type 'image/*'

The secret is the first of urlSecret, from STEVEDORE_URL_SECRET or the configuration file.`;

const signOptions = {
  url: clientOptions.url,
  ...flags({
    expiresIn: option.duration('1h', 'how long the URL is valid', { minimum: '1s' }),
    download: option.boolean(false, 'the browser keeps the file instead of showing it'),
    upload: option.boolean(false, 'a URL for an upload instead'),
    policy: option.text('', 'upload: to this policy of the gateway'),
    maxSize: option.size(0, 'upload: no longer than this; 0: as the gateway takes it'),
    type: option.text('', 'upload: of this media type only, like image/*'),
    group: option.text('', 'upload: affinity group'),
    ttl: option.duration(0, 'upload: how long the file lives; 0: for ever'),
    reusable: option.boolean(false, 'upload: any number of files instead of one'),
  }),
} satisfies OptionTable;

export function configure(command: Command): void {
  addOptions(command, signOptions)
    .argument('[id]', 'key or FastDFS id of the file to download')
    .addHelpText('after', HELP)
    .action((id: string | undefined) => {
      const options = optionsOf(command, signOptions);
      process.stdout.write(`${options.url.replace(/\/+$/, '')}${pathOf(id, options)}\n`);
    });
}

function pathOf(id: string | undefined, options: OptionValues<typeof signOptions>): string {
  const { upload, download, expiresIn, maxSize, ttl, type, group, policy, reusable } = options;
  if (upload && id !== undefined)
    throw new UsageError('an upload takes no file id: a new file has none yet');
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
  if (id === undefined) throw new UsageError('name a file, or --upload for an upload');
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
