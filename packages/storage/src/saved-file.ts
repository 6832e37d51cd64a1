import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError } from '@stevedore/wire';

/**
 * A small file that is replaced as a whole and whose loss does no harm: write failures are
 * only reported. Of several waiting contents, only the last is written.
 */
export class SavedFile {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #name: string;
  readonly #onError: (error: Error) => void;
  #writing: Promise<void> = Promise.resolve();
  #waiting: (() => string | Uint8Array) | undefined;
  /** The content that was last written or waits to be. */
  #content: string | undefined;

  constructor(disk: Disk, directory: string, name: string, onError: (error: Error) => void) {
    this.#disk = disk;
    this.#directory = directory;
    this.#name = name;
    this.#onError = onError;
  }

  /** Reads at most `maxBytes`; undefined if there is no file. */
  load(maxBytes?: number): Promise<Buffer | undefined> {
    return readSmallFile(this.#disk, join(this.#directory, this.#name), maxBytes);
  }

  /** Replaces the content unless it is the same; never rejects. */
  save(content: string): Promise<void> {
    if (content === this.#content) return this.#writing;
    this.#content = content;
    return this.saveLater(() => content);
  }

  /** Calls `content` only when it is written; never rejects. */
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

  /** Resolves when all waiting contents are written. */
  get settled(): Promise<void> {
    return this.#writing;
  }

  async #write(): Promise<void> {
    const content = this.#waiting;
    this.#waiting = undefined;
    if (content) await replaceFile(this.#disk, this.#directory, this.#name, content());
  }
}

/** Parses a JSON object; undefined for any other text. */
export function parseObject(
  bytes: Buffer | undefined,
): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(bytes?.toString() ?? '');
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
