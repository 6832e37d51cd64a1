import { open as openFile } from 'node:fs/promises';
import { open } from '@stevedore/client';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { Staging } from '@stevedore/staging';
import { type FileSetOptions, makeFileSet, type SampleFile } from '../harness/file-set.js';
import { drive, type Span, startClock } from '../harness/load.js';
import { newFile, stagingOptions } from './small-files.js';
import { absentTrunkStore } from './trunk-stores.js';

/** The measured process: uploads through the SDK, Staging alone, or a plain loop. */

export interface Written extends Span {
  readonly files: number;
  readonly bytes: number;
}

const WARM_UP_FILES = 1_000;
const IN_FLIGHT = 64;
const SEGMENT_HEADER_BYTES = 32;

let files: readonly SampleFile[] = [];
let staging: Staging | undefined;
/** Bytes of every write of records, and how many were durable without a sync behind them. */
const noted = { batches: [] as number[], durable: 0 };

async function writeAll(
  set: readonly SampleFile[],
  put: (file: SampleFile) => Promise<unknown>,
): Promise<Written> {
  const load = { operations: set.length, concurrency: IN_FLIGHT };
  const { seconds, cpuSeconds } = await drive(load, (index) => put(set[index]!));
  const bytes = set.reduce((sum, file) => sum + file.bytes.length, 0);
  return { files: set.length, bytes, seconds, cpuSeconds };
}

async function stageOne(file: SampleFile): Promise<void> {
  if (!staging) throw new Error('nothing is open');
  const { name, type, bytes } = file;
  await staging.acceptance.stage([{ ...newFile(staging, 0, bytes), name, type }]);
}

/** A disk that notes writes of records, and has each written as the disk below would. */
function noting(disk: Disk): Disk {
  return decoratedDisk(disk, {
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
      const { writeDurablyAt } = file;
      if (writeDurablyAt) {
        changed.writeDurablyAt = (chunks, position) => {
          note(chunks, true);
          return writeDurablyAt.call(file, chunks, position);
        };
        changed.releaseDurable = async () => file.releaseDurable?.();
      }
      return decoratedFile(file, changed);
    },
  });
}

export function prepare(options: FileSetOptions): void {
  files = makeFileSet(options);
}

/** Stores the set through the SDK; ends with the last acknowledgement. */
export async function upload(directory: string, durability: 'sync' | 'os'): Promise<Written> {
  await using store = await open({ directory, durability, trunkSize: '2GiB', mergeMaxAge: '24h' });
  const put = ({ bytes, name, type }: SampleFile) => store.put(bytes, { name, type });
  await writeAll(files.slice(0, WARM_UP_FILES), put);
  return await writeAll(files, put);
}

export async function openStaging(directory: string): Promise<void> {
  const options = { durability: 'sync' as const, disk: noting(localDisk) };
  staging = await Staging.open(stagingOptions(directory, absentTrunkStore(), options));
  await writeAll(files.slice(0, WARM_UP_FILES), stageOne);
}

/** Stages a part of the set, durably; also tells what was written by each sync. */
export async function stage(part: number, parts: number) {
  const size = Math.floor(files.length / parts);
  noted.batches = [];
  noted.durable = 0;
  const own = files.slice(part * size, (part + 1) * size);
  return { ...(await writeAll(own, stageOne)), ...noted };
}

export async function closeStaging(): Promise<void> {
  await staging?.close();
  staging = undefined;
}

/** Appends so many bytes and makes them durable, one batch after the other. */
export async function append(path: string, batches: readonly number[]): Promise<Written> {
  const source = Buffer.alloc(Math.max(...batches));
  for (let at = 0; at < source.length; ) {
    at += files[at % files.length]!.bytes.copy(source, at);
  }
  await using file = await openFile(path, 'wx');
  const clock = startClock();
  let position = 0;
  for (const bytes of batches) {
    const { bytesWritten } = await file.write(source, 0, bytes, position);
    if (bytesWritten !== bytes) throw new Error('a short write');
    await file.datasync();
    position += bytes;
  }
  return { files: batches.length, bytes: position, ...clock() };
}
