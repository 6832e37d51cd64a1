import type { DiskFile, FileStat } from '@stevedore/disk';

/** A file on the store path that is open to be changed, in place; tells if it was cut. */

export interface ChangedFileParts {
  readonly file: DiskFile;
  /** Its size, once it has been cut and closed. */
  readonly onCut: (size: number) => void;
  readonly done: () => void;
}

export class ChangedFile implements DiskFile {
  readonly #parts: ChangedFileParts;
  #cutTo: number | undefined;

  constructor(parts: ChangedFileParts) {
    this.#parts = parts;
  }

  stat(): Promise<FileStat> {
    return this.#parts.file.stat();
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#parts.file.readAt(target, position);
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    await this.#parts.file.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    const before = await this.#parts.file.stat();
    await this.#parts.file.truncate(size);
    if (size < before.size) this.#cutTo = size;
  }

  setModified(seconds: number): Promise<void> {
    return this.#parts.file.setModified(seconds);
  }

  sync(): Promise<void> {
    return this.#parts.file.sync();
  }

  async close(): Promise<void> {
    this.#parts.done();
    await this.#parts.file.close();
    if (this.#cutTo !== undefined) this.#parts.onCut(this.#cutTo);
  }
}
