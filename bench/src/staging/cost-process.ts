import { crc32 } from 'node:zlib';
import { Staging, smallFile } from '@stevedore/staging';
import { drive } from '../harness/load.js';
import { cpuUsed, serve } from '../harness/serve.js';
import { bodyOf, generatedKey } from './bodies.js';
import { BODY_BYTES, makeLargeDirectory, TRUNK_FILES } from './large-filemap.js';
import { IN_FLIGHT } from './plan.js';
import { stagingOptions } from './staging-options.js';
import { forgettingTrunkStore } from './trunk-stores.js';

/** The measured process: put, get and delete in a directory of so many files. */

export type Operation = 'put' | 'get' | 'delete' | 'find';

export interface Cost {
  readonly operations: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

export type CostHandlers = {
  readonly make: (options: { readonly directory: string; readonly rows: number }) => Promise<void>;
  readonly open: (options: { readonly directory: string; readonly rows: number }) => Promise<void>;
  readonly warmUp: () => Promise<void>;
  /** `from`: number of the first operation; each number is another file. */
  readonly run: (options: {
    readonly operation: Operation;
    readonly from: number;
    readonly count: number;
  }) => Promise<Cost>;
  readonly rssBytes: () => number;
  readonly close: () => Promise<void>;
};

const WARM_UP = 1_000;
/** One file of so many is there to be deleted, the others are there to be read. */
const DELETABLE = 4;
/** Prime, and no divisor of the numbers of files: goes through them without order. */
const STRIDE = 999_983;

let staging: Staging | undefined;
let merged = 0;

async function put(index: number): Promise<Buffer> {
  const body = bodyOf(index, BODY_BYTES);
  const key = staging!.keys.next();
  const facts = {
    key,
    name: `put-${index}.jpg`,
    type: 'image/jpeg',
    group: undefined,
    size: body.length,
    crc32: crc32(body),
    stagedAt: Date.now(),
  };
  await staging!.acceptance.stage([smallFile(facts, [body])]);
  return key;
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

async function get(index: number): Promise<void> {
  const row = readableRow(index);
  const found = staging!.fileMap.find(generatedKey(row));
  const bytes = found && (await staging!.local.read(found));
  if (!bytes?.equals(bodyOf(row % TRUNK_FILES, BODY_BYTES))) throw new Error(`row ${row} is lost`);
}

async function remove(index: number): Promise<void> {
  const row = deletableRow(index);
  if (!(await staging!.deletions.delete(generatedKey(row))))
    throw new Error(`row ${row} was not there`);
}

async function find(index: number): Promise<void> {
  if (!staging!.fileMap.find(generatedKey(readableRow(index)))) throw new Error(`no row ${index}`);
}

const operations: Readonly<Record<Operation, (index: number) => Promise<unknown>>> = {
  put,
  get,
  delete: remove,
  find,
};

async function run({ operation, from, count }: Parameters<CostHandlers['run']>[0]): Promise<Cost> {
  const { cpuSeconds } = cpuUsed();
  const load = { operations: count, concurrency: IN_FLIGHT };
  const { seconds } = await drive(load, async (index) => {
    await operations[operation](from + index);
  });
  return { operations: count, seconds, cpuSeconds: cpuUsed().cpuSeconds - cpuSeconds };
}

async function warmUp(): Promise<void> {
  const keys: Buffer[] = [];
  const load = { operations: WARM_UP, concurrency: IN_FLIGHT };
  await drive(load, async (index) => {
    keys[index] = await put(index);
  });
  await drive(load, get);
  await drive(load, async (index) => {
    await staging!.deletions.delete(keys[index]!);
  });
}

const handlers: CostHandlers = {
  make: ({ directory, rows }) => makeLargeDirectory(directory, rows),
  open: async ({ directory, rows }) => {
    staging = await Staging.open(stagingOptions(directory, false, forgettingTrunkStore()));
    merged = rows - TRUNK_FILES;
  },
  warmUp,
  run,
  rssBytes: () => process.memoryUsage.rss(),
  close: async () => {
    await staging?.close();
    staging = undefined;
  },
};

serve(handlers, async () => {
  await staging?.close();
});
