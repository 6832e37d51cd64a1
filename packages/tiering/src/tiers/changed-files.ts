import {
  type Disk,
  type DiskFile,
  decoratedFile,
  type FileStat,
  removeIfThere,
} from '@stevedore/disk';
import type { FileRecord } from './record-rows.js';
import type { Tier } from './tier.js';

/**
 * Bytes being written: in memory while they may become a row, in a temporary file as soon as they
 * are too many. Bytes in memory become durable with their record.
 */

export interface SpillingFileParts {
  readonly disk: Disk;
  /** The temporary name. */
  readonly path: string;
  /** The largest row; -1 for none. */
  readonly limitBytes: number;
  readonly mtimeSeconds: number;
  readonly bytes: Buffer;
}

export class SpillingFile implements DiskFile {
  readonly path: string;
  readonly #parts: SpillingFileParts;
  #memory: Buffer;
  /** Undefined while the bytes are in memory. */
  #file: DiskFile | undefined;
  mtimeSeconds: number;

  constructor(parts: SpillingFileParts) {
    this.#parts = parts;
    this.path = parts.path;
    this.#memory = parts.bytes;
    this.mtimeSeconds = parts.mtimeSeconds;
  }

  /** Its bytes while they are in memory. */
  get memory(): Buffer | undefined {
    return this.#file ? undefined : this.#memory;
  }

  async stat(): Promise<FileStat> {
    if (this.#file) return this.#file.stat();
    return { size: this.#memory.length, mtimeSeconds: this.mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    if (this.#file) return this.#file.readAt(target, position);
    return position < this.#memory.length ? this.#memory.copy(target, 0, position) : 0;
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    const end = position + chunks.reduce((sum, { length }) => sum + length, 0);
    if (this.#file || end > this.#parts.limitBytes) {
      return (await this.#onDisk()).writeAt(chunks, position);
    }
    // A copy: what was read before must not change.
    this.#memory = resized(this.#memory, Math.max(end, this.#memory.length));
    let at = position;
    for (const chunk of chunks) {
      this.#memory.set(chunk, at);
      at += chunk.length;
    }
  }

  async truncate(size: number): Promise<void> {
    if (this.#file || size > this.#parts.limitBytes) return (await this.#onDisk()).truncate(size);
    this.#memory = resized(this.#memory, size);
  }

  async setModified(seconds: number): Promise<void> {
    this.mtimeSeconds = seconds;
    await this.#file?.setModified(seconds);
  }

  async sync(): Promise<void> {
    await this.#file?.sync();
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  /** Makes the bytes durable on disk, under the temporary name. */
  async spill(): Promise<void> {
    const file = await this.#onDisk();
    await file.setModified(this.mtimeSeconds);
    await file.sync();
  }

  async #onDisk(): Promise<DiskFile> {
    if (this.#file) return this.#file;
    const { disk, path } = this.#parts;
    const file = await disk.create(path);
    try {
      if (this.#memory.length > 0) await file.writeAt([this.#memory], 0);
    } catch (error) {
      await file.close();
      await removeIfThere(disk, path);
      throw error;
    }
    this.#file = file;
    this.#memory = Buffer.alloc(0);
    return file;
  }
}

function resized(bytes: Buffer, size: number): Buffer {
  const result = Buffer.alloc(size);
  bytes.copy(result);
  return result;
}

/** Files open for changes; none of them moves meanwhile. */

/** A file on disk, changed in place. `onCut` gets its size once it was truncated and closed. */
export function changedFile(
  file: DiskFile,
  onCut: (size: number) => void,
  done: () => void,
): DiskFile {
  let cutTo: number | undefined;
  return decoratedFile(file, {
    async truncate(size) {
      const before = await file.stat();
      await file.truncate(size);
      if (size < before.size) cutTo = size;
    },
    async close() {
      done();
      await file.close();
      if (cutTo !== undefined) onCut(cutTo);
    },
  });
}

export interface ChangedRowParts {
  readonly tier: Tier;
  readonly disk: Disk;
  readonly record: FileRecord;
  readonly bytes: Buffer;
  readonly limitBytes: number;
  /** It has left its row and was closed. */
  readonly onGrown: (size: number) => void;
  readonly done: () => void;
}

/**
 * A small file. It is changed in memory, or in a temporary file once it is too large for a row.
 * `sync` makes the change durable as a whole; closing discards what was not synced.
 */
export class ChangedRow extends SpillingFile {
  readonly #parts: ChangedRowParts;
  /** The temporary file has the file's name. */
  #isFile = false;

  constructor(parts: ChangedRowParts) {
    const { disk, tier, limitBytes, bytes, record } = parts;
    const { mtimeSeconds } = record;
    super({ disk, path: tier.local.temporaryFile(), limitBytes, bytes, mtimeSeconds });
    this.#parts = parts;
  }

  override async sync(): Promise<void> {
    const { tier, record } = this.#parts;
    const { memory, mtimeSeconds } = this;
    if (this.#isFile) return super.sync();
    if (memory) {
      tier.becomeRow(record.name, { bytes: memory, mtimeSeconds });
      return tier.records.commit();
    }
    await this.spill();
    await tier.becomeFile(record.name, this.path, mtimeSeconds);
    this.#isFile = true;
  }

  override async close(): Promise<void> {
    const { done, onGrown, tier } = this.#parts;
    done();
    const { size } = await this.stat();
    await super.close();
    if (this.#isFile) onGrown(size);
    else if (!this.memory) await tier.local.drop(this.path);
  }
}
