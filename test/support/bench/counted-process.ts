import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { type Storage, startStorage } from '@stevedore/node';

/**
 * A gateway, a storage, or the SDK beside a plain client, in a process whose calls of functions or allocated
 * bytes are counted.
 */

export interface AllocatedBytes {
  /** In V8's heap. */
  readonly heap: number;
  /** Buffers. */
  readonly external: number;
}

const FILE_BYTES = 20_000;
/** What the container's own records may take. */
const OWN_BYTES = 2 ** 20;
const NOT_COUNTED = /^node:|\/(bench|test)\/dist\//;

// On a busy machine threads would make some calls of the disk, which takes more calls of functions.
const { Pace }: typeof import('../../../packages/disk/dist/pace.js') = await import(
  new URL('../../../../packages/disk/dist/pace.js', import.meta.url).href
);
Pace.prototype.isShort = () => true;

const session = new Session();
let gateway: Gateway | undefined;
let storage: Storage | undefined;
let store: FileStore | undefined;
let client: FastdfsClient | undefined;
let keys: string[] = [];
let ids: string[] = [];

/** A performance observer is called some turns of the event loop later. */
const TOLD_MS = 20;

let collections = 0;
let before: AllocatedBytes & { readonly collections?: number } = { heap: 0, external: 0 };
new PerformanceObserver((list) => {
  collections += list.getEntries().length;
}).observe({ entryTypes: ['gc'] });

// What counts calls takes from V8 what it has optimised.
if (!global.gc) {
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
}

/** Answers with the gateway's port. */
export async function start(options: GatewayInput): Promise<number> {
  gateway = await startGateway({ port: 0, trackerPort: 0, storagePort: 0, ...options });
  return Number(new URL(gateway.url).port);
}

/** Answers with the port of a storage without trackers. */
export async function serve(directory: string): Promise<number> {
  const onError = (error: Error) => console.error(error);
  storage = await startStorage({ port: 0, storePaths: [directory], durability: 'os', onError });
  return storage.port;
}

/** Stores so many files over these trackers, merged by the SDK and unmerged by a plain client. */
export async function fill(directory: string, trackers: readonly string[], files: number) {
  const opened = await open({ directory, trackers, retain: '0B', cacheSize: '0B', idMaxAge: 0 });
  const plain = new FastdfsClient({ trackers });
  [store, client] = [opened, plain];
  const bodies = Array.from({ length: files }, (_, at) => Buffer.alloc(FILE_BYTES, `${at} `));
  keys = await Promise.all(bodies.map(async (body) => (await opened.put(body)).key));
  ids = await Promise.all(bodies.map((body) => plain.upload(body)));
  await opened.flush();
  await Promise.all(keys.map((key) => opened.settled(key)));
  // Until nothing is read from this disk.
  while (opened.stats().containerBytes > OWN_BYTES) await sleep(20);
}

/** Fetches each once, one after the other. */
export async function fetch(from: 'sdk' | 'client'): Promise<void> {
  if (from === 'sdk') for (const key of keys) await (await store!.get(key)).content();
  else for (const id of ids) await client!.downloadBytes(id);
}

/** Calls of functions of ours and of packages since the last time it was asked. */
export async function calls(): Promise<number> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url !== '' && !NOT_COUNTED.test(url))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
    .reduce((sum, { count }) => sum + count, 0);
}

/**
 * Bytes allocated since the last time it was asked. Fails if garbage was collected meanwhile: it
 * needs `--expose-gc`, and a young generation with room for all of them.
 */
export async function bytes(): Promise<AllocatedBytes> {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  const allocated = { heap: heapUsed - before.heap, external: arrayBuffers - before.external };
  await sleep(TOLD_MS);
  const [counted, collected] = [collections, before.collections];
  global.gc?.();
  await sleep(TOLD_MS);
  const after = process.memoryUsage();
  before = { heap: after.heapUsed, external: after.arrayBuffers, collections };
  if (collected !== undefined && counted > collected) throw new Error('garbage was collected');
  return allocated;
}

export async function close(): Promise<void> {
  await gateway?.close();
  await storage?.close();
  await store?.close();
  await client?.close();
}
