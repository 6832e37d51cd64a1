import { crc32 } from 'node:zlib';
import { type Disk, privateDisk } from '@stevedore/disk';
import type { Acceptance } from '../accept/acceptance.js';
import { type FileFacts, type NewFile, smallFile, spooledFile } from '../container/records.js';
import { openFileMap, replayContainer } from '../container/recovery.js';
import type { Segment } from '../container/segment.js';
import { Spool } from '../container/spool.js';
import { StoreError } from '../errors.js';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import type { Outbox } from '../filemap/outbox.js';
import { formatKey } from '../key.js';
import { waitingFrom } from '../merge/waiting-files.js';
import { settleKnown } from '../repair/rebuild.js';
import { soundBytes } from '../repair/sound-bytes.js';
import type { State } from '../state.js';

/**
 * A directory whose files another gateway has adopted: what its disk alone may have of them. Nothing
 * in it is merged, deleted or moved any more. The adopter stages what it lacks, under the same keys.
 */
export class ReturnedFiles {
  readonly #fileMap: FileMap;
  readonly #segments: readonly Segment[];
  readonly #spool: Spool;

  private constructor(fileMap: FileMap, segments: readonly Segment[], spool: Spool) {
    this.#fileMap = fileMap;
    this.#segments = segments;
    this.#spool = spool;
  }

  /** No other process may use the directory. */
  static async open(
    directory: string,
    now: number,
    report: (error: Error) => void,
    disk: Disk = privateDisk,
  ): Promise<ReturnedFiles> {
    const fileMap = await openFileMap(directory, 'as before', now, report);
    try {
      const { segments } = await replayContainer(disk, `${directory}/container`, fileMap, now);
      await settleKnown(fileMap);
      return new ReturnedFiles(fileMap, segments, new Spool(disk, `${directory}/spool`));
    } catch (error) {
      await fileMap.close();
      throw error;
    }
  }

  /** What the map has not heard of. */
  get outbox(): Outbox | undefined {
    return this.#fileMap.outbox;
  }

  /** Files not yet in a trunk. Derived ones can be made again. */
  *waiting(): Generator<FileRow> {
    for (const row of waitingFrom(this.#fileMap, 0)) if (!row.pictureOf) yield row;
  }

  /** Rejects with `corrupt` if the bytes are not those that were stored. */
  async *read(row: FileRow): AsyncGenerator<Buffer> {
    if (row.local.at === 'spool') return yield* this.#spool.read(row.key, row);
    const segment = (number: number) => this.#segments.find((each) => each.number === number);
    const bytes = await soundBytes({ segment }, row);
    if (!bytes) throw new StoreError('corrupt', `the bytes of ${formatKey(row.key)} are damaged`);
    yield bytes;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#segments.map((segment) => segment.close()));
    await this.#fileMap.close();
  }
}

/** A file that comes back, as its adopter hears of it. */
export interface ReturnedFile {
  readonly key: Buffer;
  readonly size: number;
  readonly crc32: number;
  /** As in a trunk's directory. */
  readonly about: string;
  readonly isLarge: boolean;
}

/** Stages a file under the key that it has. Rejects with `corrupt` if the body is another one. */
export async function restore(
  { copies }: State,
  acceptance: Acceptance,
  facts: FileFacts & { readonly isLarge: boolean },
  body: AsyncIterable<Uint8Array>,
): Promise<void> {
  const file = await (facts.isLarge ? large : small)(acceptance, facts, body);
  const isCopied = await acceptance.stage([file]);
  await copies?.secure([file], isCopied);
}

async function small(_: Acceptance, facts: FileFacts, body: AsyncIterable<Uint8Array>) {
  const chunks: Uint8Array[] = [];
  let [size, crc] = [0, 0];
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    crc = crc32(chunk, crc);
    if (size > facts.size) break;
  }
  demandSame(facts, size, crc);
  return smallFile(facts, chunks);
}

async function large(
  acceptance: Acceptance,
  facts: FileFacts,
  body: AsyncIterable<Uint8Array>,
): Promise<NewFile> {
  const spool = await acceptance.beginSpooled(facts.key, facts.size);
  try {
    for await (const chunk of body) await spool.write([chunk]);
    demandSame(facts, spool.size, spool.crc32);
    await spool.finish(true);
    return spooledFile(facts, spool.blocks);
  } catch (error) {
    await spool.discard();
    throw error;
  }
}

function demandSame({ key, size, crc32: expected }: FileFacts, bytes: number, crc: number): void {
  if (bytes === size && crc === expected) return;
  throw new StoreError('corrupt', `the bytes that came back of ${formatKey(key)} are not its own`);
}
