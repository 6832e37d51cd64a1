import { setTimeout as sleep } from 'node:timers/promises';
import { makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive, type Span } from '../harness/load.js';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { type Client, type ClientOptions, openClient } from './clients.js';
import { SEED } from './plan.js';

/**
 * The measured process: one client, and loops that call it over files made
 * beforehand; a client that moves nothing tells what the loops cost. A call that fails, or gives no
 * result for long, is counted and the loop goes on; wrong bytes end the benchmark.
 */

export interface TransferResult extends Span {
  /** Those that succeeded. */
  readonly operations: number;
  readonly bytes: number;
  readonly errors: number;
  /** Undefined if none failed. */
  readonly firstError: string | undefined;
}

interface Transfer {
  readonly seconds: number;
  readonly concurrency: number;
}

interface Stored {
  readonly id: string;
  readonly file: SampleFile;
}

const FILES_PER_SIZE = 256;
const REMOVE_CONNECTIONS = 16;
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

class WrongBytes extends Error {}

async function transfer(
  { seconds: maxSeconds, concurrency }: Transfer,
  one: (index: number) => Promise<number>,
): Promise<TransferResult> {
  let [operations, bytes, errors] = [0, 0, 0];
  let firstError: string | undefined;
  const { seconds, cpuSeconds } = await drive({ concurrency, maxSeconds }, async (index) => {
    try {
      const moved = await one(index);
      bytes += moved;
      operations += 1;
    } catch (error) {
      if (error instanceof WrongBytes) throw error;
      errors += 1;
      firstError ??= String(error);
    }
  });
  if (operations === 0) throw new Error(`nothing succeeded: ${firstError}`);
  return { operations, bytes, seconds, cpuSeconds, errors, firstError };
}

async function uploadOne(to: Client, file: SampleFile): Promise<number> {
  const id = await limited(to.upload(file.bytes));
  stored.push({ id, file });
  return file.bytes.length;
}

async function downloadOne(from: Client, { id, file }: Stored): Promise<number> {
  const fetched = await limited(from.download(id));
  if (!fetched.equals(file.bytes)) throw new WrongBytes(`${id} came back with other bytes`);
  return fetched.length;
}

function limited<T>(call: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no result within ${CALL_LIMIT_MS} ms`));
    const timer = setTimeout(late, CALL_LIMIT_MS);
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
  const connections = REMOVE_CONNECTIONS;
  const remover = openClient('stevedore', { trackers: opened.trackers, connections }, []);
  try {
    const load = { operations: all.length, concurrency: connections };
    await drive(load, async (index) => remover.remove(all[index]!.id));
  } finally {
    await remover.close();
  }
}

async function close(): Promise<void> {
  if (opened && opened.trackers.length > 0) await removeStored();
  await client?.close();
  client = undefined;
  opened = undefined;
  stored = [];
}

const handlers = {
  /** Makes files of these sizes; the same ones each time. */
  prepare(sizes: readonly number[]): void {
    for (const size of sizes) {
      const totalBytes = FILES_PER_SIZE * size;
      files.set(size, makeFileSet({ seed: SEED, minBytes: size, maxBytes: size, totalBytes }));
    }
  },
  async open({
    client: name,
    ...options
  }: ClientOptions & { readonly client: Parameters<typeof openClient>[0] }): Promise<void> {
    await close();
    client = openClient(name, options, [...files.values()].flat());
    opened = options;
  },
  async upload({
    size,
    ...options
  }: Transfer & { readonly size: number }): Promise<TransferResult> {
    const [to, set] = [current(), filesOf(size)];
    // A pool lives long: that it fills is no part of a measurement. So for both clients.
    const begun = set.slice(0, options.concurrency).map((file) => uploadOne(to, file));
    for (const outcome of await Promise.allSettled(begun)) {
      if (outcome.status === 'rejected') console.error(`before the clock: ${outcome.reason}`);
    }
    return transfer(options, (index) => uploadOne(to, set[index % set.length]!));
  },
  /** Random files of those uploaded; every byte of them is compared. */
  download({ seed, ...options }: Transfer & { readonly seed: number }): Promise<TransferResult> {
    const from = current();
    const random = seededRandom(seed);
    return transfer(options, () =>
      downloadOne(from, stored[Math.floor(random() * stored.length)]!),
    );
  },
  /** Deletes what was uploaded since `open`, and closes the client. */
  close,
  /** Uploads a file, downloads it, compares it and deletes it, so many times. */
  async cycle({
    size,
    cycles,
    concurrency,
  }: {
    readonly size: number;
    readonly cycles: number;
    readonly concurrency: number;
  }): Promise<void> {
    const subject = current();
    const set = filesOf(size);
    await drive({ operations: cycles, concurrency }, async (index) => {
      const file = set[index % set.length]!;
      const id = await subject.upload(file.bytes);
      await downloadOne(subject, { id, file });
      await subject.remove(id);
    });
  },
  /** After everything that is not in use was collected. Needs `--expose-gc`. */
  async memory(): Promise<NodeJS.MemoryUsage> {
    if (!globalThis.gc) throw new Error('the process was not started with --expose-gc');
    await sleep(REST_MS);
    globalThis.gc();
    globalThis.gc();
    return process.memoryUsage();
  },
};

export type ClientHandlers = typeof handlers;

serve(handlers, close);
