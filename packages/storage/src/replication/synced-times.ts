import type { Disk } from '@stevedore/disk';
import { isCount, parseObject, SavedFile } from '../saved-file.js';
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
  readonly #file: SavedFile;
  readonly #seconds = new Map<string, number>();
  #changed = false;

  constructor(disk: Disk, directory: string, onError: (error: Error) => void) {
    this.#file = new SavedFile(disk, directory, FILE, onError);
  }

  async load(): Promise<void> {
    const text = (await this.#file.load(MAX_FILE_BYTES))?.toString();
    for (const [id, seconds] of Object.entries(parseObject(text) ?? {})) this.set(id, seconds);
    this.#changed = false;
  }

  /** All that `id` changed up to then is here. */
  set(id: string, seconds: unknown): void {
    if (!Members.isId(id) || !isCount(seconds) || seconds <= (this.#seconds.get(id) ?? 0)) return;
    this.#seconds.set(id, seconds);
    this.#changed = true;
  }

  /** Forgets what an earlier start had, whose files are lost. */
  clear(): Promise<void> {
    this.#changed = true;
    return this.save();
  }

  get all(): readonly { readonly sourceId: string; readonly seconds: number }[] {
    return [...this.#seconds].map(([sourceId, seconds]) => ({ sourceId, seconds }));
  }

  /** Writes what has changed; its failure is reported only. */
  save(): Promise<void> {
    if (!this.#changed) return this.#file.settled;
    this.#changed = false;
    return this.#file.save(JSON.stringify(Object.fromEntries(this.#seconds)));
  }
}
