import { join } from 'node:path';
import { type Disk, removeIfThere } from '@stevedore/disk';

/**
 * A line per move with the numbers that decided it, as JSON: what an operator reads to
 * understand why a file lies where it lies. Bounded: at `MAX_BYTES` the file takes
 * another name, in the place of the one before it. The lines are not synced; a crash
 * can take the last ones.
 */

export const AUDIT_FILE = '.stevedore-moves.jsonl';
const MAX_BYTES = 16 * 2 ** 20;

export class Audit {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #onError: (error: unknown) => void;
  #last: Promise<void> = Promise.resolve();

  constructor(disk: Disk, directory: string, onError: (error: unknown) => void) {
    this.#disk = disk;
    this.#path = join(directory, AUDIT_FILE);
    this.#onError = onError;
  }

  /** Lines follow each other in the order of the calls. */
  write(entry: object): void {
    const line = Buffer.from(`${JSON.stringify(entry)}\n`);
    this.#last = this.#last.then(() => this.#append(line)).catch(this.#onError);
  }

  /** Resolves when all lines have been written. */
  flush(): Promise<void> {
    return this.#last;
  }

  async #append(line: Buffer): Promise<void> {
    const file = await this.#disk.openToUpdate(this.#path);
    let size = 0;
    try {
      ({ size } = await file.stat());
      await file.writeAt([line], size);
    } finally {
      await file.close();
    }
    if (size + line.length < MAX_BYTES) return;
    await removeIfThere(this.#disk, `${this.#path}.1`);
    await this.#disk.rename(this.#path, `${this.#path}.1`);
  }
}
