import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError } from '@stevedore/wire';
import { Members } from './members.js';

/**
 * Up to when this storage has what each other member changed, in the clock of that
 * member, as its records carry it. Trackers are sent it and choose readers by it. The
 * file `synced.json` may be older than what is here, never newer: then a reader is sent
 * elsewhere once too often.
 */

const FILE = 'synced.json';
const MAX_FILE_BYTES = 64 * 1024;

export class SyncedTimes {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onError: (error: Error) => void;
  readonly #seconds = new Map<string, number>();
  #changed = false;
  #saving: Promise<void> = Promise.resolve();

  constructor(disk: Disk, directory: string, onError: (error: Error) => void) {
    this.#disk = disk;
    this.#directory = directory;
    this.#onError = onError;
  }

  async load(): Promise<void> {
    const bytes = await readSmallFile(this.#disk, join(this.#directory, FILE), MAX_FILE_BYTES);
    for (const [id, seconds] of Object.entries(parse(bytes))) {
      if (Members.isId(id) && typeof seconds === 'number' && seconds > 0) {
        this.#seconds.set(id, seconds);
      }
    }
  }

  /** Forgets what an earlier start had, whose files are lost. */
  clear(): Promise<void> {
    this.#changed = true;
    return this.save();
  }

  /** All that `id` changed up to then is here. */
  set(id: string, seconds: number): void {
    if (!Members.isId(id) || seconds <= (this.#seconds.get(id) ?? 0)) return;
    this.#seconds.set(id, seconds);
    this.#changed = true;
  }

  get all(): readonly { readonly sourceId: string; readonly seconds: number }[] {
    return [...this.#seconds].map(([sourceId, seconds]) => ({ sourceId, seconds }));
  }

  /** Writes what has changed; its failure is reported only. */
  save(): Promise<void> {
    if (!this.#changed) return this.#saving;
    this.#changed = false;
    const content = JSON.stringify(Object.fromEntries(this.#seconds));
    this.#saving = this.#saving
      .then(() => replaceFile(this.#disk, this.#directory, FILE, content))
      .catch((error: unknown) => this.#onError(asError(error)));
    return this.#saving;
  }

  close(): Promise<void> {
    return this.save();
  }
}

function parse(bytes: Buffer | undefined): object {
  try {
    const value: unknown = JSON.parse(bytes?.toString('utf8') ?? '{}');
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
