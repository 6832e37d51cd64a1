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
  /** Existing content. Default: none. */
  readonly bytes?: Buffer;
}

export class SpillingFile implements DiskFile {
  readonly #parts: SpillingFileParts;
  #memory: GrowingBytes | undefined;
  #file: DiskFile | undefined;
  #mtimeSeconds: number;

  constructor(parts: SpillingFileParts) {
    this.#parts = parts;
    this.#memory = new GrowingBytes(parts.bytes);
    this.#mtimeSeconds = parts.mtimeSeconds;
  }

  get path(): string {
    return this.#parts.path;
  }

  /** Its bytes while they are in memory. */
  get memory(): Buffer | undefined {
    return this.#memory?.bytes;
  }

  get mtimeSeconds(): number {
    return this.#mtimeSeconds;
  }

  async stat(): Promise<FileStat> {
    if (!this.#memory) return this.#file!.stat();
    return { size: this.#memory.size, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    return this.#memory
      ? this.#memory.readAt(target, position)
      : this.#file!.readAt(target, position);
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    const file = await this.#fileFor(position + bytesOf(chunks));
    if (file) await file.writeAt(chunks, position);
    else this.#memory!.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    const file = await this.#fileFor(size);
    if (file) await file.truncate(size);
    else this.#memory!.truncate(size);
  }

  async setModified(seconds: number): Promise<void> {
    this.#mtimeSeconds = seconds;
    await this.#file?.setModified(seconds);
  }

  async sync(): Promise<void> {
    await this.#file?.sync();
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  /** Writes the bytes from memory to disk, synced, under the temporary name. */
  async spill(): Promise<void> {
    const file = await this.#onDisk();
    await file.setModified(this.#mtimeSeconds);
    await file.sync();
    await this.close();
  }

  async #fileFor(size: number): Promise<DiskFile | undefined> {
    return !this.#memory || size > this.#parts.limitBytes ? this.#onDisk() : undefined;
  }

  async #onDisk(): Promise<DiskFile> {
    if (this.#file) return this.#file;
    const { disk, path } = this.#parts;
    const file = await disk.create(path);
    try {
      if (this.#memory!.size > 0) await file.writeAt([this.#memory!.bytes], 0);
    } catch (error) {
      await file.close();
      await removeIfThere(disk, path);
      throw error;
    }
    this.#file = file;
    this.#memory = undefined;
    return file;
  }
}

const LEAST_BYTES = 4096;

/** Bytes in memory that can be written anywhere and grow; their owner limits them. */
class GrowingBytes {
  #buffer: Buffer;
  #size: number;

  constructor(initial: Buffer = Buffer.alloc(0)) {
    this.#buffer = Buffer.from(initial);
    this.#size = initial.length;
  }

  get size(): number {
    return this.#size;
  }

  /** The current bytes; do not keep them across a change. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  readAt(target: Buffer, position: number): number {
    if (position >= this.#size) return 0;
    return this.#buffer.copy(target, 0, position, this.#size);
  }

  writeAt(chunks: readonly Uint8Array[], position: number): void {
    let at = position;
    this.#reserve(at + bytesOf(chunks));
    for (const chunk of chunks) {
      this.#buffer.set(chunk, at);
      at += chunk.length;
    }
    this.#size = Math.max(this.#size, at);
  }

  truncate(size: number): void {
    this.#reserve(size);
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    this.#size = size;
  }

  /** Bytes beyond the size are always zeros. */
  #reserve(size: number): void {
    if (size <= this.#buffer.length) return;
    const grown = Buffer.alloc(Math.max(size, 2 * this.#buffer.length, LEAST_BYTES));
    this.#buffer.copy(grown, 0, 0, this.#size);
    this.#buffer = grown;
  }
}

function bytesOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
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
export class ChangedRow implements DiskFile {
  readonly #parts: ChangedRowParts;
  readonly #content: SpillingFile;
  /** Called once it is a file of its own. */
  #file: DiskFile | undefined;

  constructor(parts: ChangedRowParts) {
    const { disk, tier, limitBytes, bytes, record } = parts;
    this.#parts = parts;
    this.#content = new SpillingFile({
      disk,
      path: tier.local.temporaryFile(),
      limitBytes,
      bytes,
      mtimeSeconds: record.mtimeSeconds,
    });
  }

  stat(): Promise<FileStat> {
    return this.#now.stat();
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#now.readAt(target, position);
  }

  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    return this.#now.writeAt(chunks, position);
  }

  truncate(size: number): Promise<void> {
    return this.#now.truncate(size);
  }

  setModified(seconds: number): Promise<void> {
    return this.#now.setModified(seconds);
  }

  async sync(): Promise<void> {
    if (this.#file) return this.#file.sync();
    const { tier, disk, record } = this.#parts;
    const { memory, mtimeSeconds } = this.#content;
    if (memory) {
      tier.becomeRow(record.name, { bytes: memory, mtimeSeconds });
      return tier.records.commit();
    }
    await this.#content.spill();
    await tier.becomeFile(record.name, this.#content.path, mtimeSeconds);
    this.#file = await disk.openToUpdate(tier.pathOf(record.name));
  }

  async close(): Promise<void> {
    const { done, onGrown, tier } = this.#parts;
    done();
    if (!this.#file) {
      const { memory } = this.#content;
      await this.#content.close();
      if (!memory) await tier.local.drop(this.#content.path);
      return;
    }
    const { size } = await this.#file.stat();
    await this.#file.close();
    onGrown(size);
  }

  get #now(): DiskFile {
    return this.#file ?? this.#content;
  }
}
