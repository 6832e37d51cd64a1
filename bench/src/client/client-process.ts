import { setTimeout as sleep } from 'node:timers/promises';
import { makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive } from '../harness/load.js';
import { seededRandom } from '../harness/seeded-random.js';
import { cpuUsed, serve } from '../harness/serve.js';
import {
  type Client,
  type ClientName,
  type ClientOptions,
  openClient,
  openNothing,
} from './clients.js';

/**
 * The measured process: one client, and loops that call it over files made
 * beforehand; `loadCost` tells what the loops cost. A call that fails, or gives no
 * result for long, is counted and the loop goes on; wrong bytes end the benchmark.
 */

export interface TransferOptions {
  readonly seconds: number;
  readonly concurrency: number;
}

export interface TransferResult {
  /** Those that succeeded. */
  readonly operations: number;
  readonly bytes: number;
  readonly seconds: number;
  /** CPU time of this process. */
  readonly cpuSeconds: number;
  readonly errors: number;
  /** Undefined if none failed. */
  readonly firstError: string | undefined;
}

export interface LoadCost {
  readonly cpuSecondsPerUpload: number;
  readonly cpuSecondsPerDownload: number;
}

/** After everything that is not in use was collected. */
export interface MemoryUse {
  readonly rssBytes: number;
  readonly heapBytes: number;
  /** Memory of buffers and sockets, outside the heap. */
  readonly externalBytes: number;
}

export type ClientHandlers = {
  /** Makes files of these sizes; the same ones each time. */
  readonly prepare: (options: { readonly sizes: readonly number[]; readonly seed: number }) => void;
  readonly open: (options: ClientOptions & { readonly client: ClientName }) => Promise<void>;
  readonly upload: (
    options: TransferOptions & { readonly size: number },
  ) => Promise<TransferResult>;
  /** Random files of those uploaded; every byte of them is compared. */
  readonly download: (
    options: TransferOptions & { readonly seed: number },
  ) => Promise<TransferResult>;
  /** Deletes what was uploaded since `open`, and closes the client. */
  readonly close: () => Promise<void>;
  readonly loadCost: (options: {
    readonly size: number;
    readonly operations: number;
  }) => Promise<LoadCost>;
  /** Uploads a file, downloads it, compares it and deletes it, so many times. */
  readonly cycle: (options: {
    readonly size: number;
    readonly cycles: number;
    readonly concurrency: number;
  }) => Promise<void>;
  /** Needs `--expose-gc`. */
  readonly memory: () => Promise<MemoryUse>;
};

interface Stored {
  readonly id: string;
  readonly file: SampleFile;
}

const FILES_PER_SIZE = 256;
const REMOVE_CONNECTIONS = 16;
const MAX_OPERATIONS = 10_000_000;
/** `fdfs` never settles a call whose socket it has timed out itself, after 10 s. */
const CALL_LIMIT_MS = 12_000;
/** For sockets that are being closed. */
const REST_MS = 200;

const files = new Map<number, readonly SampleFile[]>();
let client: Client | undefined;
let opened: ClientOptions | undefined;
let stored: Stored[] = [];

function current(): Client {
  if (!client) throw new Error('no client is open');
  return client;
}

function filesOf(size: number): readonly SampleFile[] {
  const set = files.get(size);
  if (!set) throw new Error(`there are no files of ${size} bytes`);
  return set;
}

async function transfer(
  { seconds: maxSeconds, concurrency }: TransferOptions,
  one: (index: number) => Promise<number>,
): Promise<TransferResult> {
  let operations = 0;
  let bytes = 0;
  let errors = 0;
  let firstError: string | undefined;
  const before = cpuUsed().cpuSeconds;
  const load = { operations: MAX_OPERATIONS, concurrency, maxSeconds };
  const { seconds } = await drive(load, async (index) => {
    try {
      bytes += await one(index);
      operations += 1;
    } catch (error) {
      if (error instanceof WrongBytes) throw error;
      errors += 1;
      firstError ??= String(error);
    }
  });
  const cpuSeconds = cpuUsed().cpuSeconds - before;
  if (operations === 0) throw new Error(`nothing succeeded: ${firstError}`);
  return { operations, bytes, seconds, cpuSeconds, errors, firstError };
}

