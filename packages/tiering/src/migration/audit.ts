import { dirname, join } from 'node:path';
import { type Disk, type DiskFile, removeIfThere } from '@stevedore/disk';

/**
 * A line per move with the numbers that decided it, as JSON: what an operator reads to
 * understand why a file lies where it lies. Bounded: at `MAX_BYTES` the file takes
 * another name, in the place of the one before it. Lines that wait are written together
 * and synced; no move waits for that, so a crash can take the lines of the last moment,
 * and leaves no half of one in front of others.
 */

export const AUDIT_FILE = '.stevedore-moves.jsonl';
const MAX_BYTES = 16 * 2 ** 20;
/** No line is longer. */
const MAX_LINE_BYTES = 4096;

export class Audit {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #onError: (error: unknown) => void;
  #waiting: Buffer[] = [];
  #writing: Promise<void> | undefined;

  constructor(disk: Disk, directory: string, onError: (error: unknown) => void) {
    this.#disk = disk;
    this.#path = join(directory, AUDIT_FILE);
    this.#onError = onError;
  }

  /** Lines follow each other in the order of the calls. */
  write(entry: object): void {
    this.#waiting.push(Buffer.from(`${JSON.stringify(entry)}\n`));
    this.#writing ??= this.#writeAll();
  }

  /** Resolves when all lines are durable. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    // Those of one moment go together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const lines = Buffer.concat(this.#waiting);
      this.#waiting = [];
      await this.#append(lines).catch(this.#onError);
    }
    this.#writing = undefined;
  }

  async #append(lines: Buffer): Promise<void> {
    const file = await this.#disk.openToUpdate(this.#path);
    let end = 0;
    try {
      end = await endOfLines(file);
      await file.truncate(end);
      await file.writeAt([lines], end);
      await file.sync();
    } finally {
      await file.close();
    }
    if (end === 0) await this.#disk.syncDirectory(dirname(this.#path));
    if (end + lines.length < MAX_BYTES) return;
    await removeIfThere(this.#disk, `${this.#path}.1`);
    await this.#disk.rename(this.#path, `${this.#path}.1`);
    await this.#disk.syncDirectory(dirname(this.#path));
  }
}

/** Behind the last whole line: what follows it is what a crash has left of one. */
async function endOfLines(file: DiskFile): Promise<number> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(Math.min(size, MAX_LINE_BYTES));
  await file.readAt(tail, size - tail.length);
  const newline = tail.lastIndexOf(0x0a);
  return newline === -1 ? size : size - tail.length + newline + 1;
}
