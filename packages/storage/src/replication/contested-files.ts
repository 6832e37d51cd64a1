import type { Position } from './binlog.js';
import type { Journal } from './journal.js';

/**
 * Files that a member has changed without this storage and gives up. Others may have got
 * its change, and nobody tells how it ends if that member goes again. So the file becomes
 * a record of this storage's own log, which brings every member to one state of it.
 */

export interface ContestedFilesParts {
  readonly journal: Journal;
  /** False for a name that no file has. */
  readonly concerns: (name: string) => boolean;
  /** True once all members have what is in the log before that place. */
  readonly isPassedOn: (position: Position) => boolean;
}

/** Names in memory, so that one that is named again and again is not written each time. */
const MAX_NAMES = 65_536;

export class ContestedFiles {
  readonly #parts: ContestedFilesParts;
  readonly #positions = new Map<string, Position>();

  constructor(parts: ContestedFilesParts) {
    this.#parts = parts;
  }

  /** Resolves when the log has it durably. */
  async note(name: string): Promise<void> {
    const { journal, concerns, isPassedOn } = this.#parts;
    const known = this.#positions.get(name);
    if (!concerns(name) || (known !== undefined && !isPassedOn(known))) return;
    const change = journal.begin();
    try {
      await change.note('U', name);
    } finally {
      change.end();
    }
    if (this.#positions.size >= MAX_NAMES) this.#positions.clear();
    this.#positions.set(name, change.position);
  }
}
