import type { DiskFile, FileStat } from '@stevedore/disk';

/** Bytes in memory as a file: what a row holds, for reading. */
export class BufferFile implements DiskFile {
  readonly #bytes: Buffer;
  readonly #mtimeSeconds: number;

  constructor(bytes: Buffer, mtimeSeconds: number) {
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

  writeAt(): Promise<void> {
    return Promise.reject(readOnly());
  }

  truncate(): Promise<void> {
    return Promise.reject(readOnly());
  }

  setModified(): Promise<void> {
    return Promise.reject(readOnly());
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}

function readOnly(): Error {
  return Object.assign(new Error('the file was opened for reading'), { code: 'EBADF' });
}
