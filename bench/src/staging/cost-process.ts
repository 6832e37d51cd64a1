import { Staging } from '@stevedore/staging';
import { type Driven, drive } from '../harness/load.js';
import { BODY_BYTES, makeLargeDirectory, TRUNK_FILES } from './large-filemap.js';
import { bodyOf, generatedKey, newFile, stagingOptions } from './small-files.js';
import { forgettingTrunkStore } from './trunk-stores.js';

/** The measured process: put, get and delete in a directory of so many files. */

const IN_FLIGHT = 64;
const WARM_UP = 1_000;
/** One file of so many is there to be deleted, the others are there to be read. */
const DELETABLE = 4;
/** Prime, and no divisor of the numbers of files: goes through them without order. */
const STRIDE = 999_983;

let staging: Staging | undefined;
let merged = 0;

function current(): Staging {
  if (!staging) throw new Error('nothing is open');
  return staging;
}

async function put(index: number): Promise<Buffer> {
  const file = newFile(current(), index, bodyOf(index, BODY_BYTES));
  await current().acceptance.stage([file]);
  return file.key;
}

/** The n-th file to be deleted: never the same twice. */
function deletableRow(index: number): number {
  const all = merged / DELETABLE;
  if (index >= all) throw new Error('there is nothing left to delete');
  return ((index * STRIDE) % all) * DELETABLE;
}

function readableRow(index: number): number {
  const row = (index * STRIDE) % merged;
  return row % DELETABLE === 0 ? row + 1 : row;
}

const operations = {
  put,
  async get(index: number): Promise<void> {
    const row = readableRow(index);
    const found = current().fileMap.find(generatedKey(row));
    const bytes = found && (await current().local.read(found));
    if (!bytes?.equals(bodyOf(row % TRUNK_FILES, BODY_BYTES))) {
      throw new Error(`row ${row} is lost`);
    }
  },
  async delete(index: number): Promise<void> {
    const row = deletableRow(index);
    const isGone = await current().deletions.delete(generatedKey(row));
    if (!isGone) throw new Error(`row ${row} was not there`);
  },
  async find(index: number): Promise<void> {
    const found = current().fileMap.find(generatedKey(readableRow(index)));
    if (!found) throw new Error(`there is no row ${index}`);
  },
} as const satisfies Readonly<Record<string, (index: number) => Promise<unknown>>>;

export type Operation = keyof typeof operations;

export const make = makeLargeDirectory;

export async function open(directory: string, rows: number): Promise<void> {
  staging = await Staging.open(stagingOptions(directory, forgettingTrunkStore()));
  merged = rows - TRUNK_FILES;
  const keys: Buffer[] = [];
  const warmUp = { operations: WARM_UP, concurrency: IN_FLIGHT };
  await drive(warmUp, async (index) => {
    keys[index] = await put(index);
  });
  await drive(warmUp, operations.get);
  await drive(warmUp, async (index) => current().deletions.delete(keys[index]!));
}

/** `from`: number of the first operation; each number is another file. */
export function run(operation: Operation, from: number, count: number): Promise<Driven> {
  return drive({ operations: count, concurrency: IN_FLIGHT }, (index) =>
    operations[operation](from + index),
  );
}

export async function close(): Promise<void> {
  await staging?.close();
  staging = undefined;
}
