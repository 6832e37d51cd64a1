import type { FileStat } from '@stevedore/disk';
import { ReadOnlyFile } from './read-only-file.js';

/** Bytes in memory as a file: what a row holds, for reading. */
export class BufferFile extends ReadOnlyFile {
  readonly #bytes: Buffer;
  readonly #mtimeSeconds: number;

  constructor(bytes: Buffer, mtimeSeconds: number) {
    super();
    this.#bytes = bytes;
    this.#mtimeSeconds = mtimeSeconds;
  }

  async stat(): Promise<FileStat> {
    return { size: this.#bytes.length, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    if (position >= this.#bytes.length) return 0;
    return this.#bytes.copy(target, 0, position);
  }
}
