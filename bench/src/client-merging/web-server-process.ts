import { type FileSetOptions, makeFileSet, type SampleFile } from '../harness/file-set.js';
import { type Driven, drive, type Span, startClock } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { openNothing, openTarget, type Target, type TargetOptions } from './targets.js';

/**
 * The measured process: the web server of the paper, which uses FastDFS directly or
 * through the SDK. The load is loops in this process over files made beforehand,
 * because the SDK is called in-process too; `loadCost` tells what they cost.
 */

export interface WriteResult {
  readonly files: number;
  readonly bytes: number;
  /** Until the last file was acknowledged. */
  readonly acknowledged: Span;
  /** Until all of them were in FastDFS, from the same start. */
  readonly stored: Span;
}

/** Seconds of CPU. */
export interface LoadCost {
  readonly perUpload: number;
  readonly perFetch: number;
}

const CHECKED_FILES = 25;
const FILL_CONCURRENCY = 20;

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

async function storeAll(concurrency: number, maxSeconds?: number): Promise<Driven> {
  const to = current();
  ids = [];
  return drive({ operations: files.length, concurrency, maxSeconds }, async (index) => {
    ids[index] = await to.put(files[index]!);
  });
}

async function fetchVerified(from: Pick<Target, 'fetch'>, index: number): Promise<number> {
  const { bytes, name } = files[index]!;
  const fetched = await from.fetch(ids[index]!);
  if (!fetched.equals(bytes)) throw new Error(`${name} came back with other bytes`);
  return fetched.length;
}

const handlers = {
  prepare(options: FileSetOptions): void {
    files = makeFileSet(options);
  },
  async open(options: TargetOptions): Promise<void> {
    target = await openTarget(options);
  },
  async close(): Promise<void> {
    await target?.close();
    target = undefined;
  },
  /** Stores the first files once and waits until they are settled. */
  async warmUp(count: number): Promise<void> {
    const to = current();
    const operations = Math.min(count, files.length);
    await drive({ operations, concurrency: FILL_CONCURRENCY }, async (index) => {
      others.push(await to.put(files[index]!));
    });
    await to.settle();
  },
  async write({
    concurrency,
    maxSeconds,
  }: {
    readonly concurrency: number;
    readonly maxSeconds: number | undefined;
  }): Promise<WriteResult> {
    const clock = startClock();
    const { operations } = await storeAll(concurrency, maxSeconds);
    const acknowledged = clock();
    await current().settle();
    const stored = clock();
    const step = Math.max(1, Math.floor(operations / CHECKED_FILES));
    for (let index = 0; index < operations; index += step) await fetchVerified(current(), index);
    const bytes = files.slice(0, operations).reduce((sum, file) => sum + file.bytes.length, 0);
    return { files: operations, bytes, acknowledged, stored };
  },
  /** Stores the whole set, for `fetch`. */
  async fill(): Promise<void> {
    await storeAll(FILL_CONCURRENCY);
    await current().settle();
  },
  /**
   * Random files of the set; every one is compared with what was stored. `isOnce`: no file twice;
   * it ends with the set.
   */
  async fetch({
    concurrency,
    seconds: maxSeconds,
    seed,
    isOnce,
  }: {
    readonly concurrency: number;
    readonly seconds: number;
    readonly seed: number;
    readonly isOnce: boolean;
  }): Promise<Driven & { readonly bytes: number }> {
    const from = current();
    const random = new SeededRandom(seed);
    const order = isOnce ? random.shuffled(ids.keys()) : undefined;
    let bytes = 0;
    const operations = order?.length ?? Infinity;
    const driven = await drive({ operations, concurrency, maxSeconds }, async (index) => {
      // Not `bytes += await`: that would read the sum before the wait.
      const count = await fetchVerified(from, order?.[index] ?? random.below(ids.length));
      bytes += count;
    });
    return { ...driven, bytes };
  },
  /** Bytes of stored files on this machine's own disk. */
  localBytes: (): number => current().localBytes(),
  /** Deletes all that was stored since `open`. */
  async removeAll(): Promise<void> {
    const from = current();
    const all = [...others, ...ids];
    others = [];
    ids = [];
    const load = { operations: all.length, concurrency: FILL_CONCURRENCY };
    await drive(load, (index) => from.remove(all[index]!));
    await from.emptied();
  },
  async loadCost(operations: number): Promise<LoadCost> {
    const nothing = openNothing(files);
    const load = { operations, concurrency: FILL_CONCURRENCY };
    const stored: string[] = [];
    const uploads = await drive(load, async (index) => {
      const place = index % files.length;
      stored[place] = await nothing.put(files[place]!);
    });
    ids = files.map((_, index) => String(index));
    const random = new SeededRandom(0);
    const fetches = await drive(load, () => fetchVerified(nothing, random.below(ids.length)));
    ids = [];
    return {
      perUpload: uploads.cpuSeconds / operations,
      perFetch: fetches.cpuSeconds / operations,
    };
  },
};

export type WebServerHandlers = typeof handlers;

serve(handlers, handlers.close);
