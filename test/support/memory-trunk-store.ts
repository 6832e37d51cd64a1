import { crc32 } from 'node:zlib';
import { encodeFields, encodePath, encodeTail, normalSizeField } from '@stevedore/protocol';
import { StoreError, type TrunkSource, type TrunkStore } from '@stevedore/staging';

/** A FastDFS in memory that can be told to fail, to lie and to wait. */
export class MemoryTrunkStore implements TrunkStore {
  readonly files = new Map<string, Buffer>();
  readonly removed: string[] = [];
  /** Called before each store; what it throws is the store's failure. */
  beforeStore: (source: TrunkSource) => Promise<void> | void = () => undefined;
  /** Changes what is stored, as a broken network or disk would. */
  damage: (bytes: Buffer) => Buffer = (bytes) => bytes;
  #count = 0;

  async store(source: TrunkSource, signal: AbortSignal): Promise<string> {
    await untilAborted(this.beforeStore(source), signal);
    const chunks: Uint8Array[] = [];
    for await (const chunk of source.chunks()) chunks.push(chunk);
    const bytes = this.damage(Buffer.concat(chunks));
    this.#count += 1;
    const fields = encodeFields({
      source: '10.1.2.3',
      createdAtSeconds: 1_700_000_000,
      sizeField: normalSizeField(bytes.length, this.#count),
      crc32: crc32(bytes),
    });
    const fileId = `group1/${encodePath(0, 0, 0)}${fields}${encodeTail(source.extension, '1234567')}`;
    this.files.set(fileId, bytes);
    return fileId;
  }

  /** Called before each read; what it throws is the read's failure. */
  beforeRead: () => Promise<void> | void = () => undefined;

  async read(fileId: string, offset: number, length: number): Promise<Buffer> {
    await this.beforeRead();
    const bytes = this.files.get(fileId);
    if (!bytes) throw new StoreError('not_found', `there is no file ${fileId}`);
    return Buffer.from(bytes.subarray(offset, offset + length));
  }

  async remove(fileId: string): Promise<void> {
    this.removed.push(fileId);
    this.files.delete(fileId);
  }
}

function untilAborted(work: Promise<void> | void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const settled = Promise.resolve(work).finally(() =>
      signal.removeEventListener('abort', onAbort),
    );
    settled.then(resolve, reject);
  });
}
