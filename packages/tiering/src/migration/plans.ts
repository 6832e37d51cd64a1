import { isMovedName } from '../tiers/away-files.js';
import type { MoveOutcome } from '../tiers/tier-moves.js';
import type { Audit } from './audit.js';
import { Mover, type MoverOptions, type PlannedMove } from './mover.js';
import type { MigrationStatus } from './status.js';

/**
 * The moves that were decided: carried out at their rate, or only written down in a dry
 * run. Each ends with a line in the log of moves, and is counted.
 */

export interface PlansParts extends Omit<MoverOptions, 'maxQueued' | 'onEnd'> {
  readonly audit: Audit;
}

const MAX_QUEUED = 1024;

export class Plans {
  readonly #parts: PlansParts;
  readonly #mover: Mover;
  readonly #moves = { moved: 0, revoked: 0, refused: 0, failed: 0 };
  #movedBytes = 0;
  #isDryRun = false;

  constructor(parts: PlansParts) {
    this.#parts = parts;
    this.#mover = new Mover({
      ...parts,
      maxQueued: MAX_QUEUED,
      onEnd: (move, outcome) => this.#ended(move, outcome),
    });
  }

  get status(): Pick<MigrationStatus, 'isPaused' | 'isDryRun' | 'moves' | 'movedBytes' | 'queued'> {
    return {
      isPaused: this.#mover.isPaused,
      isDryRun: this.#isDryRun,
      moves: { ...this.#moves },
      movedBytes: this.#movedBytes,
      queued: this.#mover.queued,
    };
  }

  pause(): void {
    this.#mover.pause();
  }

  resume(): void {
    this.#isDryRun = false;
    this.#mover.resume();
  }

  dryRun(): void {
    this.#isDryRun = true;
  }

  async close(): Promise<void> {
    await this.#mover.close();
    await this.#parts.audit.flush();
  }

  add(planned: PlannedMove): void {
    const thresholdBytes = Math.floor(this.#parts.thresholdBytes());
    // What another storage has moved here goes no further: no copy leads to a copy.
    const to = typeof planned.to === 'object' && isMovedName(planned.name) ? 'file' : planned.to;
    const move = { ...planned, to, numbers: { ...planned.numbers, thresholdBytes } };
    if (this.#isDryRun) this.#write(move, 'dry-run');
    else this.#mover.add(move);
  }

  #ended(move: PlannedMove, outcome: MoveOutcome | 'failed'): void {
    this.#moves[outcome] += 1;
    if (outcome === 'moved') this.#movedBytes += move.size;
    this.#write(move, outcome);
  }

  #write({ name, to, reason, size, numbers }: PlannedMove, outcome: string): void {
    const at = new Date(this.#parts.now()).toISOString();
    const where = typeof to === 'string' ? to : to.group;
    this.#parts.audit.write({ at, name, to: where, reason, size, ...numbers, outcome });
  }
}