/** A pool lives long: that it fills is no part of a measurement. The same is done for both clients. */
async function connect(to: Client, set: readonly SampleFile[], calls: number): Promise<void> {
  const begun = set.slice(0, calls).map(async (file) => {
    stored.push({ id: await limited(to.upload(file.bytes)), file });
  });
  for (const outcome of await Promise.allSettled(begun)) {
    if (outcome.status === 'rejected') console.error(`before the clock: ${outcome.reason}`);
  }
}

function upload(
  to: Client,
  set: readonly SampleFile[],
  options: TransferOptions,
): Promise<TransferResult> {
  return transfer(options, async (index) => {
    const file = set[index % set.length]!;
    const id = await limited(to.upload(file.bytes));
    stored.push({ id, file });
    return file.bytes.length;
  });
}

function download(from: Client, seed: number, options: TransferOptions): Promise<TransferResult> {
  const random = seededRandom(seed);
  return transfer(options, async () => {
    const { id, file } = stored[Math.floor(random() * stored.length)]!;
    const fetched = await limited(from.download(id));
    if (!fetched.equals(file.bytes)) throw new WrongBytes(`${id} came back with other bytes`);
    return fetched.length;
  });
}

class WrongBytes extends Error {}

function limited<T>(call: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`no result within ${CALL_LIMIT_MS} ms`)),
      CALL_LIMIT_MS,
    );
    call.then(
      (result) => {
        clearTimeout(timer);
        resolve(result);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

async function removeStored(): Promise<void> {
  const all = stored;
  stored = [];
  if (!opened || all.length === 0) return;
  const remover = openClient('stevedore', {
    trackers: opened.trackers,
    connections: REMOVE_CONNECTIONS,
  });
  try {
    const load = { operations: all.length, concurrency: REMOVE_CONNECTIONS };
    await drive(load, async (index) => {
      await remover.remove(all[index]!.id);
    });
  } finally {
    await remover.close();
  }
}

async function close(): Promise<void> {
  await removeStored();
  await client?.close();
  client = undefined;
  opened = undefined;
}

async function loadCost({
  size,
  operations,
}: Parameters<ClientHandlers['loadCost']>[0]): Promise<LoadCost> {
  const set = filesOf(size);
  const nothing = openNothing(set);
  const load = { operations, concurrency: REMOVE_CONNECTIONS };
  const before = cpuUsed().cpuSeconds;
  const ids: string[] = [];
  await drive(load, async (index) => {
    ids[index] = await limited(nothing.upload(set[index % set.length]!.bytes));
  });
  const between = cpuUsed().cpuSeconds;
  const random = seededRandom(0);
  await drive(load, async () => {
    const index = Math.floor(random() * set.length);
    const fetched = await limited(nothing.download(String(index)));
    if (!fetched.equals(set[index]!.bytes)) throw new WrongBytes(String(index));
  });
  const after = cpuUsed().cpuSeconds;
  return {
    cpuSecondsPerUpload: (between - before) / operations,
    cpuSecondsPerDownload: (after - between) / operations,
  };
}

async function cycle(size: number, operations: number, concurrency: number): Promise<void> {
  const subject = current();
  const set = filesOf(size);
  await drive({ operations, concurrency }, async (index) => {
    const { bytes } = set[index % set.length]!;
    const id = await subject.upload(bytes);
    const fetched = await subject.download(id);
    if (!fetched.equals(bytes)) throw new WrongBytes(`${id} came back with other bytes`);
    await subject.remove(id);
  });
}

async function memory(): Promise<MemoryUse> {
  if (!globalThis.gc) throw new Error('the process was not started with --expose-gc');
  await sleep(REST_MS);
  globalThis.gc();
  globalThis.gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rssBytes: rss, heapBytes: heapUsed, externalBytes: external };
}

const handlers: ClientHandlers = {
  prepare: ({ sizes, seed }) => {
    for (const size of sizes) {
      const totalBytes = FILES_PER_SIZE * size;
      files.set(size, makeFileSet({ seed, minBytes: size, maxBytes: size, totalBytes }));
    }
  },
  open: async ({ client: name, ...options }) => {
    await close();
    client = openClient(name, options);
    opened = options;
  },
  upload: async ({ size, ...options }) => {
    await connect(current(), filesOf(size), options.concurrency);
    return upload(current(), filesOf(size), options);
  },
  download: ({ seed, ...options }) => download(current(), seed, options),
  close,
  loadCost,
  cycle: ({ size, cycles, concurrency }) => cycle(size, cycles, concurrency),
  memory,
};

serve(handlers, close);
