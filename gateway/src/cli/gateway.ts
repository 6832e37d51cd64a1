import { resolve } from 'node:path';
import { maxFormBytes } from '@stevedore/middleware/core';
import { environmentName, formatBytes } from '@stevedore/options';
import type { Command } from 'commander';
import type { Limits } from '../options.js';
import {
  CONFIG_FILE,
  type GatewayOptions,
  gatewayOptions,
  parseGatewayOptions,
} from '../options.js';
import type { Gateway } from '../start.js';
import { version } from '../version.js';
import { addOptions, givenFlags, readConfigFile } from './options.js';
import { stopSignal, untilStopped } from './until-stopped.js';

/** `stevedore gateway`: the whole product in one process, until a signal ends it. */

const HELP = `
Sizes are written 64MiB, durations 60s. Every option can also be set in the environment,
by the name in brackets, or in ./${CONFIG_FILE}, by its name in camel case. A flag
goes before the environment, the environment before the file.

Examples:
  stevedore gateway --directory /var/lib/stevedore
  stevedore gateway --trackers 10.0.0.1:22122,10.0.0.2:22122 --host 0.0.0.0
  ${environmentName('port')}=9000 stevedore gateway --merge-max-age 10s`;

export function configure(command: Command): void {
  addOptions(command, gatewayOptions).addHelpText('after', HELP);
  command.action(async () => {
    const options = parseGatewayOptions({
      flags: givenFlags(command, gatewayOptions),
      environment: process.env,
      file: readConfigFile(),
    });
    const stopped = stopSignal();
    const { startGateway } = await import('../start.js');
    const gateway = await startGateway(options);
    process.stdout.write(`${describe(gateway)}\nready ${gateway.url}\n`);
    const refused = new Promise<Error>((resolve) => gateway.store.once('refused', resolve));
    const error = await Promise.race([refused, stopped]);
    if (error instanceof Error) {
      await gateway.close();
      throw error;
    }
    await untilStopped(stopped, () => gateway.close());
  });
}

/** What runs, where, and within which bounds. */
function describe({ options, limits, store }: Gateway): string {
  const rows: readonly (readonly [string, string])[] = [
    ['files', `${resolve(options.directory)}, ${describeDurability(options)}`],
    ['FastDFS', describeCluster(options, store.trackers)],
    ...(options.map === '' ? [] : [['map', describeMap(options)] as const]),
    ['trunks', describeTrunks(options)],
    ['room', describeRoom(options)],
    ['limits', describeLimits(limits)],
    ['access', describeAccess(options)],
  ];
  const lines = rows.map(([name, text]) => `  ${name.padEnd(8)} ${text}`);
  return [`stevedore ${version()}`, ...lines].join('\n');
}

/** Without its password. */
function describeMap({ map, peerUrl: url }: GatewayOptions): string {
  const shown = map.replace(/\/\/[^@/]*@/, '//');
  return `${shown}; ${url === '' ? 'only merged files are read at other servers' : `other servers reach this one at ${url}`}`;
}

function describeDurability({ durability }: GatewayOptions): string {
  return durability === 'sync'
    ? 'synced before an upload is acknowledged'
    : 'handed to the operating system before an upload is acknowledged (durability: os)';
}

function describeCluster({ trackers }: GatewayOptions, inUse: readonly string[]): string {
  const addresses = inUse.join(', ');
  return trackers.length > 0 ? `trackers ${addresses}` : `embedded, tracker ${addresses}`;
}

function describeTrunks({ trunkSize, mergeMaxAge, smallFileLimit }: GatewayOptions): string {
  const size = formatBytes(trunkSize);
  const whole = formatBytes(smallFileLimit);
  return `${size}, packed after ${mergeMaxAge / 1000} s at the latest; files over ${whole} whole`;
}

function describeRoom({ containerSize, retain, cacheSize }: GatewayOptions): string {
  const cache = cacheSize === 0 ? 'no cache' : `${formatBytes(cacheSize)} of memory as a cache`;
  const kept = `${formatBytes(retain)} of merged ones kept`;
  return `${formatBytes(containerSize)} for staged files, ${kept}, ${cache}`;
}

function describeLimits(limits: Limits): string {
  return [
    `files ${formatBytes(limits.maxFileBytes)}`,
    `forms ${formatBytes(maxFormBytes(limits))} in ${limits.maxParts} parts`,
    `bodies ${formatBytes(limits.minBodyBytesPerSecond)}/s at least`,
    `${limits.maxConnections} connections`,
  ].join(', ');
}

function describeAccess(options: GatewayOptions): string {
  const { host, serveTrunks, apiKeys, urlSecret, antiLeechSecret } = options;
  const parts = [
    apiKeys === ''
      ? `anyone who reaches ${host} may upload and delete`
      : `uploads and deletes need a key of ${apiKeys}`,
    urlSecret.length === 0
      ? 'anyone who knows the key of a file may read it'
      : 'reads need a signed URL or an API key',
    ...(antiLeechSecret === '' ? [] : ['FastDFS paths need their token']),
    ...(serveTrunks ? ['whole trunks are served too'] : []),
  ];
  return parts.join('; ');
}
