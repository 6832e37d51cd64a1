import type { Disk } from '@stevedore/disk';
import { isCount, parseObject, SavedFile } from '../saved-file.js';
import type { Position } from './binlog.js';
import { isMemberId, isUnfinished } from './members.js';

/**
 * `<id>.mark`: the cursor of another member in this storage's binlog, as JSON. A lost or old
 * mark only causes changes to be sent again, so it is not written at once.
 */

export interface Mark {
  /** The cursor: the member has acknowledged all earlier records. */
  readonly position: Position;
  /**
   * End of the member's first copy: records of other members before this position are also
   * sent.
   */
  readonly everythingUntil: Position;
  /** The tracker's time of that first copy, unix seconds. */
  readonly firstCopySeconds: number;
  /** Number of records that the member refused. */
  readonly refused: number;
}

const NEW_MARK: Mark = {
  position: 0,
  everythingUntil: 0,
  firstCopySeconds: 0,
  refused: 0,
};

const MAX_MARK_BYTES = 4096;

/** Keeps one member's cursor between sessions and between starts. */
export class MarkKeeper {
  readonly #file: SavedFile;
  #mark: Mark = NEW_MARK;
  #acknowledged: Position = 0;

  constructor(disk: Disk, directory: string, id: string, onError: (error: Error) => void) {
    if (!isMemberId(id)) throw new TypeError(`"${id}" is no member's id`);
    this.#file = new SavedFile(disk, directory, `${id}.mark`, onError);
  }

  async load(): Promise<void> {
    const bytes = await this.#file.load(MAX_MARK_BYTES).catch(() => undefined);
    const { position, everythingUntil, firstCopySeconds, refused } = parseObject(bytes) ?? {};
    if (!isCount(position) || !isCount(everythingUntil)) return;
    if (!isCount(firstCopySeconds) || !isCount(refused)) return;
    this.#mark = { position, everythingUntil, firstCopySeconds, refused };
    this.#acknowledged = position;
  }

  /** Its `position` is the last saved one; `acknowledged` is the current one. */
  get mark(): Mark {
    return this.#mark;
  }

  /** True once `acknowledged` is saved, or about to be. */
  get isSaved(): boolean {
    return this.#mark.position === this.#acknowledged;
  }

  /** The member has all records before this position. */
  get acknowledged(): Position {
    return this.#acknowledged;
  }

  acknowledge(until: Position): void {
    this.#acknowledged = Math.max(this.#acknowledged, until);
  }

  /**
   * Begins a session. `firstCopySeconds`: when the trackers last assigned the member a source
   * for a first copy; undefined if they never did. A member that has begun another first copy
   * has lost what it was sent before.
   */
  begin(status: number, firstCopySeconds: number | undefined, logEnd: Position): void {
    const { position, firstCopySeconds: known } = this.#mark;
    const hasLost = firstCopySeconds !== undefined && firstCopySeconds !== known;
    const isNew = position === 0 && known === 0;
    // A binlog shorter than the cursor is a different one.
    if (hasLost || position > logEnd) {
      const takesAll = hasLost && (!isNew || isUnfinished(status));
      this.#mark = {
        ...NEW_MARK,
        everythingUntil: takesAll ? logEnd : 0,
        firstCopySeconds: firstCopySeconds ?? 0,
      };
    }
    this.#acknowledged = this.#mark.position;
  }

  /** Counts a refused record; true for the first one. */
  refused(): boolean {
    const { refused } = this.#mark;
    this.#mark = { ...this.#mark, refused: refused + 1 };
    return refused === 0;
  }

  save(): Promise<void> {
    this.#mark = { ...this.#mark, position: this.#acknowledged };
    return this.#file.save(JSON.stringify(this.#mark));
  }
}

/**
 * Sync timestamps: up to when this storage has the changes of each other member, by that
 * member's clock. Trackers use them to choose storages for reads. The file `synced.json` is
 * never newer than the truth; if it is older, a reader may be sent elsewhere.
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
    const times = parseObject(await this.#file.load(MAX_FILE_BYTES)) ?? {};
    for (const [id, seconds] of Object.entries(times)) this.set(id, seconds);
    this.#changed = false;
  }

  /** Every change that `id` made up to then is here. */
  set(id: string, seconds: unknown): void {
    if (!isMemberId(id) || !isCount(seconds) || seconds <= (this.#seconds.get(id) ?? 0)) return;
    this.#seconds.set(id, seconds);
    this.#changed = true;
  }

  /** Starts over, for a storage that has lost files. */
  clear(): Promise<void> {
    this.#changed = true;
    return this.save();
  }

  get all(): readonly { readonly sourceId: string; readonly seconds: number }[] {
    return [...this.#seconds].map(([sourceId, seconds]) => ({ sourceId, seconds }));
  }

  /** Writes the file if something changed; failures are only reported. */
  save(): Promise<void> {
    if (!this.#changed) return this.#file.settled;
    this.#changed = false;
    return this.#file.save(JSON.stringify(Object.fromEntries(this.#seconds)));
  }
}
