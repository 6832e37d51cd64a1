import type { FileStat } from '@stevedore/disk';
import { BufferFile } from './buffer-file.js';
import { ReadOnlyFile } from './read-only-file.js';

/** A small file whose bytes another metadata server has, for reading: they are fetched when they are first asked for. */
export class GuestFile extends ReadOnlyFile {
  readonly #stat: FileStat;
  readonly #fetch: () => Promise<Buffer>;
  #bytes: Promise<BufferFile> | undefined;

  constructor(size: number, mtimeSeconds: number, fetch: () => Promise<Buffer>) {
    super();
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
}
