import { resolve } from 'node:path';
import { otherWorkers } from '@stevedore/client/internal';
import { maxFormBytes } from '@stevedore/middleware/core';
import { environmentName, formatBytes } from '@stevedore/options';
import type { Command } from 'commander';
import { readLocalKey } from '../access/local-key.js';
import { announce, type Banner, logFormatOf, notesIn } from '../observe/log-format.js';
import {
  CONFIG_FILE,
  type GatewayOptions,
  gatewayOptions,
  type Limits,
  limitsOf,
  parseGatewayOptions,
} from '../options.js';
import { version } from '../program.js';
import { workerCount } from '../workers/plan.js';
import type { RunningGateway } from '../workers/primary.js';
import { noteGateway } from './local-gateway.js';
import { addOptions, givenFlags, readConfigFile } from './options.js';
import { stopSignal, untilStopped } from './signals.js';

/** `stevedore gateway`: runs the whole product in one process or several, until a signal. */

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
    const format = logFormatOf(options.log);
    const note = notesIn(format);
    const stopped = stopSignal(note);
    const gateway = await startWith(options);
    const ready = async (): Promise<void> => {
      // A port that the system has picked is another one at the next start.
      if (options.port !== 0) await noteGateway(gateway.url, options);
      announce(format, bannerOf(options, gateway, await readLocalKey(options.directory)));
    };
    await untilStopped(stopped, { ...gateway, announce: ready }, note);
  });
}

/** In this process, or in several. */
async function startWith(options: GatewayOptions): Promise<RunningGateway> {
  const workers = workerCount(options.workers);
  // The workers divide the files that additional workers of an earlier start have left.
  if (workers > 1 || (await otherWorkers(options.directory)).length > 0) {
    const { startWorkers } = await import('../workers/primary.js');
    return startWorkers(options, workers);
  }
  const { startGateway } = await import('../start.js');
  const { url, store, leave, close } = await startGateway(options);
  const refused = new Promise<Error>((resolve) => store.once('refused', resolve));
  return { url, trackers: store.trackers, refused, close: () => leave().then(close) };
}

const DURABILITY = {
  sync: 'synced before an upload is acknowledged',
  os: 'handed to the operating system before an upload is acknowledged (durability: os)',
};

/** What runs, where, and its limits. */
function bannerOf(
  options: GatewayOptions,
  { url, trackers }: RunningGateway,
  localKey: string | undefined,
): Banner {
  const workers = workerCount(options.workers);
  const embedded = options.trackers.length > 0 ? '' : 'embedded, ';
  const rows: Banner['rows'] = [
    ['files', `${resolve(options.directory)}, ${DURABILITY[options.durability]}`],
    ...(workers > 1 ? [['workers', `${workers} processes`] as const] : []),
    ['FastDFS', `${embedded}tracker ${trackers.join(', ')}`],
    ...(options.map === '' ? [] : [['map', describeMap(options)] as const]),
    ['trunks', describeTrunks(options)],
    ['room', describeRoom(options)],
    ['limits', describeLimits(limitsOf(options))],
    ['access', describeAccess(options)],
  ];
  return {
    title: `stevedore ${version()}`,
    rows,
    secretRows: localKey === undefined ? [] : [['console', `${url}/#key=${localKey}`]],
    address: url,
  };
}

/** Without the password. */
function describeMap({ map, peerUrl: url }: GatewayOptions): string {
  const shown = map.replace(/\/\/[^@/]*@/, '//');
  return `${shown}; ${url === '' ? 'other servers can read only merged files' : `other servers reach this one at ${url}`}`;
}

function describeTrunks({ trunkSize, mergeMaxAge, smallFileLimit }: GatewayOptions): string {
  const size = formatBytes(trunkSize);
  const whole = formatBytes(smallFileLimit);
  return `${size}, packed after ${mergeMaxAge / 1000} s at the latest; files over ${whole} whole`;
}

function describeRoom({ containerSize, retain, cacheSize }: GatewayOptions): string {
  const cache = cacheSize === 0 ? 'no cache' : `${formatBytes(cacheSize)} of memory for the cache`;
  const kept = `${formatBytes(retain)} for read copies`;
  return `${formatBytes(containerSize)} for staged files, ${kept}, ${cache}`;
}

function describeLimits(limits: Limits): string {
  return [
    `files ${formatBytes(limits.maxFileBytes)}`,
    `forms ${formatBytes(maxFormBytes(limits))} in ${limits.maxParts} parts`,
    `bodies at least ${formatBytes(limits.minBodyBytesPerSecond)}/s`,
    `${limits.maxConnections} connections`,
  ].join(', ');
}

function describeAccess(options: GatewayOptions): string {
  const { host, serveTrunks, apiKeys, urlSecret, antiLeechSecret } = options;
  const parts = [
    apiKeys === ''
      ? `anyone who reaches ${host} can upload and delete`
      : `uploads and deletes need a key of ${apiKeys}`,
    urlSecret.length === 0
      ? 'anyone who knows the key of a file can read it'
      : 'reads need a signed URL or an API key',
    ...(antiLeechSecret === '' ? [] : ['FastDFS paths need a token']),
    ...(serveTrunks ? ['whole trunks are served too'] : []),
  ];
  return parts.join('; ');
}
