import { join } from 'node:path';
import { type FileStore, type OpenOptions, open, type Store } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import type { Gateway, GatewayExtras } from '@stevedore/gateway';
import { startStorage } from '@stevedore/node';
import { startTracker } from '@stevedore/tracker';
import { type GatewayInput, startGateway } from '../../gateway/dist/start.js';
import { until } from './staging.js';
import { type AtTheEnd, ofTest, temporaryFolder } from './temporary.js';

/**
 * Stores with small sizes, closed when the test ends. Each has a tracker and a storage of its own,
 * where an embedded node has its files, but in this thread: loading the code into another one takes
 * a third of a second.
 */

export const SMALL = {
  trunkSize: '1MiB',
  smallFileLimit: '256KiB',
  maxFileSize: '8MiB',
  // Files have their ids as soon as they are merged.
  idMaxAge: 0,
} as const;

async function startNode(directory: string) {
  const tracker = await startTracker({ port: 0, reservedSpaceMegabytes: 64 });
  const trackers = [`127.0.0.1:${tracker.port}`];
  const storePaths = [join(directory, 'node')];
  const storage = await startStorage({ host: '127.0.0.1', port: 0, storePaths, trackers });
  await storage.active();
  const close = async (): Promise<void> => {
    await storage.close();
    await tracker.close();
  };
  return { trackers, close };
}

/** Who gives one of them wants the embedded node itself. */
const OF_EMBEDDED = ['trackerPort', 'storagePort', 'metadataTier'];

interface OnNode {
  readonly directory?: string;
  readonly trackers?: readonly string[] | string;
}

/** What `open` opens, on a node that closes with it, unless the options name another one. */
async function onNode<Options extends OnNode, Opened extends { close(): Promise<void> }>(
  options: Options,
  atTheEnd: AtTheEnd,
  open: (options: Options) => Promise<Opened>,
): Promise<Opened> {
  const { directory = temporaryFolder(atTheEnd) } = options;
  const isNamed = ['trackers', ...OF_EMBEDDED].some((name) => name in options);
  const node = isNamed ? undefined : await startNode(directory);
  const opened = await open({ trackers: node?.trackers, ...options, directory }).catch(
    async (error: unknown) => {
      await node?.close();
      throw error;
    },
  );
  const close = opened.close.bind(opened);
  let closed: Promise<void> | undefined;
  opened.close = () => {
    closed ??= close().finally(() => node?.close());
    return closed;
  };
  atTheEnd(() => opened.close());
  return opened;
}

export async function openStore(options: OpenOptions = {}, atTheEnd = ofTest): Promise<FileStore> {
  return await plainStore({ ...SMALL, ...options }, atTheEnd);
}

/** With its own defaults, apart from what the options say. */
export async function plainStore(options: OpenOptions = {}, atTheEnd = ofTest): Promise<FileStore> {
  return await onNode(options, atTheEnd, open);
}

export async function plainGateway(
  options: GatewayInput = {},
  atTheEnd = ofTest,
  extras: GatewayExtras = {},
): Promise<Gateway> {
  return await onNode(options, atTheEnd, (given) =>
    startGateway({ port: 0, logLevel: 'silent', ...given }, extras),
  );
}

export async function openGateway(options: GatewayInput = {}, atTheEnd = ofTest): Promise<Gateway> {
  return await plainGateway({ ...SMALL, ...options }, atTheEnd);
}

export interface Opened {
  readonly store: Store;
  /** The one that stages its files. */
  readonly behind: FileStore;
}

/** Every kind of store: what an app may rely on is true of each. */
export const stores = [
  {
    name: 'open()',
    opened: async (options?: OpenOptions, atTheEnd = ofTest): Promise<Opened> => {
      const store = await openStore(options, atTheEnd);
      return { store, behind: store };
    },
  },
  {
    name: 'connect()',
    opened: async (options?: OpenOptions, atTheEnd = ofTest): Promise<Opened> => {
      const gateway = await openGateway(options as GatewayInput, atTheEnd);
      const store = connect({ url: gateway.url });
      atTheEnd(() => store.close());
      return { store, behind: gateway.store };
    },
  },
];

/**
 * With no bytes of its files on this disk, if it retains none: the newest segment stays in any
 * case, and is one of another file then.
 */
export async function emptied(store: FileStore): Promise<FileStore> {
  await store.put('something else');
  await store.flush();
  await until(() => store.stats().containerBytes < 5000);
  return store;
}
