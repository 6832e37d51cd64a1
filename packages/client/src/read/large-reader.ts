import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import {
  BLOCK_BYTES,
  BlockChecksums,
  blockCrc,
  isBlockListOf,
  isStoreError,
} from '@stevedore/staging';
import type { ByteRange } from '../store/types.js';
import { corrupt, worse } from './failures.js';

/**
 * Reads large files, whole or in part, and checks every byte before it is sent. A file has a CRC-32
 * for each block of 256 KiB, computed when it was uploaded. A wrong block, and all after it, are
 * read from the next source. A file of another program has no such list: the first read of a part
 * reads the whole file once to compute it, and a read of the whole file holds back its last block
 * until the CRC-32 of the file is known to be right.
 *
 * Each block is fetched separately, one ahead of the reader: a slow reader holds two blocks, and no
 * connection or open file.
 */

/** A place of the file's bytes: the spool, or a storage. */
export interface LargeSource {
  /** True for whichever storages answer. */
  readonly isAny?: true;
  /** Bytes of the file; may fail with `missing_in_fastdfs` or `storage_unavailable`. */
  read(start: number, length: number): Promise<Buffer>;
  /** Called if its bytes are wrong. */
  onDamage(): void;
}

export interface LargeFile {
  readonly name: string;
  readonly size: number;
  /** Undefined for a file that may change: its bytes cannot be checked. */
  readonly crc32: number | undefined;
  /** Checksums of its blocks, if known. */
  readonly blocks: Buffer | undefined;
  keepBlocks(list: Buffer): void;
  /** In the order in which to try them. */
  sources(): AsyncIterable<LargeSource>;
}

/** Resolves once the first bytes are known to be right. */
export async function readLarge(file: LargeFile, range: ByteRange | undefined): Promise<Readable> {
  const wanted = range ?? { start: 0, end: file.size - 1 };
  const isWhole = wanted.start === 0 && wanted.end === file.size - 1;
  const chunks = await chunksOf(file, wanted, isWhole);
  const first = await chunks.next();
  const content = async function* (): AsyncGenerator<Buffer> {
    if (!first.done) yield first.value;
    yield* chunks;
  };
  const stream = Readable.from(content(), { objectMode: false, highWaterMark: 1 });
  // Needed if reading never began.
  stream.once('close', () => void chunks.return().catch(() => undefined));
  return stream;
}

async function chunksOf(
  file: LargeFile,
  range: ByteRange,
  isWhole: boolean,
): Promise<AsyncGenerator<Buffer, void>> {
  if (file.crc32 === undefined) return unchecked(file, range);
  if (file.blocks) return byBlocks(file, file.blocks, range);
  return isWhole ? asWhole(file) : byBlocks(file, await learn(file), range);
}

/** Yields the range block by block; after a failure, the rest comes from the next source. */
async function* byBlocks(
  file: LargeFile,
  list: Buffer,
  { start, end }: ByteRange,
): AsyncGenerator<Buffer, void> {
  const last = Math.floor(end / BLOCK_BYTES);
  let block = Math.floor(start / BLOCK_BYTES);
  let failure: unknown;
  for await (const source of file.sources()) {
    try {
      const until = Math.min((last + 1) * BLOCK_BYTES, file.size);
      for await (const bytes of blocksOf(source, file, block * BLOCK_BYTES, until)) {
        if (crc32(bytes) !== blockCrc(list, block)) throw corrupt(file.name);
        const at = block * BLOCK_BYTES;
        block += 1;
        yield bytes.subarray(Math.max(0, start - at), Math.min(bytes.length, end + 1 - at));
      }
      return;
    } catch (error) {
      failure = nextFailure(error, failure, source);
    }
  }
  throw failure ?? corrupt(file.name);
}

/** For a file without block checksums: the last block waits for the CRC-32 of the whole file. */
async function* asWhole(file: LargeFile): AsyncGenerator<Buffer, void> {
  let failure: unknown;
  for await (const source of file.sources()) {
    let sent = 0;
    try {
      const checksums = new BlockChecksums();
      let held: Buffer | undefined;
      for await (const block of blocksOf(source, file, 0, file.size)) {
        checksums.add(block);
        if (held) {
          sent += held.length;
          yield held;
        }
        held = block;
      }
      keepSound(file, checksums.list());
      if (held) yield held;
      return;
    } catch (error) {
      failure = nextFailure(error, failure, source);
      if (sent > 0) throw error;
    }
  }
  throw failure ?? corrupt(file.name);
}

/** Reads the whole file once to compute its block checksums. */
async function learn(file: LargeFile): Promise<Buffer> {
  let failure: unknown;
  for await (const source of file.sources()) {
    try {
      const checksums = new BlockChecksums();
      for await (const block of blocksOf(source, file, 0, file.size)) checksums.add(block);
      return keepSound(file, checksums.list());
    } catch (error) {
      failure = nextFailure(error, failure, source);
    }
  }
  throw failure ?? corrupt(file.name);
}

/** Throws `corrupt` if the list is not that of the file. */
function keepSound(file: LargeFile, list: Buffer): Buffer {
  const { size, crc32: expected = 0 } = file;
  if (!isBlockListOf(list, { size, crc32: expected })) throw corrupt(file.name);
  file.keepBlocks(list);
  return list;
}

async function* unchecked(
  file: LargeFile,
  { start, end }: ByteRange,
): AsyncGenerator<Buffer, void> {
  for await (const source of file.sources()) {
    yield* blocksOf(source, file, start, end + 1);
    return;
  }
}

/** The error to throw if no other source has the file. Throws if none should be tried. */
function nextFailure(error: unknown, before: unknown, source: LargeSource): unknown {
  if (isStoreError(error, 'aborted')) throw error;
  if (isStoreError(error, 'corrupt')) source.onDamage();
  return worse(before, error);
}

/** The bytes from `start` to before `end`, cut every 256 KiB. Reads one block ahead. */
async function* blocksOf(
  source: LargeSource,
  { name }: LargeFile,
  start: number,
  end: number,
): AsyncGenerator<Buffer, void> {
  let ahead: Promise<Buffer> | undefined;
  const fetch = (from: number): Promise<Buffer> => {
    const block = source.read(from, Math.min(BLOCK_BYTES, end - from));
    // An error is thrown where the block is awaited, which may be later.
    block.catch(() => undefined);
    return block;
  };
  for (let at = start; at < end; at += BLOCK_BYTES) {
    const block = await (ahead ?? fetch(at));
    if (block.length !== Math.min(BLOCK_BYTES, end - at)) throw corrupt(name);
    ahead = at + BLOCK_BYTES < end ? fetch(at + BLOCK_BYTES) : undefined;
    yield block;
  }
}
