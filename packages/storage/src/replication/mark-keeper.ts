import type { Position } from './binlog.js';
import { type Mark, type MarkFile, NEW_MARK } from './mark-file.js';

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

  /** Behind here all has been answered. */
  get acknowledged(): Position {
    return this.#acknowledged;
  }

  acknowledge(until: Position): void {
    this.#acknowledged = Math.max(this.#acknowledged, until);
  }

  /**
   * A session begins; `asked`: when the member was told to take its first copy from
   * here. A member that has lost everything is begun anew with.
   */
  begin(instance: string, asked: number | undefined, logEnd: Position): void {
    const { position, instance: known, firstCopySeconds } = this.#mark;
    const isLost = instance !== known && position > 0;
    const isNewCopy = asked !== undefined && asked !== firstCopySeconds;
    // A log that is shorter than the mark is another log.
    if (isLost || isNewCopy || position > logEnd) {
      const copy = { everythingUntil: logEnd, firstCopySeconds: asked ?? 0 };
      this.#mark = { ...NEW_MARK, ...(asked === undefined ? {} : copy) };
    }
    this.#mark = { ...this.#mark, instance };
    this.#acknowledged = this.#mark.position;
  }

  /** The member would not take a change; true for the first one. */
  refused(): boolean {
    const { refused } = this.#mark;
    this.#mark = { ...this.#mark, refused: refused + 1 };
    return refused === 0;
  }

  /** What came from others before that place is to be compared with the member. */
  repair(until: Position): void {
    this.#mark = { ...this.#mark, repairUntil: until };
    void this.save();
  }

  /** That has been done, unless more has been asked for meanwhile. */
  repaired(until: Position): void {
    if (this.#mark.repairUntil === until) this.#mark = { ...this.#mark, repairUntil: 0 };
  }

  save(): Promise<void> {
    this.#mark = { ...this.#mark, position: this.#acknowledged };
    return this.#file.save(this.#mark);
  }
}
