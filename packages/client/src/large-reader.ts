import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import {
  BLOCK_BYTES,
  BlockChecksums,
  blockCrc,
  isBlockListOf,
  isStoreError,
} from '@stevedore/staging';
import { corrupt } from './corrupt.js';
import type { ByteRange } from './types.js';

/**
 * Reads large files, whole or in part, so that no byte is handed out that was not held
 * against a checksum: the file is cut into blocks of 256 KiB whose CRC-32s are known from
 * its intake, a block is given out once it is right, and one that is wrong is read from
 * the next source, as are all behind it. A file whose checksums are not known, because an
 * earlier version or another program stored it, is read once to its end when a part of it
 * is first asked for; they are kept. A whole one is checked as it is sent: its last piece
 * is held back until its CRC-32 is known to be right.
 */

/** Where the file's bytes are: the spool, or a storage. */
export interface LargeSource {
  /** Bytes of the file from `start` on; may fail with `not_found` or `storage_unavailable`. */
  open(start: number, length: number): Promise<AsyncIterable<Buffer>>;
  /** What it gave is not the file. */
  onDamage(): void;
}

export interface LargeFile {
  readonly name: string;
  readonly size: number;
  readonly crc32: number;
  /** Checksums of its blocks, if they are known. */
  readonly blocks: Buffer | undefined;
  keepBlocks(list: Buffer): void;
  /** In the order in which they are to be tried. */
  sources(): AsyncIterable<LargeSource>;
}

/** Resolves once the first bytes are known to be right. */
export async function readLarge(file: LargeFile, range: ByteRange | undefined): Promise<Readable> {
  const isWhole = !range || (range.start === 0 && range.end === file.size - 1);
  const blocks = file.blocks ?? (isWhole ? undefined : await learn(file));
  const wanted = range ?? { start: 0, end: file.size - 1 };
  const chunks = blocks ? byBlocks(file, blocks, wanted) : asWhole(file);
  const first = await chunks.next();
  const stream = Readable.from(rest(first, chunks), { objectMode: false });
  // Also when nobody has begun to read it.
  stream.once('close', () => void chunks.return().catch(() => undefined));
  return stream;
}

async function* rest(
  first: IteratorResult<Buffer, void>,
  chunks: AsyncGenerator<Buffer, void>,
): AsyncGenerator<Buffer> {
  if (first.done) return;
  yield first.value;
  yield* chunks;
}

/** What one source after the other has of the range, block by block. */
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
      const from = block * BLOCK_BYTES;
      const until = Math.min((last + 1) * BLOCK_BYTES, file.size);
      for await (const bytes of blocksOf(await source.open(from, until - from), file.size, block)) {
        if (crc32(bytes) !== blockCrc(list, block)) throw corrupt(file.name);
        const at = block * BLOCK_BYTES;
        block += 1;
        yield bytes.subarray(Math.max(0, start - at), Math.min(bytes.length, end + 1 - at));
      }
      if (block > last) return;
      throw corrupt(file.name);
    } catch (error) {
      if (isStoreError(error, 'aborted')) throw error;
      if (isStoreError(error, 'corrupt')) source.onDamage();
      // That the bytes are wrong says more than that they could not be had.
      if (!isStoreError(failure, 'corrupt')) failure = error;
    }
  }
  throw failure ?? corrupt(file.name);
}

/** Without checksums of the blocks: the last piece waits for the sum over all. */
async function* asWhole(file: LargeFile): AsyncGenerator<Buffer, void> {
  let failure: unknown;
  for await (const source of file.sources()) {
    let sent = 0;
    try {
      const checksums = new BlockChecksums();
      let held: Buffer | undefined;
      let size = 0;
      for await (const chunk of await source.open(0, file.size)) {
        checksums.add(chunk);
        size += chunk.length;
        if (held) {
          sent += held.length;
          yield held;
        }
        held = chunk;
      }
      const list = checksums.list();
      if (size !== file.size || !isBlockListOf(list, file)) throw corrupt(file.name);
      file.keepBlocks(list);
      if (held) yield held;
      return;
    } catch (error) {
      if (isStoreError(error, 'corrupt')) source.onDamage();
      if (sent > 0 || isStoreError(error, 'aborted')) throw error;
      if (!isStoreError(failure, 'corrupt')) failure = error;
    }
  }
  throw failure ?? corrupt(file.name);
}

/** Reads the file once to its end. */
async function learn(file: LargeFile): Promise<Buffer> {
  let failure: unknown;
  for await (const source of file.sources()) {
    try {
      const checksums = new BlockChecksums();
      for await (const chunk of await source.open(0, file.size)) checksums.add(chunk);
      const list = checksums.list();
      if (!isBlockListOf(list, file)) throw corrupt(file.name);
      file.keepBlocks(list);
      return list;
    } catch (error) {
      if (isStoreError(error, 'aborted')) throw error;
      if (isStoreError(error, 'corrupt')) source.onDamage();
      if (!isStoreError(failure, 'corrupt')) failure = error;
    }
  }
  throw failure ?? corrupt(file.name);
}

/** Cuts a stream that begins with a block into blocks. */
async function* blocksOf(
  chunks: AsyncIterable<Buffer>,
  fileBytes: number,
  firstBlock: number,
): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let bytes = 0;
  let at = firstBlock * BLOCK_BYTES;
  for await (const chunk of chunks) {
    let left = chunk;
    while (left.length > 0) {
      const wanted = Math.min(BLOCK_BYTES, fileBytes - at) - bytes;
      parts.push(left.subarray(0, wanted));
      bytes += Math.min(wanted, left.length);
      left = left.subarray(wanted);
      if (bytes < Math.min(BLOCK_BYTES, fileBytes - at)) continue;
      yield parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      at += bytes;
      parts = [];
      bytes = 0;
    }
  }
}
