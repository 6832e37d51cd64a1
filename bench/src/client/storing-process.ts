import { type FileSetOptions, makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive, type Load, type Span, startClock } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { openTarget, type Target, type TargetOptions } from './targets.js';

/**
 * The measured process: an application that stores files and fetches them again, with a client or
 * through the SDK. The load is loops in this process over files made beforehand, because both are
 * called in-process; a target that moves nothing tells what the loops cost. A call that fails is
 * counted and the loop goes on; wrong bytes end the benchmark.
 */

export interface Transfer extends Span {
  /** Those that succeeded. */
  readonly operations: number;
  readonly bytes: number;
  readonly errors: number;
  /** Undefined if none failed. */
  readonly firstError: string | undefined;
}

export interface Upload extends Transfer {
  /** Until all of them were in FastDFS, from the same start. */
  readonly stored: Span;
}

const REMOVED_AT_ONCE = 20;

/** By what they were made of: the same ones each time. */
const sets = new Map<string, readonly SampleFile[]>();
let files: readonly SampleFile[] = [];
let target: Target | undefined;
let stored: (readonly [id: string, file: SampleFile])[] = [];

function current(): Target {
  if (!target) throw new Error('nothing is open');
  return target;
}

class WrongBytes extends Error {}

async function transfer(load: Load, one: (index: number) => Promise<number>): Promise<Transfer> {
  let [operations, bytes, errors] = [0, 0, 0];
  let firstError: string | undefined;
  const { seconds, cpuSeconds } = await drive(load, async (index) => {
    try {
      // Not `bytes += await`: that would read the sum before the wait.
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

async function fetchOne([id, { bytes }]: (typeof stored)[number]): Promise<number> {
  const fetched = await current().fetch(id);
  if (!fetched.equals(bytes)) throw new WrongBytes(`${id} came back with other bytes`);
  return bytes.length;
}

export function prepare(options: FileSetOptions): void {
  const name = JSON.stringify(options);
  files = sets.get(name) ?? makeFileSet(options);
  sets.set(name, files);
}

export { useWire } from '../harness/wire.js';

export async function open(options: TargetOptions): Promise<void> {
  target = await openTarget(options, files);
}

export async function close(): Promise<void> {
  await target?.close();
  target = undefined;
}

/** Files of the set in their order, and again from its beginning; `checked`: so many are fetched. */
export async function upload(load: Load, checked = 0): Promise<Upload> {
  const to = current();
  const own: typeof stored = [];
  const clock = startClock();
  const acknowledged = await transfer(load, async (index) => {
    const file = files[index % files.length]!;
    own.push([await to.put(file), file]);
    return file.bytes.length;
  });
  await to.settle();
  const all = clock();
  const step = Math.max(1, Math.floor(own.length / Math.max(1, checked)));
  for (let at = 0; checked > 0 && at < own.length; at += step) await fetchOne(own[at]!);
  stored = stored.concat(own);
  return { ...acknowledged, stored: all };
}

/** The whole set, once. */
export function fill(load: Load, checked?: number): Promise<Upload> {
  return upload({ ...load, operations: files.length }, checked);
}

/**
 * Random files of those uploaded; every byte of them is compared. `isOnce`: no file twice; it ends
 * with the last one.
 */
export function fetch(load: Load, seed: number, isOnce = false): Promise<Transfer> {
  const random = new SeededRandom(seed);
  const order = isOnce ? random.shuffled(stored) : undefined;
  const operations = order?.length ?? load.operations ?? Infinity;
  return transfer({ ...load, operations }, (index) =>
    fetchOne(order?.[index] ?? stored[random.below(stored.length)]!),
  );
}

/** Bytes of stored files on this machine's own disk. */
export const localBytes = (): number => current().localBytes();

/** Deletes all that was uploaded. */
export async function removeAll(): Promise<void> {
  const from = current();
  const all = stored;
  stored = [];
  const load = { operations: all.length, concurrency: REMOVED_AT_ONCE };
  await drive(load, async (index) => from.remove(all[index]![0]));
  await from.emptied();
}
