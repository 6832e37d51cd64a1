import cluster from 'node:cluster';
import { join, resolve } from 'node:path';
import { isStoreError } from '@stevedore/client';
import {
  flushTimeoutOf,
  type GatewayStore,
  openForGateway,
  SqlMap,
  workerDirectory,
} from '@stevedore/client/internal';
import { logTrouble, loseLines, makeLog } from '../observe/log.js';
import { logFormatOf } from '../observe/log-format.js';
import { defaultLimits, type GatewayOptions, openOptions } from '../options.js';
import { STOP_SIGNALS } from '../program.js';
import { type Gateway, startGateway } from '../start.js';
import { Calls, plainError } from './calls.js';
import { ToFirst, takeForwarded } from './forward.js';
import { HandedTrunks } from './handed-trunks.js';
import type { PrimaryCalls, WorkerCalls, WorkerStart } from './messages.js';
import { workerCount } from './plan.js';
import { askShared } from './shared.js';
import { WorkerDriver } from './shared-map.js';
import { type ProcessFigures, sumStats } from './totals.js';

/**
 * A worker: a whole gateway on the port that all workers share, over its own directory, with the
 * other workers' directories as siblings. The primary starts and stops it.
 */

/** How much longer than a flush the primary may take, which waits for all workers. */
const FLUSH_GRACE_MS = 10_000;

/** By the numbers of their directories. */
const stores = new Map<number, GatewayStore>();
let gateway: Gateway | undefined;
/** Undefined in the first worker. */
let toFirst: ToFirst | undefined;
let figures: (() => Promise<ProcessFigures>) | undefined;

const answers: WorkerCalls = {
  start,
  isAlive: () => true,
  writeTrunk: (number, path) => trunks.write(number, path),
  mapTold: (topic) => driver.told(topic),
  lookAgain: () => gateway?.store.siblings?.lookAgain(),
  delete: async (number, key) => {
    const store = stores.get(number);
    if (!store) throw new Error(`directory ${number} is not this worker's`);
    try {
      await store.delete(key, { onlyHere: true });
      return true;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return false;
      throw error;
    }
  },
  figures: async () => (await figures?.()) ?? [],
  stats,
  flush: async (timeoutMs) => {
    const how = { timeoutMs, onlyHere: true };
    await Promise.all([...stores.values()].map((store) => store.flush(how)));
  },
  ready: () => serving().store.ready(),
  cluster: () => serving().store.cluster(),
  reserveUsage: (day, asks) => deployment().reserveUsage(day, asks),
  liveServers: () => deployment().liveServers(),
  leave: async () => gateway?.leave(),
  close: async () => {
    toFirst?.close();
    await gateway?.close();
    for (const store of stores.values()) await store.close();
    // Whatever still keeps the process alive is useless without its files.
    setImmediate(() => process.exit(0));
  },
};

const primary = new Calls<PrimaryCalls>((message) => {
  // Without its primary this process exits by itself.
  process.send?.(message, undefined, undefined, () => undefined);
}, answers);

const driver = new WorkerDriver(primary);
const trunks = new HandedTrunks(primary);

function serving(): Gateway {
  if (!gateway) throw new Error('the worker has not started');
  return gateway;
}

function deployment(): NonNullable<GatewayStore['deployment']> {
  const { deployment } = serving().store;
  if (!deployment) throw new Error('the gateway has no map');
  return deployment;
}

function stats(): ReturnType<GatewayStore['stats']> {
  return sumStats([...stores.values()].map((store) => store.stats()));
}

async function start({ own, others, options, ...shared }: WorkerStart): Promise<string> {
  const [number = 1, ...further] = own;
  const log = makeLog(options.logLevel, logFormatOf(options.log));
  const workers = workerCount(options.workers);
  const first = join(resolve(options.directory), 'workers', 'first.sock');
  if (number !== 1) toFirst = new ToFirst(first);
  const open = (each: number, beside: readonly number[], how = options) =>
    openStore(each, beside, how, shared);
  // Files of directories that have no worker of their own: nothing is uploaded there.
  for (const each of further) {
    const store = await open(each, [], { ...options, cacheSize: 0 });
    store.on('error', (error) => logTrouble(log, error));
  }
  gateway = await startGateway(
    options,
    { log, limits: { maxConnections: Math.ceil(defaultLimits.maxConnections / workers) } },
    {
      ...askShared(primary),
      open: () => open(number, [...further, ...others]),
      opened: async (server) => {
        if (toFirst) toFirst.attach(server);
        else await takeForwarded(server, first);
        await primary.askWithin(0, 'opened');
        // One that was opened after this one may have got another origin.
        stores.get(number)?.siblings?.lookAgain();
      },
      passOn: toFirst?.take,
      stats,
      flush: async (how) => {
        const timeoutMs = flushTimeoutOf(how ?? {});
        const workers = primary.askWithin(timeoutMs + FLUSH_GRACE_MS, 'flush', timeoutMs);
        const all = [serving().store.flush(how), workers] as const;
        await Promise.allSettled(all);
        return (await Promise.all(all))[0];
      },
      metrics: (own) => {
        figures = own;
        return () => primary.ask('metrics');
      },
      console: {
        state: () => primary.ask('console'),
        history: (span) => primary.ask('history', span),
      },
    },
  );
  return gateway.url;
}

async function openStore(
  number: number,
  siblings: readonly number[],
  options: GatewayOptions,
  { trackers, hasNode, spreads }: Pick<WorkerStart, 'trackers' | 'hasNode' | 'spreads'>,
): Promise<GatewayStore> {
  const directory = workerDirectory(options.directory, number);
  const beside = siblings.map((other) => ({
    directory: workerDirectory(options.directory, other),
    delete: (key: string) => primary.ask('delete', other, key),
  }));
  const store = await openForGateway(
    { ...openOptions(options), directory, trackers },
    {
      siblings: beside,
      ...(hasNode ? { take: trunks.take } : {}),
      map: spreads === undefined ? undefined : new SqlMap(driver, spreads),
    },
  );
  store.on('trunk', (event) => primary.tell('trunk', event));
  store.on('error', (error) => primary.tell('trouble', plainError(error)));
  store.on('refused', (error) => primary.tell('refused', plainError(error)));
  stores.set(number, store);
  return store;
}

if (cluster.isWorker) {
  loseLines(process.stderr);
  process.on('message', (message) => primary.take(message));
  // A terminal and a service manager signal every process of the gateway; the primary decides.
  for (const signal of STOP_SIGNALS) process.on(signal, () => undefined);
  primary.tell('loaded');
}
