import { resolve } from 'node:path';
import { openSharedDirectory } from '@stevedore/client/internal';
import { type EmbeddedNode, startEmbeddedNode } from '@stevedore/node/embedded';
import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import { tierFlags, tiersOf } from '@stevedore/tiering/flags';
import { startTracker } from '@stevedore/tracker';
import type { Command } from 'commander';
import { readLocalKey } from '../access/local-key.js';
import { announce, type Banner, logFormatOf, type Note, notesIn } from '../observe/log-format.js';
import { seldom } from '../observe/seldom.js';
import { gatewayOptions, logOption } from '../options.js';
import { version } from '../program.js';
import { type Gateway, startGateway } from '../start.js';
import { explain, UsageError } from './errors.js';
import { forgetGateway, noteGateway } from './local-gateway.js';
import { addOptions, flags, optionsOf } from './options.js';
import { stopSignal, untilStopped } from './signals.js';

/**
 * `stevedore cluster`: the whole system on this machine, bound to loopback. A tracker and the
 * gateway run in this thread, and each storage in one of its own. The parts are started in the order in which they need each other, and ended in
 * the opposite one.
 */

const LARGE = 'group3';
/** Small files and their metadata; each group takes load of the other. */
const METADATA_SERVERS = [
  { group: 'group1', shareWith: ['group2'] },
  { group: 'group2', shareWith: ['group1'] },
];
const HOST = '127.0.0.1';
const MAX_PORT = 65_535;
/** Space that uploads leave free for the rest of a small machine. */
const RESERVED_SPACE_MEGABYTES = 64;

const clusterOptions = {
  ...flags({
    directory: option.text('./stevedore-cluster', 'directory of all files'),
    port: option.port(0, 'port of the gateway; 0 picks a free one'),
    trackerPort: option.port(0, 'port of the tracker; 0 picks a free one'),
    storagePort: option.port(
      0,
      'port of the first storage, the others have the next two; 0 picks free ones',
    ),
  }),
  ...flags({
    cacheSize: option.size(
      '64MiB',
      'memory for the cache of the gateway, and of each storage; 0 disables them',
    ),
    slowDisk: option.duration(
      0,
      'a model of a hard disk for each storage, with this time for seek and rotation; 0 uses the disk as it is',
    ),
  }),
  metadataTierSize: tierFlags.metadataTierSize,
  smallFileShare: tierFlags.smallFileShare,
  smallFileThreshold: tierFlags.smallFileThreshold,
  bandwidth: tierFlags.bandwidth,
  moveRate: tierFlags.moveRate,
  logLevel: gatewayOptions.logLevel,
  ...logOption,
} satisfies OptionTable;

type ClusterOptions = OptionValues<typeof clusterOptions>;

const HELP = `
Two metadata servers, group1 and group2, keep small files as rows beside their metadata and share
load. What outgrows its row, and what neither has space for, moves to group3. Trunks of the gateway
go to all three in turn. The console shows load, forecast, threshold and moves of each.

Examples:
  stevedore cluster
  stevedore cluster --slow-disk 8ms --cache-size 0    on modelled hard disks, which are soon busy`;

export function configure(command: Command): void {
  addOptions(command, clusterOptions)
    .addHelpText('after', HELP)
    .action(async () => {
      const options = optionsOf(command, clusterOptions);
      if (options.storagePort > MAX_PORT - METADATA_SERVERS.length) {
        throw new UsageError('--storage-port leaves no ports for the other storages');
      }
      const format = logFormatOf(options.log);
      const note = notesIn(format);
      const stopped = stopSignal(note);
      const cluster = await start(options, note);
      const { gateway } = cluster;
      const ready = async (): Promise<void> => {
        await noteGateway(gateway.url, gateway.options);
        announce(format, await bannerOf(options, cluster));
      };
      const close = async (): Promise<void> => {
        await forgetGateway(gateway.url);
        await cluster.close();
      };
      await untilStopped(stopped, { announce: ready, close }, note);
    });
}

interface Cluster {
  readonly tracker: string;
  /** Of the metadata servers and, at the end, of the group for large files. */
  readonly storages: readonly EmbeddedNode[];
  readonly gateway: Gateway;
  close(): Promise<void>;
}

async function start(options: ClusterOptions, note: Note): Promise<Cluster> {
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const each of closers.splice(0).reverse()) await each();
  };
  const onError = seldom(explain, (text) => note('error', text));
  try {
    const { port, close: closeTracker } = await startTracker({
      host: HOST,
      port: options.trackerPort,
      reservedSpaceMegabytes: RESERVED_SPACE_MEGABYTES,
      onError,
    });
    closers.push(closeTracker);
    const tracker = `${HOST}:${port}`;
    // No other cluster starts in this directory.
    const { directory } = options;
    const lock = await openSharedDirectory({ directory, trackers: [tracker] }, onError);
    closers.push(lock.close);
    const storages: EmbeddedNode[] = [];
    for (const [index, { group, ...tiers }] of storagesOf(options).entries()) {
      const storage = await startEmbeddedNode({
        host: HOST,
        storagePort: options.storagePort === 0 ? 0 : options.storagePort + index,
        directory: resolve(directory, group),
        trackers: [tracker],
        group,
        tiers,
        cacheBytes: options.cacheSize,
        slowDiskMs: options.slowDisk,
        onError,
      });
      closers.push(storage.close);
      storages.push(storage);
    }
    const { logLevel, log, port: gatewayPort } = options;
    const gateway = await startGateway({
      host: HOST,
      port: gatewayPort,
      directory: resolve(directory, 'gateway'),
      trackers: [tracker],
      cacheSize: options.cacheSize,
      logLevel,
      log,
    });
    closers.push(() => gateway.leave().then(gateway.close));
    return { tracker, storages, gateway, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The group of each storage, and its tiers. */
function storagesOf(options: ClusterOptions) {
  const servers = METADATA_SERVERS.map(({ group, shareWith }) => ({
    group,
    ...tiersOf({ ...options, metadataTier: true, moveTo: LARGE, shareWith }),
  }));
  return [...servers, { group: LARGE }];
}

async function bannerOf(
  { directory }: ClusterOptions,
  { tracker, storages, gateway: { url, options } }: Cluster,
): Promise<Banner> {
  const groups = [...METADATA_SERVERS.map(({ group }) => group), LARGE];
  const addresses = storages.map(({ storagePort }) => `${HOST}:${storagePort}`);
  const localKey = await readLocalKey(options.directory);
  return {
    title: `stevedore ${version()} cluster`,
    rows: [
      ['files', resolve(directory)],
      ['tracker', tracker],
      ...groups.map((group, index) => [group, addresses[index] ?? ''] as const),
      ['moves', `group1 and group2 share load; what outgrows them goes to ${LARGE}`],
      ['watch', `stevedore migrate status --storage ${addresses[0]}`],
    ],
    secretRows: localKey === undefined ? [] : [['console', `${url}/#key=${localKey}`]],
    address: url,
  };
}
