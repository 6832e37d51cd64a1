import type { DiskFile, FileStat } from '@stevedore/disk';
import { BufferFile } from './buffer-file.js';

/** A small file whose bytes another metadata server has, for reading: they are fetched when they are first asked for. */
export class GuestFile implements DiskFile {
  readonly #stat: FileStat;
  readonly #fetch: () => Promise<Buffer>;
  #bytes: Promise<BufferFile> | undefined;

  constructor(size: number, mtimeSeconds: number, fetch: () => Promise<Buffer>) {
    this.#stat = { size, mtimeSeconds, isFile: true };
    this.#fetch = fetch;
  }

  async stat(): Promise<FileStat> {
    return this.#stat;
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    if (!this.#bytes) {
      const fetching = this.#fetch().then((bytes) => new BufferFile(bytes, 0));
      this.#bytes = fetching;
      // Who comes after a failure tries again.
      fetching.catch(() => {
        if (this.#bytes === fetching) this.#bytes = undefined;
      });
    }
    return (await this.#bytes).readAt(target, position);
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
