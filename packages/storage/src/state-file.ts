import type { Disk } from '@stevedore/disk';
import { STATE_FILE } from './layout.js';
import { isCount, parseObject, SavedFile } from './saved-file.js';

/** The state of a storage across restarts; FORMAT.md has the fields. Losing it does no harm. */
export interface StorageState extends RotationState {
  readonly joinedAtSeconds: number;
  /** False until the first copy from the group is complete. */
  readonly complete: boolean;
}

const VERSION = 1;
const MAX_STATE_BYTES = 4096;

export class StateFile {
  readonly #file: SavedFile;

  constructor(disk: Disk, dataDirectory: string, onError: (error: Error) => void) {
    this.#file = new SavedFile(disk, dataDirectory, STATE_FILE, onError);
  }

  /** The saved state; undefined if there is none or it is unreadable. */
  async load(): Promise<StorageState | undefined> {
    const fields = parseObject(await this.#file.load(MAX_STATE_BYTES));
    if (fields?.version !== VERSION) return undefined;
    const { joinedAtSeconds, complete, high, low, files } = fields;
    const areCounts = isCount(joinedAtSeconds) && isCount(high) && isCount(low) && isCount(files);
    if (!areCounts || typeof complete !== 'boolean') return undefined;
    return { joinedAtSeconds, complete, high, low, files };
  }

  /** Replaces the state. Of several waiting states, only the last is written. */
  save(state: StorageState): Promise<void> {
    return this.#file.save(JSON.stringify({ version: VERSION, ...state }));
  }
}

/** Whether the first copy from the group is complete; kept across restarts. */
export interface FirstCopyState {
  readonly done: boolean;
  finish(): void;
}

/** Files put into a directory before the next one is used, as in FastDFS. */
const FILES_PER_DIRECTORY = 100;

/**
 * The current directory for new files. It moves on when it has its files, the second number
 * first, and wraps around.
 */
export interface RotationState {
  readonly high: number;
  readonly low: number;
  /** Files put there so far. */
  readonly files: number;
}

export class DirectoryRotation {
  readonly #subdirectories: number;
  readonly #moved: () => void;
  #state: RotationState;

  /** `moved` is called whenever the directory changes. */
  constructor(start: RotationState, subdirectories: number, moved: () => void) {
    this.#subdirectories = subdirectories;
    this.#moved = moved;
    const fits = start.high < subdirectories && start.low < subdirectories;
    this.#state = fits ? start : { high: 0, low: 0, files: 0 };
  }

  get state(): RotationState {
    return this.#state;
  }

  /** The directory for one more file. */
  next(): { readonly high: number; readonly low: number } {
    const { high, low, files } = this.#state;
    if (files < FILES_PER_DIRECTORY) {
      this.#state = { high, low, files: files + 1 };
      return this.#state;
    }
    const overflow = low + 1 >= this.#subdirectories;
    this.#state = {
      high: overflow ? (high + 1) % this.#subdirectories : high,
      low: overflow ? 0 : low + 1,
      files: 1,
    };
    this.#moved();
    return this.#state;
  }
}
