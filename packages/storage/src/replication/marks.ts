import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError } from '@stevedore/wire';
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
   * The member was told to take its first copy from here: what came here from others
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
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #name: string;
  readonly #onError: (error: Error) => void;
  #saved = '';
  #saving: Promise<void> = Promise.resolve();

  constructor(disk: Disk, directory: string, id: string, onError: (error: Error) => void) {
    if (!Members.isId(id)) throw new TypeError(`"${id}" is no member's id`);
    this.#disk = disk;
    this.#directory = directory;
    this.#name = `${id}.mark`;
    this.#onError = onError;
  }

  async load(): Promise<Mark> {
    const path = join(this.#directory, this.#name);
    const bytes = await readSmallFile(this.#disk, path, MAX_MARK_BYTES);
    return parse(bytes?.toString('utf8'));
  }

  save(mark: Mark): Promise<void> {
    const content = JSON.stringify(mark);
    if (content === this.#saved) return this.#saving;
    this.#saved = content;
    this.#saving = this.#saving
      .then(() => replaceFile(this.#disk, this.#directory, this.#name, content))
      .catch((error: unknown) => this.#onError(asError(error)));
    return this.#saving;
  }
}

function parse(text: string | undefined): Mark {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    return NEW_MARK;
  }
  if (typeof value !== 'object' || value === null) return NEW_MARK;
  const fields = new Map<string, unknown>(Object.entries(value));
  const count = (name: string): number => {
    const field = fields.get(name);
    return typeof field === 'number' && Number.isSafeInteger(field) && field >= 0 ? field : -1;
  };
  const mark = {
    position: count('position'),
    everythingUntil: count('everythingUntil'),
    firstCopySeconds: count('firstCopySeconds'),
    refused: count('refused'),
  };
  const whole = Object.values(mark).every((each) => each !== -1);
  return whole ? mark : NEW_MARK;
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
