import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import type { SampleFile } from '../harness/file-set.js';
import { until } from '../harness/load.js';

/** The ways to store a file that are held against each other, behind one face. */
export interface Target {
  /** Resolves with what the file is fetched by, once the file is safe. */
  put(file: SampleFile): PromiseLike<string>;
  fetch(id: string): PromiseLike<Buffer>;
  remove(id: string): PromiseLike<void>;
  /** Resolves once everything is stored in FastDFS. */
  settle(): Promise<void>;
  /** Resolves once what was removed is gone from FastDFS. */
  emptied(): Promise<void>;
  /** Of what was stored, how much lies on this machine's own disk. */
  localBytes(): number;
  close(): Promise<void>;
}

/** What of merged files stays on the web server: as by default, half of the bytes, or nothing. */
export type Keeps = 'default' | 'half' | 'nothing';

interface Sdk {
  readonly client: 'sdk';
  readonly directory: string;
  readonly keeps: Keeps;
  /** Stored in all; for `half`. */
  readonly bytes: number;
}

/** stevedore: our FastDFS client, one FastDFS file per file. nothing: what the load itself costs. */
export type TargetOptions = {
  readonly trackers: readonly string[];
  /** To one server; where there is no pool, calls at a time. */
  readonly connections: number;
} & ({ readonly client: 'stevedore' | 'fdfs' | 'nothing' } | Sdk);

/** `files`: what is put, for the one that moves nothing. */
export function openTarget(
  options: TargetOptions,
  files: readonly SampleFile[],
): Target | Promise<Target> {
  const { trackers, connections } = options;
  if (options.client === 'sdk') return openSdk(options);
  if (options.client === 'nothing') return openNothing(files);
  const client = new FastdfsClient({ trackers, maxConnectionsPerAddress: connections });
  const direct = {
    ...AT_ONCE,
    put: ({ bytes, name }: SampleFile) => client.upload(bytes, { extension: extensionOf(name) }),
    fetch: (id: string) => client.downloadBytes(id),
    remove: (id: string) => client.delete(id),
    close: () => client.close(),
  };
  return options.client === 'fdfs' ? { ...direct, ...openFdfs(trackers) } : direct;
}

function extensionOf(name: string): string {
  return name.slice(name.indexOf('.') + 1);
}

/** Of what is in FastDFS when it is acknowledged. */
const AT_ONCE = { settle: async () => {}, emptied: async () => {}, localBytes: () => 0 };

/** What is used of npm `fdfs`, which has no types. */
interface Fdfs {
  upload(bytes: Buffer, options: { readonly ext: string }): PromiseLike<string>;
  download(id: string, options: { readonly target: Writable }): PromiseLike<void>;
}

type FdfsConstructor = new (options: {
  readonly trackers: readonly { readonly host: string; readonly port: number }[];
  readonly timeout: number;
  readonly logger: Readonly<Record<string, () => void>>;
}) => Fdfs;

const FDFS_TIMEOUT_MS = 10_000;
/** It never settles a call whose socket it has timed out itself. */
const CALL_LIMIT_MS = 12_000;

/**
 * It has no pool: every call opens a socket to the tracker and one to the storage, so the calls at a
 * time are its connections. Its log is off, its uploads come from memory, and its downloads go to a
 * stream that only collects them: nothing is faster with it. Our client removes its files.
 */
function openFdfs(trackers: readonly string[]): Pick<Target, 'put' | 'fetch'> {
  const FdfsClient = createRequire(import.meta.url)('fdfs') as FdfsConstructor;
  const levels = ['log', 'trace', 'debug', 'info', 'warn', 'error', 'fatal'];
  const client = new FdfsClient({
    trackers: trackers.map((address) => {
      const colon = address.lastIndexOf(':');
      return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
    }),
    timeout: FDFS_TIMEOUT_MS,
    logger: Object.fromEntries(levels.map((level) => [level, () => {}])),
  });
  return {
    put: ({ bytes, name }) => limited(client.upload(bytes, { ext: extensionOf(name) })),
    fetch: async (id) => {
      const chunks: Buffer[] = [];
      const target = new Writable({
        write(chunk: Buffer, _encoding, done) {
          chunks.push(chunk);
          done();
        },
      });
      await limited(client.download(id, { target }));
      return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    },
  };
}

function limited<T>(call: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no result within ${CALL_LIMIT_MS} ms`));
    const timer = setTimeout(late, CALL_LIMIT_MS);
    call.then(resolve, reject).then(() => clearTimeout(timer));
  });
}

/** Of the container, which frees whole segments. */
const SEGMENT_BYTES = 2 ** 26;

/** Acknowledged from the container, merged in the background. */
async function openSdk(options: Sdk & TargetOptions): Promise<Target> {
  const { trackers, directory, connections, bytes, keeps } = options;
  // Whole segments go, so half a segment more than half leaves what is nearest to half.
  const kept = keeps === 'half' ? Math.ceil((bytes + SEGMENT_BYTES) / 2) : 0;
  const store = await open({
    ...{ trackers, directory, connections, durability: 'sync' },
    // What is measured is merging: nothing is joined later.
    idMaxAge: 0,
    ...(keeps === 'default' ? {} : { retain: kept, cacheSize: 0 }),
  });
  // Trouble that is retried would only show as bad figures.
  store.on('error', (error) => console.error(`store: ${error.message}`));
  if (keeps !== 'default') await letGo(store, kept);
  return {
    put: async ({ bytes: body, name, type }) => (await store.put(body, { name, type })).key,
    fetch: async (id) => (await store.get(id)).bytes(),
    settle: async () => void (await store.flush()),
    remove: (id) => store.delete(id),
    emptied: () => until('trunks are removed', () => store.stats().trunks === 0),
    localBytes: () => store.stats().containerBytes,
    close: () => store.close(),
  };
}

const WAIT_LIMIT_MS = 20_000;
/** What a store keeps on its own disk beside files is less. */
const OWN_BYTES = 2 ** 18;

/**
 * Waits until merged files have left this disk; what is there after that time is in the
 * report. One more file begins a new segment, so that no segment stays as the newest one.
 */
async function letGo(store: FileStore, kept: number): Promise<void> {
  const { key } = await store.put(Buffer.from('begins a segment'));
  await store.flush();
  const isGone = () => store.stats().containerBytes <= kept + OWN_BYTES;
  await until('files leave the disk', isGone, WAIT_LIMIT_MS).catch(() => undefined);
  await store.delete(key);
}

function openNothing(files: readonly SampleFile[]): Target {
  const places = new Map(files.map((file, index) => [file, String(index)]));
  return {
    ...AT_ONCE,
    put: async (file) => places.get(file) ?? '',
    // A view of its own, so that comparing the bytes is real work.
    fetch: async (id) => files[Number(id)]!.bytes.subarray(),
    remove: async () => {},
    close: async () => {},
  };
}
