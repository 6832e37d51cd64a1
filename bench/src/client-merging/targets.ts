import { type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import type { SampleFile } from '../harness/file-set.js';
import { until } from '../harness/load.js';

/** The ways to store a file that are held against each other, behind one face. */
export interface Target {
  /** Resolves with what the file is fetched by, once the file is safe. */
  put(file: SampleFile): Promise<string>;
  fetch(id: string): Promise<Buffer>;
  /** Resolves once everything is stored in FastDFS. */
  settle(): Promise<void>;
  remove(id: string): Promise<void>;
  /** Resolves once what was removed is gone from FastDFS. */
  emptied(): Promise<void>;
  /** Of what was stored, how much lies on this machine's own disk. */
  localBytes(): number;
  close(): Promise<void>;
}

/** What of merged files stays on the web server: as by default, half of the bytes, or nothing. */
export type Keeps = 'default' | 'half' | 'nothing';

/** Without `keeps`: one FastDFS file per file. */
export interface TargetOptions {
  readonly trackers: readonly string[];
  readonly connections: number;
  readonly directory: string;
  readonly keeps: Keeps | undefined;
  /** Stored in all; for `half`. */
  readonly bytes: number;
}

export function openTarget(options: TargetOptions): Promise<Target> {
  const { keeps } = options;
  return keeps === undefined ? openDirect(options) : openMerging(options, keeps);
}

async function openDirect({ trackers, connections }: TargetOptions): Promise<Target> {
  const client = new FastdfsClient({ trackers, maxConnectionsPerAddress: connections });
  return {
    put: ({ bytes, name }) =>
      client.upload(bytes, { extension: name.slice(name.indexOf('.') + 1) }),
    fetch: (id) => client.downloadBytes(id),
    settle: async () => undefined,
    remove: (id) => client.delete(id),
    emptied: async () => undefined,
    localBytes: () => 0,
    close: () => client.close(),
  };
}

/** The SDK: acknowledged from the container, merged in the background. */
async function openMerging(options: TargetOptions, keeps: Keeps): Promise<Target> {
  const { trackers, directory, connections, bytes } = options;
  const kept = keeps === 'half' ? Math.ceil(bytes / 2) : 0;
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

/** Stores nothing: what the load itself costs. */
export function openNothing(files: readonly SampleFile[]): Pick<Target, 'put' | 'fetch'> {
  return {
    put: async ({ name }) => name,
    // A view of its own, so that comparing the bytes is real work.
    fetch: async (id) => files[Number(id)]!.bytes.subarray(),
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
  await store.put(Buffer.from('begins a segment'));
  await store.flush();
  const isGone = () => store.stats().containerBytes <= kept + OWN_BYTES;
  await until('files leave the disk', isGone, WAIT_LIMIT_MS).catch(() => undefined);
}
