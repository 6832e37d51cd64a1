import { type FileSetOptions, makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive, type Driven as LoadResult } from '../harness/load.js';
import { cpuUsed } from '../harness/process-cpu.js';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import {
  type DirectOptions,
  type MergingOptions,
  openDirect,
  openMerging,
  openNothing,
  type Target,
} from './targets.js';

/**
 * The measured process: the web server of the paper, which uses FastDFS directly or
 * through the SDK. The load is loops in this process over files made beforehand,
 * because the SDK is called in-process too; `loadCost` tells what they cost.
 */

export type TargetChoice =
  | ({ readonly kind: 'direct' } & DirectOptions)
  | ({ readonly kind: 'merging' } & MergingOptions);

export interface Span {
  readonly seconds: number;
  /** CPU time of this process. */
  readonly cpuSeconds: number;
}

export interface WriteResult {
  readonly files: number;
  readonly bytes: number;
  /** Until the last file was acknowledged. */
  readonly acknowledged: Span;
  /** Until all of them were in FastDFS, from the same start. */
  readonly stored: Span;
}

export interface FetchResult extends Span {
  readonly fetches: number;
  readonly bytes: number;
}

export interface LoadCost {
  readonly cpuSecondsPerUpload: number;
  readonly cpuSecondsPerFetch: number;
}

export type WebServerHandlers = {
  readonly prepare: (options: FileSetOptions) => void;
  readonly open: (choice: TargetChoice) => Promise<void>;
  readonly close: () => Promise<void>;
  /** Stores the first files once and waits until they are settled. */
  readonly warmUp: (files: number) => Promise<void>;
  readonly write: (options: {
    readonly concurrency: number;
    readonly maxSeconds: number | undefined;
  }) => Promise<WriteResult>;
  /** Stores the whole set, for `fetch`. */
  readonly fill: () => Promise<void>;
  /**
   * Random files of the set; every one is compared with what was stored. `isOnce`: no file twice;
   * it ends with the set.
   */
  readonly fetch: (options: {
    readonly concurrency: number;
    readonly seconds: number;
    readonly seed: number;
    readonly isOnce: boolean;
  }) => Promise<FetchResult>;
  /** Bytes of stored files on this machine's own disk. */
  readonly localBytes: () => number;
  /** Deletes all that was stored since `open`. */
  readonly removeAll: () => Promise<void>;
  readonly loadCost: (operations: number) => Promise<LoadCost>;
};

const CHECKED_FILES = 25;
const FILL_CONCURRENCY = 20;
const MAX_FETCHES = 10_000_000;

let files: readonly SampleFile[] = [];
let target: Target | undefined;
/** By index of the set, where the file was stored. */
let ids: string[] = [];
/** What else was stored. */
let others: string[] = [];

function current(): Target {
  if (!target) throw new Error('no target is open');
  return target;
}

async function storeAll(concurrency: number, maxSeconds?: number): Promise<LoadResult> {
  const to = current();
  ids = [];
  const load = { operations: files.length, concurrency };
  return drive(maxSeconds === undefined ? load : { ...load, maxSeconds }, async (index) => {
    ids[index] = await to.put(files[index]!);
  });
}

async function fetchVerified(from: Target, index: number): Promise<number> {
  const { bytes, name } = files[index]!;
  const fetched = await from.fetch(ids[index]!);
  if (!fetched.equals(bytes)) throw new Error(`${name} came back with other bytes`);
  return fetched.length;
}

async function warmUp(count: number): Promise<void> {
  const to = current();
  const operations = Math.min(count, files.length);
  await drive({ operations, concurrency: FILL_CONCURRENCY }, async (index) => {
    others.push(await to.put(files[index]!));
  });
  await to.settle();
}

async function write({
  concurrency,
  maxSeconds,
}: Parameters<WebServerHandlers['write']>[0]): Promise<WriteResult> {
  const clock = startClock();
  const { operations } = await storeAll(concurrency, maxSeconds);
  const acknowledged = clock();
  await current().settle();
  const stored = clock();
  const step = Math.max(1, Math.floor(operations / CHECKED_FILES));
  for (let index = 0; index < operations; index += step) await fetchVerified(current(), index);
  const bytes = files.slice(0, operations).reduce((sum, file) => sum + file.bytes.length, 0);
  return { files: operations, bytes, acknowledged, stored };
}

async function fill(): Promise<void> {
  await storeAll(FILL_CONCURRENCY);
  await current().settle();
}

async function fetch({
  concurrency,
  seconds,
  seed,
  isOnce,
}: Parameters<WebServerHandlers['fetch']>[0]): Promise<FetchResult> {
  const from = current();
  const random = seededRandom(seed);
  let bytes = 0;
  const clock = startClock();
  const order = isOnce ? shuffled(ids.length, random) : undefined;
  const most = order?.length ?? MAX_FETCHES;
  const load = { operations: most, concurrency, maxSeconds: seconds };
  const { operations } = await drive(load, async (index) => {
    const file = order?.[index] ?? Math.floor(random() * ids.length);
    // Not `bytes += await`: that would read the sum before the wait.
    const count = await fetchVerified(from, file);
    bytes += count;
  });
  return { ...clock(), fetches: operations, bytes };
}

function shuffled(count: number, random: () => number): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  for (let last = count - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

async function removeAll(): Promise<void> {
  const from = current();
  const all = [...others, ...ids];
  others = [];
  ids = [];
  await drive({ operations: all.length, concurrency: FILL_CONCURRENCY }, (index) =>
    from.remove(all[index]!),
  );
  await from.emptied();
}

async function loadCost(operations: number): Promise<LoadCost> {
  const nothing = openNothing(files);
  const load = { operations, concurrency: FILL_CONCURRENCY };
  const before = cpuUsed();
  const stored: string[] = [];
  await drive(load, async (index) => {
    const place = index % files.length;
    stored[place] = await nothing.put(files[place]!);
  });
  const between = cpuUsed();
  ids = files.map((_, index) => String(index));
  const random = seededRandom(0);
  await drive(load, async () => {
    await fetchVerified(nothing, Math.floor(random() * ids.length));
  });
  const after = cpuUsed();
  ids = [];
  return {
    cpuSecondsPerUpload: (between - before) / operations,
    cpuSecondsPerFetch: (after - between) / operations,
  };
}

function startClock(): () => Span {
  const start = performance.now();
  const cpuSeconds = cpuUsed();
  return () => ({
    seconds: (performance.now() - start) / 1000,
    cpuSeconds: cpuUsed() - cpuSeconds,
  });
}

const handlers: WebServerHandlers = {
  prepare: (options) => {
    files = makeFileSet(options);
  },
  open: async (choice) => {
    target = choice.kind === 'direct' ? openDirect(choice) : await openMerging(choice);
  },
  close: async () => {
    await target?.close();
    target = undefined;
  },
  warmUp,
  write,
  fill,
  fetch,
  localBytes: () => current().localBytes(),
  removeAll,
  loadCost,
};

serve(handlers, async () => {
  await target?.close();
});
