import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError } from '@stevedore/wire';

/**
 * A small file that is replaced as a whole, and whose loss does no harm: failures to write it
 * are reported, nothing else. Of several contents that wait only the last is written.
 */
export class SavedFile {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #name: string;
  readonly #onError: (error: Error) => void;
  #writing: Promise<void> = Promise.resolve();
  #waiting: (() => string | Uint8Array) | undefined;
  /** As it is there, or will be. */
  #content: string | undefined;

  constructor(disk: Disk, directory: string, name: string, onError: (error: Error) => void) {
    this.#disk = disk;
    this.#directory = directory;
    this.#name = name;
    this.#onError = onError;
  }

  /** At most so many bytes of it; undefined if there is none. */
  load(maxBytes?: number): Promise<Buffer | undefined> {
    return readSmallFile(this.#disk, join(this.#directory, this.#name), maxBytes);
  }

  /** Replaces it by this text unless it is the same; never rejects. */
  save(content: string): Promise<void> {
    if (content === this.#content) return this.#writing;
    this.#content = content;
    return this.saveLater(() => content);
  }

  /** The content is asked for when it is written. */
  saveLater(content: () => string | Uint8Array): Promise<void> {
    if (!this.#waiting) {
      this.#writing = this.#writing
        .then(() => this.#write())
        .catch((error: unknown) => {
          this.#content = undefined;
          this.#onError(asError(error));
        });
    }
    this.#waiting = content;
    return this.#writing;
  }

  /** Resolves when nothing waits to be written any more. */
  get settled(): Promise<void> {
    return this.#writing;
  }

  async #write(): Promise<void> {
    const content = this.#waiting!();
    this.#waiting = undefined;
    await replaceFile(this.#disk, this.#directory, this.#name, content);
  }
}

/** A JSON object; undefined for any other text. */
export function parseObject(
  text: string | undefined,
): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '');
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
