import { type FileHandle, open as openFile } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { type FileStore, open } from '@stevedore/client';
import { type Disk, type DiskFile, decoratedFile, localDisk } from '@stevedore/disk';
import { Staging, smallFile } from '@stevedore/staging';
import { type FileSetOptions, makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive } from '../harness/load.js';
import { cpuUsed, serve } from '../harness/serve.js';
import { stagingOptions } from './staging-options.js';
import { absentTrunkStore } from './trunk-stores.js';

/** The measured process: uploads through the SDK, Staging alone, or a plain loop. */

export interface Written {
  readonly files: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

export interface Batches {
  /** Bytes of every write of records. */
  readonly batches: readonly number[];
  /** Those that were durable by themselves, without a sync behind them. */
  readonly durable: number;
}

export type WriteHandlers = {
  readonly prepare: (options: FileSetOptions) => void;
  /** Stores the set through the SDK; ends with the last acknowledgement. */
  readonly upload: (options: {
    readonly directory: string;
    readonly durability: 'sync' | 'os';
    readonly concurrency: number;
  }) => Promise<Written>;
  readonly openStaging: (directory: string) => Promise<void>;
  /** Stages a part of the set, durably; also tells what was written by each sync. */
  readonly stage: (options: {
    readonly part: number;
    readonly parts: number;
    readonly concurrency: number;
  }) => Promise<Written & Batches>;
  readonly closeStaging: () => Promise<void>;
  /** Appends so many bytes and makes them durable, one batch after the other. */
  readonly append: (options: {
    readonly path: string;
    readonly batches: readonly number[];
  }) => Promise<Written>;
};

const WARM_UP_FILES = 1_000;
const WARM_UP_CONCURRENCY = 64;
const SEGMENT_HEADER_BYTES = 32;

let files: readonly SampleFile[] = [];
let staging: Staging | undefined;
const noted = { batches: [] as number[], durable: 0 };

async function measured(
  set: readonly SampleFile[],
  concurrency: number,
  put: (file: SampleFile) => Promise<void>,
): Promise<Written> {
  const { cpuSeconds } = cpuUsed();
  const { seconds } = await drive({ operations: set.length, concurrency }, (index) =>
    put(set[index]!),
  );
  const bytes = set.reduce((sum, file) => sum + file.bytes.length, 0);
  return {
    files: set.length,
    bytes,
    seconds,
    cpuSeconds: cpuUsed().cpuSeconds - cpuSeconds,
  };
}

async function warm(concurrency: number, put: (file: SampleFile) => Promise<void>): Promise<void> {
  const operations = Math.min(WARM_UP_FILES, files.length);
  await drive({ operations, concurrency }, (index) => put(files[index]!));
}

async function upload({
  directory,
  durability,
  concurrency,
}: Parameters<WriteHandlers['upload']>[0]): Promise<Written> {
  const store: FileStore = await open({
    directory,
    durability,
    trunkSize: '2GiB',
    mergeMaxAge: '24h',
  });
  try {
    const put = async ({ bytes, name, type }: SampleFile) => {
      await store.put(bytes, { name, type });
    };
    await warm(concurrency, put);
    return await measured(files, concurrency, put);
  } finally {
    await store.close();
  }
}

async function openStaging(directory: string): Promise<void> {
  staging = await Staging.open({
    ...stagingOptions(directory, true, absentTrunkStore()),
    disk: noting(localDisk),
  });
  await warm(WARM_UP_CONCURRENCY, stageOne);
}

async function stage({
  part,
  parts,
  concurrency,
}: Parameters<WriteHandlers['stage']>[0]): ReturnType<WriteHandlers['stage']> {
  const size = Math.floor(files.length / parts);
  noted.batches = [];
  noted.durable = 0;
  const written = await measured(
    files.slice(part * size, (part + 1) * size),
    concurrency,
    stageOne,
  );
  return { ...written, ...noted };
}

async function stageOne({ bytes, name, type }: SampleFile): Promise<void> {
  const facts = {
    key: staging!.keys.next(),
    name,
    type,
    group: undefined,
    size: bytes.length,
    crc32: crc32(bytes),
    stagedAt: Date.now(),
  };
  await staging!.acceptance.stage([smallFile(facts, [bytes])]);
}

/** A disk that notes writes of records, and has each written as the disk below would. */
function noting(disk: Disk): Disk {
  return {
    ...disk,
    async create(path) {
      const file = await disk.create(path);
      const note = (chunks: readonly Uint8Array[], isDurable: boolean) => {
        const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
        if (bytes <= SEGMENT_HEADER_BYTES || !path.endsWith('.seg')) return;
        noted.batches.push(bytes);
        if (isDurable) noted.durable += 1;
      };
      const changed: Partial<DiskFile> = {
        writeAt: (chunks, position) => {
          note(chunks, false);
          return file.writeAt(chunks, position);
        },
      };
      if (file.writeDurablyAt) {
        changed.writeDurablyAt = (chunks, position) => {
          note(chunks, true);
          return file.writeDurablyAt!(chunks, position);
        };
        changed.releaseDurable = async () => file.releaseDurable?.();
      }
      return decoratedFile(file, changed);
    },
  };
}

async function append({
  path,
  batches: sizes,
}: Parameters<WriteHandlers['append']>[0]): Promise<Written> {
  const source = Buffer.alloc(Math.max(...sizes));
  for (let at = 0; at < source.length; ) {
    at += files[at % files.length]!.bytes.copy(source, at);
  }
  const file: FileHandle = await openFile(path, 'wx');
  try {
    const { cpuSeconds } = cpuUsed();
    const start = performance.now();
    let position = 0;
    for (const bytes of sizes) {
      const { bytesWritten } = await file.write(source, 0, bytes, position);
      if (bytesWritten !== bytes) throw new Error('a short write');
      await file.datasync();
      position += bytes;
    }
    const seconds = (performance.now() - start) / 1000;
    return {
      files: sizes.length,
      bytes: position,
      seconds,
      cpuSeconds: cpuUsed().cpuSeconds - cpuSeconds,
    };
  } finally {
    await file.close();
  }
}

const handlers: WriteHandlers = {
  prepare: (options) => {
    files = makeFileSet(options);
  },
  upload,
  openStaging,
  stage,
  closeStaging: async () => {
    await staging?.close();
    staging = undefined;
  },
  append,
};

serve(handlers, () => Promise.resolve());
