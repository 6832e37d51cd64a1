import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { readAll } from '../http/answers.js';
import { readLarge } from '../large-reader.js';
import type { ReadContent } from '../stored-file.js';
import type { ByteRange } from '../types.js';
import type { FoundFile, GatewayFiles } from './gateway-files.js';

/** Reads files that are staged at another gateway and checks them against their CRC-32. */

const MAX_BLOCK_LIST_BYTES = 2 * 2 ** 20;

export class PeerFileReader {
  readonly #smallFileBytes: number;
  /** Block checksums of large files that were read in part. */
  readonly #blocks = new LRUCache<string, Buffer>({
    maxSize: MAX_BLOCK_LIST_BYTES,
    sizeCalculation: (list) => list.length + 1,
  });

  constructor(smallFileBytes: number) {
    this.#smallFileBytes = smallFileBytes;
  }

  async read(
    files: GatewayFiles,
    { info, bytes }: FoundFile,
    ...[range, signal]: Parameters<ReadContent>
  ): Promise<Buffer | Readable> {
    if (bytes) return cut(bytes, range);
    // A small file is checked as a whole, whatever part is wanted.
    if (info.size <= this.#smallFileBytes) return cut(await files.readWhole(info, signal), range);
    return range ? this.#readPart(files, info, range, signal) : files.read(info, range, signal);
  }

  /** The first read of a part of a large file reads all of it, to compute its block checksums. */
  #readPart(
    files: GatewayFiles,
    { key, size, crc32 }: FoundFile['info'],
    range: ByteRange,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const read = async (start: number, length: number): Promise<Buffer> => {
      const part = { start, end: start + length - 1 };
      const content = await files.read({ key, size, crc32 }, part, signal);
      return Buffer.isBuffer(content) ? content : readAll(content);
    };
    return readLarge(
      {
        ...{ name: key, size, crc32, blocks: this.#blocks.get(key) },
        keepBlocks: (list) => void this.#blocks.set(key, list),
        sources: async function* () {
          yield { read, onDamage: () => undefined };
        },
      },
      range,
    );
  }
}

export function cut(bytes: Buffer, range: ByteRange | undefined): Buffer {
  return range ? bytes.subarray(range.start, range.end + 1) : bytes;
}
