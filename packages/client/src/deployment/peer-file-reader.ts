import type { Readable } from 'node:stream';
import type { FileCache } from '@stevedore/cache';
import { LRUCache } from 'lru-cache';
import { aborted } from '../failures.js';
import { readAll } from '../http/answers.js';
import { readLarge } from '../large-reader.js';
import type { ReadContent } from '../stored-file.js';
import type { ByteRange } from '../types.js';
import type { FoundFile, GatewayFiles } from './gateway-files.js';

/** Reads files that are staged at another gateway and checks them against their CRC-32. */

const MAX_BLOCK_LIST_BYTES = 2 * 2 ** 20;
const NOTHING = Buffer.alloc(0);

interface PeerFileReaderOptions {
  /** Has small files by their keys. */
  readonly cache: FileCache;
  readonly smallFileBytes: number;
}

export class PeerFileReader {
  readonly #options: PeerFileReaderOptions;
  /** Block checksums of large files that were read in part. */
  readonly #blocks = new LRUCache<string, Buffer>({
    maxSize: MAX_BLOCK_LIST_BYTES,
    sizeCalculation: (list) => list.length + 1,
  });

  constructor(options: PeerFileReaderOptions) {
    this.#options = options;
  }

  /** The content of a small file, if it takes no time to read it. */
  readNow({ info, bytes }: FoundFile): Buffer | undefined {
    return bytes
      ? (this.#options.cache.getNow(info.key, () => bytes) ?? bytes)
      : this.cachedNow(info.key);
  }

  cachedNow(key: string): Buffer | undefined {
    const { cache } = this.#options;
    return cache.has(key) ? cache.find(key) : undefined;
  }

  async read(
    files: GatewayFiles,
    { info, bytes }: FoundFile,
    ...[range, signal]: Parameters<ReadContent>
  ): Promise<Buffer | Readable> {
    const { cache, smallFileBytes } = this.#options;
    if (bytes) return cut(bytes, range);
    if (info.size > smallFileBytes) {
      return range ? this.#readPart(files, info, range, signal) : files.read(info, range, signal);
    }
    // A small file is checked as a whole, whatever part is wanted.
    const load = () => files.readWhole(info, undefined);
    try {
      return cut((await cache.get(info.key, load, { signal })) ?? NOTHING, range);
    } catch (error) {
      throw signal?.aborted ? aborted(signal.reason) : error;
    }
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
