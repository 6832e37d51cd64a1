import type { Position } from './binlog.js';
import { type Mark, type MarkFile, NEW_MARK } from './mark-file.js';
import { isUnfinished } from './members.js';

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
