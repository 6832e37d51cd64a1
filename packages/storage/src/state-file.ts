import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError } from '@stevedore/wire';
import { STATE_FILE } from './layout.js';

/** What a storage remembers across restarts; FORMAT.md has the fields. Losing it does no harm. */
export interface StorageState extends RotationState {
  readonly joinedAtSeconds: number;
  /** False until everything that the group has is here for the first time. */
  readonly complete: boolean;
}

const VERSION = 1;
const MAX_STATE_BYTES = 4096;

export class StateFile {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onError: (error: Error) => void;
  #writing: Promise<void> = Promise.resolve();
  #waiting: StorageState | undefined;

  constructor(disk: Disk, dataDirectory: string, onError: (error: Error) => void) {
    this.#disk = disk;
    this.#directory = dataDirectory;
    this.#onError = onError;
  }

  /** The state as it was saved; undefined if there is none or it cannot be read. */
  async load(): Promise<StorageState | undefined> {
    const bytes = await readSmallFile(
      this.#disk,
      join(this.#directory, STATE_FILE),
      MAX_STATE_BYTES,
    );
    return bytes && parse(bytes.toString());
  }

  /** Replaces the state; of several that wait only the last is written. */
  save(state: StorageState): Promise<void> {
    const first = this.#waiting === undefined;
    this.#waiting = state;
    if (first) {
      this.#writing = this.#writing
        .then(() => this.#write())
        .catch((error: unknown) => this.#onError(asError(error)));
    }
    return this.#writing;
  }

  async #write(): Promise<void> {
    const state = this.#waiting;
    this.#waiting = undefined;
    if (!state) return;
    const text = JSON.stringify({ version: VERSION, ...state });
    await replaceFile(this.#disk, this.#directory, STATE_FILE, text);
  }
}

function parse(text: string): StorageState | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(value));
  const count = (name: string): number => {
    const field = fields.get(name);
    return typeof field === 'number' && Number.isSafeInteger(field) && field >= 0 ? field : -1;
  };
  const state = {
    joinedAtSeconds: count('joinedAtSeconds'),
    high: count('high'),
    low: count('low'),
    files: count('files'),
  };
  const complete = fields.get('complete');
  const counts = count('version') === VERSION && Object.values(state).every((each) => each >= 0);
  return counts && typeof complete === 'boolean' ? { ...state, complete } : undefined;
}

/** Whether a storage has had everything that its group has; kept across restarts. */
export interface FirstSync {
  readonly done: boolean;
  finish(): void;
}

/**
 * The directory pair that takes new files: moves on after so many files, the
 * second number first, and wraps around.
 */
export interface RotationState {
  readonly high: number;
  readonly low: number;
  /** Files put into the pair so far. */
  readonly files: number;
}

export class DirectoryRotation {
  readonly #subdirectories: number;
  readonly #filesPerDirectory: number;
  readonly #moved: () => void;
  #state: RotationState;

  /** `moved` is called for every new pair. */
  constructor(
    start: RotationState,
    subdirectories: number,
    filesPerDirectory: number,
    moved: () => void,
  ) {
    this.#subdirectories = subdirectories;
    this.#filesPerDirectory = filesPerDirectory;
    this.#moved = moved;
    const fits = start.high < subdirectories && start.low < subdirectories;
    this.#state = fits ? start : { high: 0, low: 0, files: 0 };
  }

  get state(): RotationState {
    return this.#state;
  }

  /** The pair for one more file. */
  next(): { readonly high: number; readonly low: number } {
    const { high, low, files } = this.#state;
    if (files < this.#filesPerDirectory) {
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
