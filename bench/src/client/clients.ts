import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { FastdfsClient } from '@stevedore/fastdfs';

/** The clients that are held against each other, behind one face. */
export interface Client {
  upload(bytes: Buffer): PromiseLike<string>;
  download(id: string): PromiseLike<Buffer>;
  remove(id: string): PromiseLike<void>;
  close(): Promise<void>;
}

/** nothing: moves nothing; what the load itself costs. */
export type ClientName = 'stevedore' | 'fdfs' | 'nothing';

export interface ClientOptions {
  readonly trackers: readonly string[];
  /** Connections to one server, and calls at a time. */
  readonly connections: number;
}

const EXTENSION = 'bin';
const FDFS_TIMEOUT_MS = 10_000;

/** `files`: what is uploaded, for the one that moves nothing. */
export function openClient(
  name: ClientName,
  options: ClientOptions,
  files: readonly { readonly bytes: Buffer }[],
): Client {
  if (name === 'nothing') return openNothing(files);
  return name === 'fdfs' ? openFdfs(options) : openStevedore(options);
}

function openStevedore({ trackers, connections }: ClientOptions): Client {
  const client = new FastdfsClient({ trackers, maxConnectionsPerAddress: connections });
  return {
    upload: (bytes) => client.upload(bytes, { extension: EXTENSION }),
    download: (id) => client.downloadBytes(id),
    remove: (id) => client.delete(id),
    close: () => client.close(),
  };
}

/** What is used of npm `fdfs`, which has no types. */
interface Fdfs {
  upload(bytes: Buffer, options: { readonly ext: string }): PromiseLike<string>;
  download(id: string, options: { readonly target: Writable }): PromiseLike<void>;
  del(id: string): PromiseLike<void>;
}

type FdfsConstructor = new (options: {
  readonly trackers: readonly { readonly host: string; readonly port: number }[];
  readonly timeout: number;
  readonly logger: Readonly<Record<string, () => void>>;
}) => Fdfs;

/**
 * It has no pool: every call opens a socket to the tracker and one to the storage,
 * so the calls at a time are its connections. Its log is off, its uploads come from
 * memory, and its downloads go to a stream that only collects them: nothing is
 * faster with it.
 */
function openFdfs({ trackers }: ClientOptions): Client {
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
    upload: (bytes) => client.upload(bytes, { ext: EXTENSION }),
    download: (id) => {
      const chunks: Buffer[] = [];
      const target = new Writable({
        write(chunk: Buffer, _encoding, done) {
          chunks.push(chunk);
          done();
        },
      });
      return client
        .download(id, { target })
        .then(() => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    },
    remove: (id) => client.del(id),
    close: () => Promise.resolve(),
  };
}

function openNothing(files: readonly { readonly bytes: Buffer }[]): Client {
  const byBytes = new Map(files.map(({ bytes }, index) => [bytes, String(index)]));
  return {
    upload: (bytes) => Promise.resolve(byBytes.get(bytes) ?? ''),
    // A view of its own, so that comparing the bytes is real work.
    download: (id) => Promise.resolve(files[Number(id)]!.bytes.subarray()),
    remove: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
