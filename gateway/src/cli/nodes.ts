import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { DirectoryLock, readClusterSecrets } from '@stevedore/client/internal';
import {
  flagName,
  formatBytes,
  type OptionTable,
  type OptionValues,
  parseOptions,
} from '@stevedore/options';
import type { MigrationAction } from '@stevedore/protocol';
import { addressText, isError } from '@stevedore/protocol';
import type { ClassStatus, MigrationStatus } from '@stevedore/tiering/control';
import { tiersOf } from '@stevedore/tiering/flags';
import { type AccessOptions, StartError } from '@stevedore/wire';
import type { Command } from 'commander';
import { announce, type Banner, logFormatOf, notesIn } from '../observe/log-format.js';
import type { MetricsText } from '../observe/node-metrics.js';
import { seldom } from '../observe/seldom.js';
import { version } from '../program.js';
import { explain, UsageError } from './errors.js';
import {
  addOptions,
  define,
  migrateOptions,
  type NodeOptions,
  optionSources,
  storageOptions,
  trackerOptions,
} from './options.js';
import { stopSignal, untilStopped } from './signals.js';

/** `stevedore tracker` and `stevedore storage`: run FastDFS's daemons until a signal. */

interface Daemon {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

interface Kind<Table extends OptionTable, Started extends Daemon> {
  readonly table: Table;
  /** In addition to its address. */
  readonly describe: (options: OptionValues<Table>) => Banner['rows'];
  readonly start: (
    options: OptionValues<Table>,
    access: AccessOptions,
    onError: (error: Error) => void,
  ) => Promise<Started>;
  readonly metrics: (daemon: Started) => Promise<MetricsText>;
}

/** Lists storages and directs clients to them. */
export function tracker(command: Command): void {
  configure(command, {
    table: trackerOptions,
    describe: () => [],
    start: async ({ addressWidth, withoutSecret: _, ...options }, access, onError) => {
      const { startTracker } = await import('@stevedore/tracker');
      const width = addressWidth === 'auto' ? {} : { addressWidth };
      return startTracker({ ...options, ...width, ...access, onError });
    },
    metrics: async (daemon) => (await import('../observe/node-metrics.js')).trackerMetrics(daemon),
  });
}

/** Stores files, for the trackers it joins and for clients that connect directly. */
export function storage(command: Command): void {
  configure(command, {
    table: storageOptions,
    describe: ({ group, trackers, storePaths }) => {
      const paths = storePaths.map((path) => resolve(path)).join(', ');
      const joined = trackers.length === 0 ? 'none' : trackers.join(', ');
      return [
        ['group', `${group} in ${paths}`],
        ['trackers', joined],
      ];
    },
    start: async ({ withoutSecret: _, ...options }, access, onError) => {
      const { startStorage } = await import('@stevedore/node');
      return startStorage({
        ...options,
        ...access,
        beforeOpen: (storePaths) => lockAll(storePaths, onError),
        beatIntervalMs: options.heartbeat,
        cacheBytes: options.cacheSize,
        readAheadBytes: options.readAhead,
        tiers: tiersOf(options),
        onError,
      });
    },
    metrics: async (daemon) => (await import('../observe/node-metrics.js')).storageMetrics(daemon),
  });
}

function configure<Table extends NodeOptions, Started extends Daemon>(
  command: Command,
  { table, describe, start, metrics }: Kind<Table, Started>,
): void {
  addOptions(command, table).action(async () => {
    let nameOf = flagName;
    const options = parseOptions(table, optionSources(command, table), (_options, names) => {
      nameOf = names;
      return [];
    });
    const address = metricsAddress(options.metrics as string);
    const access = await accessOf(options as OptionValues<NodeOptions>);
    const format = logFormatOf(options.log as OptionValues<NodeOptions>['log']);
    const note = notesIn(format);
    const stopped = stopSignal(note);
    const onError = seldom(explain, (text) => note('error', text));
    const starting = start(options, access, onError);
    const daemon = await starting.catch((error: unknown) => {
      throw asTyped(error, table, nameOf);
    });
    const text = address && (await metrics(daemon));
    const server =
      text &&
      (await startMetricsServer(address, text).catch(async (error: unknown) => {
        await daemon.close();
        throw error;
      }));
    const ready = (): void =>
      announce(format, {
        title: `stevedore ${version()} ${command.name()}`,
        rows: [...describe(options), ...(server ? [['metrics', server.url] as const] : [])],
        address: addressText(daemon.host, daemon.port),
      });
    const close = async (): Promise<void> => {
      await server?.close();
      await daemon.close();
    };
    await untilStopped(stopped, { announce: ready, close }, note);
  });
}

/**
 * Until the process ends, no other storage uses these directories, whatever its port: a start cleans
 * them up. `onError` gets the error if another process has taken one; then this one ends.
 */
async function lockAll(
  directories: readonly string[],
  onError: (error: Error) => void,
): Promise<void> {
  for (const directory of directories) {
    // `acquire` says what is wrong with it.
    await mkdir(directory, { recursive: true }).catch(() => undefined);
    await DirectoryLock.awaitOwner(directory, 'data');
    void DirectoryLock.acquire(directory).lost.then((error) => {
      onError(error);
      process.exit(1);
    });
  }
}

/** Who may use its port. */
async function accessOf(options: OptionValues<NodeOptions>): Promise<AccessOptions> {
  const { clusterSecretFile, withoutSecret } = options;
  const secrets = await readClusterSecrets(clusterSecretFile);
  if (secrets.length > 0) return { secrets, withoutSecret };
  if (withoutSecret === 'nothing') return {};
  throw new UsageError('--without-secret goes with --cluster-secret-file only');
}

/** The daemons name an option as in code; here the user typed a flag. */
function asTyped(error: unknown, table: OptionTable, nameOf: (option: string) => string): unknown {
  if (!isError(error) || error.name !== 'OptionError') return error;
  // The first word may be any; later ones only if they are not English words.
  const name = /^[a-z]\w*|\b[a-z]+[A-Z]\w*/g;
  const typed = error.message.replace(name, (word) =>
    Object.hasOwn(table, word) ? nameOf(word) : word,
  );
  return new UsageError(typed);
}

/**
 * `GET /metrics` of a tracker or storage, on a port of its own, for scrapers such as Prometheus.
 */

interface MetricsServer {
  /** `http://127.0.0.1:9464/metrics` */
  readonly url: string;
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 16;
const HEAD_TIMEOUT_MS = 5_000;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

interface MetricsAddress {
  readonly host: string;
  readonly port: number;
}

/** Reads `9464`, `10.0.0.7:9464` or `[::1]:9464`; undefined for an empty text. */
function metricsAddress(text: string): MetricsAddress | undefined {
  if (text === '') return undefined;
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) throw new UsageError(`--metrics "${text}" is not HOST:PORT or PORT`);
  return { host: match[1] ?? match[2] ?? '127.0.0.1', port };
}

/** Resolves once it listens. Rejects with StartError. */
async function startMetricsServer(
  { host, port }: MetricsAddress,
  text: MetricsText,
): Promise<MetricsServer> {
  const server = createServer(
    { headersTimeout: HEAD_TIMEOUT_MS, requestTimeout: HEAD_TIMEOUT_MS },
    (request, response) => {
      // Request bodies are ignored.
      request.resume();
      const path = request.url?.split('?', 1)[0];
      const isRead = request.method === 'GET' || request.method === 'HEAD';
      if (path !== '/metrics' || !isRead) {
        response.writeHead(path === '/metrics' ? 405 : 404).end();
        return;
      }
      text().then(
        (body) => response.writeHead(200, { 'content-type': CONTENT_TYPE }).end(body),
        () => response.writeHead(500).end(),
      );
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  const listening = once(server, 'listening');
  server.listen({ host, port });
  try {
    await listening;
  } catch (error) {
    const { code = 'listen_failed', message } = error as NodeJS.ErrnoException;
    throw new StartError(
      code,
      `Metrics cannot be served at ${host}:${port}: ${message}. Choose another --metrics.`,
      error,
    );
  }
  server.on('error', () => undefined);
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://${addressText(host, bound)}/metrics`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * `stevedore migrate`: shows what a storage moves out of its metadata tier, and turns moving on or
 * off.
 */

const ACTIONS: readonly MigrationAction[] = ['status', 'pause', 'resume', 'dry-run', 'recall'];

const HELP = `
Actions:
  status    what was served, what is forecast, the threshold, the moves
  pause     no moves by load or threshold until "resume"; files that outgrow their row still leave it
  resume    moves go on; ends a dry run and a recall too
  dry-run   moves are decided and logged, but not made, until "resume"
  recall    files in other groups come back, and none go there until "resume"

A storage moves files where it was started with --metadata-tier. It writes a line per move, with the
numbers that decided it, to data/.stevedore-moves.jsonl in its first store path.

Examples:
  stevedore migrate status
  stevedore migrate pause --storage 10.0.0.7:23000`;

export function migrate(command: Command): void {
  define(command, migrateOptions, HELP, async (options, text: string) => {
    const action = ACTIONS.find((each) => each === text);
    if (!action) throw new UsageError(`"${text}" is none of ${ACTIONS.join(', ')}`);
    const [secret] = await readClusterSecrets(options.clusterSecretFile);
    const { askMigration } = await import('@stevedore/tiering/control');
    const status = await askMigration(options.storage, action, { secret });
    const shown = options.json ? JSON.stringify(status) : describeMoves(status);
    process.stdout.write(`${shown}\n`);
  });
}

function describeMoves(status: MigrationStatus): string {
  const { load, moves, intervalMs } = status;
  const state = status.isPaused ? 'paused' : status.isDryRun ? 'dry run' : 'moving files';
  const each = (name: string, one: ClassStatus): string =>
    `${name}: served ${formatBytes(Math.round(one.servedBytes))} in ${one.servedRequests} requests, ` +
    `${one.waitingRequests} wait; load ${formatBytes(Math.round(one.loadBytes))}, ` +
    `forecast ${formatBytes(Math.round(one.forecastBytes))} ` +
    `(mean error ${formatBytes(Math.round(one.meanErrorBytes))}), ${one.busyAnswersTotal} answered as busy`;
  return [
    `${status.migrates ? state : 'moves by growth only'}; intervals of ${intervalMs / 1000} s, ` +
      `at most ${formatBytes(Math.round(status.capacityBytes))} each`,
    `threshold ${formatBytes(status.thresholdBytes)}; ${status.rows.files} files in rows, ` +
      `${formatBytes(status.rows.bytes)} of ${formatBytes(status.roomBytes)}`,
    otherGroups(status),
    each('metadata', load.metadata),
    each('small files', load.smallFile),
    `moves: ${moves.moved} made (${formatBytes(status.movedBytes)}), ${moves.revoked} revoked, ` +
      `${moves.refused} refused, ${moves.failed} failed, ${status.queued} wait`,
  ].join('\n');
}

function otherGroups({ remote, unwantedCopies, openCopies, isRecalling }: MigrationStatus): string {
  return (
    `other storage groups: ${remote.files} files, ${formatBytes(remote.bytes)}` +
    `${isRecalling ? ', being recalled' : ''}; ` +
    `${unwantedCopies} copies yet to be deleted, ${openCopies} that may or may not be stored`
  );
}
