import type { Disk } from '@stevedore/disk';
import { isCount, parseObject, SavedFile } from '../saved-file.js';
import type { Position } from './binlog.js';
import { isUnfinished, Members } from './members.js';

/**
 * How far another member has got this storage's log: `<id>.mark`, JSON. A mark that
 * is lost or old only has changes sent again that are there already, so it is not
 * hurried to the medium.
 */

export interface Mark {
  /** All records before it are with the member. */
  readonly position: Position;
  /**
   * The member takes its first copy from here: what came here from others
   * before this place is sent as well.
   */
  readonly everythingUntil: Position;
  /** Of that first copy, unix seconds, as the tracker had it. */
  readonly firstCopySeconds: number;
  /** Changes that the member would not take. */
  readonly refused: number;
}

export const NEW_MARK: Mark = {
  position: 0,
  everythingUntil: 0,
  firstCopySeconds: 0,
  refused: 0,
};

const MAX_MARK_BYTES = 4096;

export class MarkFile {
  readonly #file: SavedFile;

  constructor(disk: Disk, directory: string, id: string, onError: (error: Error) => void) {
    if (!Members.isId(id)) throw new TypeError(`"${id}" is no member's id`);
    this.#file = new SavedFile(disk, directory, `${id}.mark`, onError);
  }

  async load(): Promise<Mark> {
    const fields = parseObject((await this.#file.load(MAX_MARK_BYTES))?.toString()) ?? {};
    const { position, everythingUntil, firstCopySeconds, refused } = fields;
    if (!isCount(position) || !isCount(everythingUntil)) return NEW_MARK;
    if (!isCount(firstCopySeconds) || !isCount(refused)) return NEW_MARK;
    return { position, everythingUntil, firstCopySeconds, refused };
  }

  save(mark: Mark): Promise<void> {
    return this.#file.save(JSON.stringify(mark));
  }
}

/** How far one member has got this storage's log, between sessions and between starts. */
export class MarkKeeper {
  readonly #file: MarkFile;
  #mark: Mark = NEW_MARK;
  #acknowledged: Position = 0;

  constructor(file: MarkFile) {
    this.#file = file;
  }

  async load(): Promise<void> {
    this.#mark = await this.#file.load().catch(() => NEW_MARK);
    this.#acknowledged = this.#mark.position;
  }

  /** As it was when it was last saved. */
  get mark(): Mark {
    return this.#mark;
  }

  /** The member has all before here. */
  get acknowledged(): Position {
    return this.#acknowledged;
  }

  acknowledge(until: Position): void {
    this.#acknowledged = Math.max(this.#acknowledged, until);
  }

  /**
   * A session begins. `firstCopySeconds`: when the trackers last gave the member a source for
   * a first copy, undefined if they never did. A member that has begun another first copy
   * since has lost what it was sent before.
   */
  begin(status: number, firstCopySeconds: number | undefined, logEnd: Position): void {
    const { position, firstCopySeconds: known } = this.#mark;
    const hasLost = firstCopySeconds !== undefined && firstCopySeconds !== known;
    const isNew = position === 0 && known === 0;
    // A log that is shorter than the mark is another log.
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

  /** The member refused a change for good; true for the first one. */
  refused(): boolean {
    const { refused } = this.#mark;
    this.#mark = { ...this.#mark, refused: refused + 1 };
    return refused === 0;
  }

  save(): Promise<void> {
    this.#mark = { ...this.#mark, position: this.#acknowledged };
    return this.#file.save(this.#mark);
  }
}

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
