import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { localDisk } from '@stevedore/disk';
import type { IoServerRecord } from '@stevedore/protocol';
import { type IoServer, startIoServer, type TierOptions } from '@stevedore/storage';
import { onTestFinished } from 'vitest';
import { systemEnvironment } from '../../packages/storage/dist/environment.js';
import { KnownServers } from '../../packages/storage/dist/io-tier/known-servers.js';
import {
  type OpenedTiers,
  openTiers,
  type TierEvents,
} from '../../packages/storage/dist/tiers/open-tiers.js';
import { tierSettings } from '../../packages/storage/dist/tiers/tier-options.js';
import { temporaryFolder } from '../support/temporary.js';
import { THRESHOLD } from '../tiers/harness.js';

/** I/O servers of one test, and a tiered disk that uses them. */

export const STRIPE = 1024;

export interface ServerOfTest {
  readonly folder: string;
  readonly record: IoServerRecord;
  /** Ends it as a kill would: at once. */
  stop(): Promise<void>;
  /** Starts it again, under its old address. */
  restart(): Promise<void>;
}

export async function ioServer(folder = temporaryFolder()): Promise<ServerOfTest> {
  let server: IoServer = await start(folder, 0);
  const { id, port } = server;
  onTestFinished(() => server.close());
  return {
    folder,
    record: {
      id,
      host: '127.0.0.1',
      port,
      totalBytes: 2 ** 40,
      freeBytes: 2 ** 39,
      isActive: true,
    },
    stop: () => server.close(),
    restart: async () => {
      server = await start(folder, port);
    },
  };
}

function start(directory: string, port: number): Promise<IoServer> {
  return startIoServer({ directory, port, closeTimeoutMs: 0 });
}

export async function ioServers(count: number): Promise<ServerOfTest[]> {
  return Promise.all(Array.from({ length: count }, () => ioServer()));
}

/** Ends the process at a request to an I/O server. */
export class Killed extends Error {}

/** Servers whose n-th request is not sent, or not answered, and none after it. */
export class MortalServers extends KnownServers {
  requests = 0;
  dieAt = Number.POSITIVE_INFINITY;
  dieWhen: 'before' | 'after' = 'before';

  override async use<Result>(
    id: string,
    action: Parameters<KnownServers['use']>[1] & ((link: never) => Promise<Result>),
  ): Promise<Result> {
    this.requests += 1;
    const turn = this.requests;
    if (turn > this.dieAt || (turn === this.dieAt && this.dieWhen === 'before')) throw new Killed();
    const result = await super.use<Result>(id, action as never);
    if (turn >= this.dieAt) throw new Killed();
    return result;
  }
}

export function known(servers: readonly ServerOfTest[], timeoutMs = 20_000): MortalServers {
  const all = new MortalServers({
    access: { secret: undefined, withoutSecret: 'nothing' },
    maxConnectionsPerServer: 4,
    connectTimeoutMs: 5000,
    timeoutMs,
    onLearned: () => {},
  });
  all.learn(servers.map(({ record }) => record));
  onTestFinished(() => all.close());
  return all;
}

export async function openWith(
  folder: string,
  servers: KnownServers,
  events: Partial<TierEvents> = {},
  options: TierOptions = {},
): Promise<OpenedTiers> {
  mkdirSync(join(folder, 'data', '.tmp'), { recursive: true });
  for (const low of ['00', '01']) mkdirSync(join(folder, 'data', '00', low), { recursive: true });
  const opened = await openTiers(
    { disk: localDisk, environment: systemEnvironment, storePaths: [folder], servers },
    tierSettings({
      enabled: true,
      thresholdBytes: THRESHOLD,
      stripeBytes: STRIPE,
      orphanIntervalMs: 1,
      ...options,
    }),
    { onAccess: () => {}, onCut: () => {}, onMoved: () => {}, ...events },
  );
  if (!opened) throw new Error('the tiers are off');
  return opened;
}

/** Handles of all parts at a server. */
export function partsOf({ folder }: ServerOfTest): string[] {
  return readdirSync(join(folder, 'parts'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name)
    .sort();
}
