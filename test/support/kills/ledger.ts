import type { Random } from '../random.js';

/**
 * What the product has acknowledged, and what of it turned out to be wrong. A file
 * is entered when its 201 has arrived whole, and is deleted when its 204 has; a
 * deletion without an answer may have happened or not, until a restart has told.
 */

export type FileState = 'alive' | 'deleting' | 'unknown' | 'deleted';
export type Wrong = 'lost' | 'altered' | 'undead';

export interface NewFile {
  readonly key: string;
  readonly size: number;
  readonly sha256: string;
}

export interface LedgerFile extends NewFile {
  /** Round in which it was acknowledged. */
  readonly round: number;
  state: FileState;
  /** Every FastDFS id that the gateway has told of it. */
  readonly fileIds: string[];
  /** Place in the list of living files. */
  place: number;
  wrong: Wrong | undefined;
}

const MAX_FINDINGS_OF_A_KIND = 10;

export class Ledger {
  readonly files: LedgerFile[] = [];
  readonly findings: string[] = [];
  readonly counts: Record<Wrong, number> = { lost: 0, altered: 0, undead: 0 };
  deletions = 0;
  readonly #random: Random;
  readonly #alive: LedgerFile[] = [];
  /** Files that are deleted next, whatever else is. */
  #condemned: LedgerFile[] = [];
  /** Touched in this round, and in the one before. */
  #touched = new Set<LedgerFile>();
  #touchedBefore = new Set<LedgerFile>();
  #round = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  add({ key, size, sha256 }: NewFile): void {
    const file: LedgerFile = {
      key,
      size,
      sha256,
      round: this.#round,
      state: 'alive',
      fileIds: [],
      place: this.#alive.length,
      wrong: undefined,
    };
    this.files.push(file);
    this.#alive.push(file);
    this.#touched.add(file);
  }

  anyAlive(): LedgerFile | undefined {
    return this.#alive[this.#random.below(this.#alive.length)];
  }

  /** Takes a living file for deletion. It is nobody else's until `settle`. */
  claim(): LedgerFile | undefined {
    const file = this.#nextCondemned() ?? this.anyAlive();
    if (!file) return undefined;
    const last = this.#alive.pop()!;
    if (last !== file) {
      this.#alive[file.place] = last;
      last.place = file.place;
    }
    file.state = 'deleting';
    this.#touched.add(file);
    return file;
  }

  settle(file: LedgerFile, state: FileState): void {
    if (state === 'deleted') this.deletions += 1;
    if (state === 'alive') file.place = this.#alive.push(file) - 1;
    file.state = state;
  }

  /** Has `count` files deleted that came one after the other: whole trunks die. */
  condemnRun(count: number): void {
    const from = this.#random.below(Math.max(1, this.files.length - count));
    this.#condemned = this.files.slice(from, from + count);
  }

  /** All that the last two rounds touched, and `count` files of any age. */
  worthALook(count: number): Set<LedgerFile> {
    const chosen = new Set([...this.#touched, ...this.#touchedBefore]);
    for (let n = 0; n < count && this.files.length > 0; n++) {
      chosen.add(this.#random.pick(this.files));
    }
    return chosen;
  }

  endRound(): void {
    this.#round += 1;
    this.#touchedBefore = this.#touched;
    this.#touched = new Set();
  }

  /** Every file counts once. */
  report(file: LedgerFile, wrong: Wrong, why: string): void {
    if (file.wrong !== undefined) return;
    file.wrong = wrong;
    this.counts[wrong] += 1;
    if (this.counts[wrong] > MAX_FINDINGS_OF_A_KIND) return;
    const { key, size, round } = file;
    this.findings.push(
      `${wrong} in round ${this.#round}: ${key} (${size} bytes, of round ${round}): ${why}`,
    );
  }

  #nextCondemned(): LedgerFile | undefined {
    for (;;) {
      const file = this.#condemned.pop();
      if (!file || file.state === 'alive') return file;
    }
  }
}

export function noteId({ fileIds }: LedgerFile, id: string | undefined): void {
  if (id !== undefined && !fileIds.includes(id)) fileIds.push(id);
}
