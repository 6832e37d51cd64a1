import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { serve } from '../harness/serve.js';

/**
 * A gateway, or the SDK beside a plain client, in a process whose calls of functions or allocated
 * bytes are counted.
 */

export type CountedHandlers = {
  /** Answers with the gateway's port. */
  readonly startGateway: (options: GatewayInput) => Promise<number>;
  /** Stores so many files over these trackers, merged by the SDK and unmerged by a plain client. */
  readonly store: (about: {
    readonly directory: string;
    readonly trackers: readonly string[];
    readonly files: number;
  }) => Promise<void>;
  /** Fetches each once, one after the other. */
  readonly fetch: (from: 'sdk' | 'client') => Promise<void>;
  /** Calls of functions of ours and of packages since the last time it was asked. */
  readonly calls: () => Promise<number>;
  /**
   * Bytes allocated since the last time it was asked. Fails if garbage was collected meanwhile: it
   * needs `--expose-gc`, and a young generation with room for all of them.
   */
  readonly bytes: () => Promise<AllocatedBytes>;
};

export interface AllocatedBytes {
  /** In V8's heap. */
  readonly heap: number;
  /** Buffers. */
  readonly external: number;
}

const FILE_BYTES = 20_000;
/** What the container's own records may take. */
const OWN_BYTES = 2 ** 20;
const NOT_COUNTED = /^node:|\/bench\/dist\//;

const session = new Session();
let gateway: Gateway | undefined;
let store: FileStore | undefined;
let client: FastdfsClient | undefined;
let keys: string[] = [];
let ids: string[] = [];

const handlers: CountedHandlers = {
  async startGateway(options) {
    gateway = await startGateway({ port: 0, trackerPort: 0, storagePort: 0, ...options });
    return Number(new URL(gateway.url).port);
  },
  async store({ directory, trackers, files }) {
    store = await open({
      directory,
      trackers: [...trackers],
      retain: '0B',
      cacheSize: '0B',
      idMaxAge: 0,
    });
    client = new FastdfsClient({ trackers });
    const bodies = Array.from({ length: files }, (_, at) => Buffer.alloc(FILE_BYTES, `${at} `));
    keys = await Promise.all(bodies.map(async (body) => (await store!.put(body)).key));
    ids = await Promise.all(bodies.map((body) => client!.upload(body)));
    await store.flush();
    await Promise.all(keys.map((key) => store!.settled(key)));
    // Until nothing is read from this disk.
    while (store.stats().containerBytes > OWN_BYTES) await sleep(20);
  },
  async fetch(from) {
    if (from === 'sdk') for (const key of keys) await (await store!.get(key)).content();
    else for (const id of ids) await client!.downloadBytes(id);
  },
  async calls() {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ url }) => url !== '' && !NOT_COUNTED.test(url))
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
      .reduce((sum, { count }) => sum + count, 0);
  },
  async bytes() {
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
  },
};

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
serve(handlers, async () => {
  await gateway?.close();
  await store?.close();
  await client?.close();
});
