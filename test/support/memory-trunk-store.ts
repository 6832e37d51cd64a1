import { crc32 } from 'node:zlib';
import {
  decodeFields,
  encodeFields,
  encodePath,
  encodeTail,
  normalSizeField,
  parseFileId,
  sizeOfField,
} from '@stevedore/protocol';
import {
  type ListedFile,
  type Replicas,
  StoreError,
  type TrunkSource,
  type TrunkStore,
} from '@stevedore/staging';

/** A FastDFS in memory that can be told to fail, to lie and to wait. */
export class MemoryTrunkStore implements TrunkStore {
  readonly files = new Map<string, Buffer>();
  readonly removed: string[] = [];
  /** It takes nothing; what it has it gives. */
  isAway = false;
  /** Called before each store; what it throws is the store's failure. */
  beforeStore: (source: TrunkSource) => Promise<void> | void = () => undefined;
  /** Changes what is stored, as a broken network or disk would. */
  damage: (bytes: Buffer) => Buffer = (bytes) => bytes;
  /** Called after each store; what it throws is a reply that was lost. */
  beforeReply: () => void = () => undefined;
  /** Storages that show a trunk when they are asked, and how many there are. */
  copiesOf: (fileId: string) => Replicas = () => ({ holders: ['10.1.2.3:23000'], members: 1 });
  /** The group that a file of this many bytes goes to. */
  groupOf: (bytes: number) => string = () => 'group1';
  /** What `list` cannot ask. */
  unlisted: readonly string[] = [];
  now: () => number = Date.now;
  /** All that were ever given out: FastDFS gives none to another file. */
  readonly givenIds = new Set<string>();
  #count = 0;

  async store(source: TrunkSource, signal: AbortSignal): Promise<string> {
    if (this.isAway) throw new Error('away');
    await untilAborted(this.beforeStore(source), signal);
    const chunks: Uint8Array[] = [];
    // Whatever it yields is valid until it goes on.
    for await (const pieces of source.pieces()) chunks.push(Buffer.concat(pieces));
    const bytes = this.damage(Buffer.concat(chunks));
    const fileId = this.#newId(bytes, source.extension);
    this.files.set(fileId, bytes);
    try {
      this.beforeReply();
    } catch (error) {
      source.onLost?.();
      throw error;
    }
    return fileId;
  }

  /** One that no file ever had, also where another process has stored the same bytes before. */
  #newId(bytes: Buffer, extension: string): string {
    for (;;) {
      this.#count += 1;
      const fields = encodeFields({
        source: '10.1.2.3',
        createdAtSeconds: Math.floor(this.now() / 1000),
        sizeField: normalSizeField(bytes.length, this.#count),
        crc32: crc32(bytes),
      });
      const group = this.groupOf(bytes.length);
      const id = `${group}/${encodePath(0, 0, 0)}${fields}${encodeTail(extension, '1234567')}`;
      if (this.files.has(id) || this.givenIds.has(id)) continue;
      this.givenIds.add(id);
      return id;
    }
  }

  /** Called before each read; what it throws is the read's failure. */
  beforeRead: () => Promise<void> | void = () => undefined;

  /** Changes what a storage sends, as its disk would. */
  rot: (bytes: Buffer, holder: string | undefined) => Buffer = (bytes) => bytes;

  async read(
    fileId: string,
    offset: number,
    length: number,
    _signal?: AbortSignal,
    holder?: string,
  ): Promise<Buffer> {
    await this.beforeRead();
    const bytes = this.files.get(fileId);
    if (!bytes) throw new StoreError('not_found', `there is no file ${fileId}`);
    return this.rot(Buffer.from(bytes.subarray(offset, offset + length)), holder);
  }

  async replicas(fileId: string): Promise<Replicas> {
    return this.copiesOf(fileId);
  }

  async sizeOf(fileId: string): Promise<number | undefined> {
    return this.files.get(fileId)?.length;
  }

  async list(onFile: (file: ListedFile) => void): Promise<readonly string[]> {
    for (const fileId of this.files.keys()) {
      const { crc32: crc, createdAtSeconds, sizeField } = decodeFields(parseFileId(fileId)!.base);
      const createdAt = createdAtSeconds * 1000;
      onFile({ fileId, size: sizeOfField(sizeField), crc32: crc, createdAt });
    }
    return this.unlisted;
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
