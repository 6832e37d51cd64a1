import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type GatewayStore,
  openForGateway,
  openMap,
  readClusterSecrets,
} from '@stevedore/client/internal';
import type { ResourcePolicy } from '@stevedore/middleware/core';
import { Pictures } from '@stevedore/pictures';
import { addressText } from '@stevedore/protocol';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { Access } from './access/access.js';
import { type ApiKey, KeyRing } from './access/api-keys.js';
import type { Ledger } from './access/ledger.js';
import { openLocalKey, removeLocalKey } from './access/local-key.js';
import { HostNames, isLoopback } from './access/origins.js';
import { PolicyFile } from './access/policies.js';
import { SharedSettings } from './access/shared-settings.js';
import { type AppOptions, buildApp } from './app.js';
import type { FeedOptions } from './console/feed.js';
import type { AskMigration } from './console/migrations.js';
import { judgeAccess } from './doctor/access.js';
import { parsePublicUrl } from './http/public-address.js';
import { logTrouble, makeLog } from './observe/log.js';
import { logFormatOf } from './observe/log-format.js';
import {
  checkGatewayOptions,
  type GatewayOptions,
  type Limits,
  limitsOf,
  openOptions,
} from './options.js';
import { version } from './program.js';

/** A whole gateway in one call: the store, the HTTP side and a port; `close` ends all of it. */

const MIGRATION_TIMEOUT_MS = 2_000;

/** Any of the options; sizes and durations as numbers or as `64MiB`, `60s`. */
export type GatewayInput = {
  readonly [Name in keyof GatewayOptions]?: GatewayOptions[Name] | string;
};

export interface GatewayExtras {
  /** Overrides default limits, except those that are options. */
  readonly limits?: Partial<Omit<Limits, 'maxFileBytes' | 'maxUnsentBytes' | 'maxClientBytes'>>;
  /** Called with the server's own errors, and the store's in the background. */
  readonly onError?: (error: unknown) => void;
  /** Replaces the default logger, which writes to stderr at the configured level. */
  readonly log?: Logger;
}

export interface Gateway {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  readonly options: GatewayOptions;
  readonly limits: Limits;
  readonly log: Logger;
  readonly store: GatewayStore;
  readonly app: FastifyInstance;
  /** Serves on while clients and proxies leave, and accepts no more connections. Then call `close`. */
  leave(): Promise<void>;
  /** Refuses new requests, finishes those in progress within limits, closes the store. */
  close(): Promise<void>;
}

/** The parts that a worker of a gateway shares with others. */
export interface WorkerParts
  extends Pick<AppOptions, 'metrics' | 'console' | 'stats' | 'flush' | 'marks' | 'passOn'> {
  readonly open: () => Promise<GatewayStore>;
  /** Store and server exist; the port is not open yet. */
  readonly opened: (server: Server) => Promise<void>;
  readonly ledger: Ledger;
}

