import { type Disk, type DiskFile, decoratedFile, type FileStat } from '@stevedore/disk';
import type { FileRecord } from './record-rows.js';
import { SpillingFile } from './spilling-file.js';
import type { Tier } from './tier.js';

/** Files that are open to be changed; none of them moves meanwhile. */

/**
 * One on the disk, changed in place. `onCut` is told its size once it has been cut and closed.
 */
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
  /** It has left its row, and was closed. */
  readonly onGrown: (size: number) => void;
  readonly done: () => void;
}

/**
 * A small one. It is changed in memory, or in a file under a temporary name once it is too
 * large for a row, and becomes what it was changed to, as a whole and durably, with `sync`.
 * What was not synced is gone when it is closed.
 */
export class ChangedRow implements DiskFile {
  readonly #parts: ChangedRowParts;
  readonly #content: SpillingFile;
  /** Once it is a file of its own. */
  #file: DiskFile | undefined;

  constructor(parts: ChangedRowParts) {
    const { disk, tier, limitBytes, bytes, record } = parts;
    this.#parts = parts;
    this.#content = new SpillingFile({
      disk,
      path: tier.temporaryFile(),
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
      if (!memory) await tier.dropTemporary(this.#content.path);
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
