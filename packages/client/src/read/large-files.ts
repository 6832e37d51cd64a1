import type { Readable } from 'node:stream';
import { blocksOf, learnBlocks } from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import { readAll } from '../connect/answers.js';
import type { FileToRead } from '../connect/connect.js';
import type { GatewayFiles } from '../holders/gateway-files.js';
import type { LocalPlace, RemoteBytes } from '../holders/place.js';
import type { ByteRange } from '../store/types.js';
import type { Downloads } from './downloads.js';
import { notFound } from './failures.js';
import { type LargeFile, type LargeSource, readLarge } from './large-reader.js';
import type { Signal } from './stored-file.js';

/**
 * Streams large files from where they are, checked block by block. The first read of a part of a file
 * whose block checksums are unknown reads all of it, to compute them.
 */

/** Memory for block checksums of files that no FileMap here has. */
const MAX_BLOCK_LIST_BYTES = 16 * 2 ** 20;

export class LargeFiles {
  readonly #downloads: Downloads;
  readonly #blocks = new LRUCache<string, Buffer>({
    maxSize: MAX_BLOCK_LIST_BYTES,
    sizeCalculation: (list) => list.length + 1,
  });

  constructor(downloads: Downloads) {
    this.#downloads = downloads;
  }

  readLocal(place: LocalPlace, range: ByteRange | undefined, signal: Signal): Promise<Readable> {
    const { row, staging, key: name, size } = place;
    const { fileMap } = staging;
    const keepBlocks = (list: Buffer) => learnBlocks(fileMap, row, list);
    const blocks = blocksOf(fileMap, row);
    const sources = () => this.#localSources(place, signal);
    return readLarge({ name, size, crc32: row.crc32, sources, keepBlocks, blocks }, range);
  }

  readRemote(file: RemoteBytes, range: ByteRange | undefined, signal: Signal): Promise<Readable> {
    const { fileId, offset, size, crc32 } = file;
    const sources = () => this.#downloads.sources(file, signal);
    return this.#read(`${fileId}@${offset}`, { name: fileId, size, crc32, sources }, range);
  }

  readPeer(
    file: FileToRead,
    gateway: GatewayFiles,
    range: ByteRange,
    signal: Signal,
  ): Promise<Readable> {
    const read = async (start: number, length: number): Promise<Buffer> => {
      const content = await gateway.read(file, { start, end: start + length - 1 }, signal);
      return Buffer.isBuffer(content) ? content : readAll(content);
    };
    const sources = async function* (): AsyncGenerator<LargeSource> {
      yield { read, onDamage: () => undefined };
    };
    return this.#read(file.key, { ...file, name: file.key, sources }, range);
  }

  #read(
    id: string,
    file: Omit<LargeFile, 'blocks' | 'keepBlocks'>,
    range: ByteRange | undefined,
  ): Promise<Readable> {
    const keepBlocks = (list: Buffer) => void this.#blocks.set(id, list);
    return readLarge({ ...file, keepBlocks, blocks: this.#blocks.get(id) }, range);
  }

  async *#localSources(place: LocalPlace, signal: Signal): AsyncGenerator<LargeSource> {
    const { row, staging } = place;
    const { fileMap, local, spool } = staging;
    if (local.has(row)) {
      yield {
        read: (start, length) =>
          readAll(spool.read(row.key, row, { start, end: start + length - 1 })),
        onDamage: () => local.noteDamage(row, 'spool'),
      };
    }
    if (!local.has(row)) await local.rollBackMove(row.key);
    // It may have been stored since, and again or deleted while it was read.
    for (let tried: number | undefined; ; ) {
      const current = fileMap.find(row.key);
      if (!current) throw notFound(place.key);
      const { trunk } = current;
      if (!trunk || trunk.id === tried) return;
      tried = trunk.id;
      yield* this.#downloads.sources({ ...trunk, isKnown: true }, signal, {
        ...place,
        row: current,
      });
    }
  }
}