/** Resolves once requests are accepted. Rejects with StoreError, and leaves nothing open. */
export async function startGateway(
  input: GatewayInput = {},
  extras: GatewayExtras = {},
  worker?: WorkerParts,
): Promise<Gateway> {
  const options = checkGatewayOptions(input);
  const limits = limitsOf(options, extras.limits);
  const log = extras.log ?? makeLog(options.logLevel, logFormatOf(options.log));
  const onError = extras.onError ?? (() => {});
  const { apiKeys, policies: policyPath } = options;
  const map = worker || options.map === '' ? undefined : await openMap(options.map);
  const onTrouble = (error: unknown): void => {
    logTrouble(log, error);
    onError(error);
  };
  const settings = map && new SharedSettings({ ...options, map, onError: onTrouble });
  let policies: PolicyFile | undefined;
  let keys: KeyRing | undefined;
  let store: GatewayStore;
  try {
    await settings?.start();
    if (policyPath !== '') policies = await PolicyFile.open({ path: policyPath, onError });
    if (apiKeys !== '') keys = await KeyRing.open({ path: apiKeys, now: Date.now, onError });
    store = await (worker ? worker.open() : openForGateway(openOptions(options), { map }));
  } catch (error) {
    policies?.file.close();
    keys?.file.close();
    await settings?.close();
    await map?.close();
    throw error;
  }
  store.on('error', onTrouble);
  let app: FastifyInstance | undefined;
  try {
    const localKey = await localKeyOf(options).catch((error: unknown) => {
      logTrouble(log, error);
      return undefined;
    });
    const { antiLeechSecret: secret, antiLeechTtl: ttlMs } = options;
    const access = new Access({
      keys,
      localKey,
      urlSecrets: options.urlSecret,
      corsOrigins: options.corsOrigins,
      antiLeech: secret === '' ? undefined : { secret, ttlMs },
      ledger: worker?.ledger,
    });
    const { pictureSizes: sizes } = options;
    const { deployment } = store;
    if (deployment) access.ledger.share?.(deployment);
    const { open: _, opened, ledger: __, ...shared } = worker ?? {};
    app = buildApp({
      ...options,
      store,
      pictures:
        sizes.length > 0
          ? new Pictures({ store, sizes, processes: options.pictureProcesses })
          : undefined,
      limits,
      onError,
      log,
      processMetrics: true,
      ...shared,
      feed: feedOf(options),
      access,
      policies,
      publicUrl: parsePublicUrl(options.publicUrl) ?? '',
      resourcePolicy: resourcePolicyOf(options),
      hostNames: isOpenOnLoopback(options) ? new HostNames(options.hostNames) : undefined,
    });
    await opened?.(app.server);
    await app.listen({ host: options.host, port: options.port });
  } catch (error) {
    await settings?.close();
    await Promise.allSettled([app?.close(), store.close()]);
    throw error;
  }
  const { server, leave } = app;
  let closed: Promise<void> | undefined;
  let left: Promise<void> | undefined;
  return {
    url: urlOf(server.address()),
    options,
    limits,
    log,
    store,
    app,
    leave: () => {
      left ??= leave();
      return left;
    },
    close: () => {
      // Those that did not leave have had their time.
      closed ??= drain(app, left ? 0 : limits.drainMs)
        .then(() => settings?.close())
        .then(() => store.close());
      return closed;
    },
  };
}

/** Only programs on this machine reach it, and each of them may do everything. */
function isOpenOnLoopback({ host, apiKeys }: GatewayOptions): boolean {
  return apiKeys === '' && isLoopback(host);
}

function resourcePolicyOf(options: GatewayOptions): ResourcePolicy {
  const { resourcePolicy, corsOrigins } = options;
  if (resourcePolicy !== 'auto') return resourcePolicy;
  return isOpenOnLoopback(options) && corsOrigins.length === 0 ? 'same-site' : 'cross-origin';
}

/** What the console says of a gateway with these options. */
export function feedOf(options: GatewayOptions): Omit<FeedOptions, 'store'> {
  const embedded = options.trackers.length === 0;
  return {
    version: version(),
    embedded,
    askMigration: embedded ? undefined : migrationAsker(options),
    showsIds: options.apiKeys !== '',
    access: judgeAccess(options),
    mergeMaxAgeMs: options.mergeMaxAge,
    pictureSizes: options.pictureSizes,
  };
}

/** Loads the daemons' code only once a console is open. */
function migrationAsker({ clusterSecretFile }: GatewayOptions): AskMigration {
  return async (address) => {
    const { askMigration, NoMigrationError } = await import('@stevedore/tiering/control');
    const [secret] = await readClusterSecrets(clusterSecretFile);
    try {
      return await askMigration(address, 'status', { timeoutMs: MIGRATION_TIMEOUT_MS, secret });
    } catch (error) {
      if (error instanceof NoMigrationError) return undefined;
      throw error;
    }
  };
}

async function localKeyOf({ apiKeys, directory }: GatewayOptions): Promise<ApiKey | undefined> {
  if (apiKeys === '') return openLocalKey(directory);
  await removeLocalKey(directory);
  return undefined;
}

async function drain(app: FastifyInstance, limitMs: number): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), limitMs);
  try {
    await app.close();
  } finally {
    clearTimeout(timer);
  }
}

function urlOf(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') return '';
  return `http://${addressText(address.address, address.port)}`;
}
