import { isMovedName } from '../tiers/away-files.js';
import type { Tier } from '../tiers/tier.js';
import type { MoveOutcome } from '../tiers/tier-moves.js';
import type { Audit } from './audit.js';
import type { MigrationStatus } from './status.js';

/**
 * Makes the moves that were decided, one after the other, at most so many a second. The
 * queue is bounded and has a file once; what does not fit is decided again if it still
 * matters then.
 */

export type MoveReason = 'load' | 'threshold' | 'space' | 'shrunk' | 'recall';

/** A file of this storage, home in a row or a file, or another group. */
export type MoveTarget = 'file' | 'home' | { readonly group: string };

export interface PlannedMove {
  readonly tier: Tier;
  readonly name: string;
  readonly to: MoveTarget;
  readonly reason: MoveReason;
  readonly size: number;
  /** What decided it, for the audit. */
  readonly numbers: Readonly<Record<string, number>>;
}

export interface MoverOptions {
  readonly maxQueued: number;
  readonly movesPerSecond: number;
  /** The largest file that comes into a row now. */
  readonly thresholdBytes: () => number;
  readonly now: () => number;
  readonly onEnd: (move: PlannedMove, outcome: MoveOutcome | 'failed') => void;
  readonly onError: (error: unknown) => void;
}

export class Mover {
  readonly #options: MoverOptions;
  readonly #queue = new Map<string, PlannedMove>();
  #isPaused = false;
  #isClosed = false;
  /** Moves that may begin at once; fills up with time. */
  #tokens = 1;
  #filledAtMs: number;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;

  constructor(options: MoverOptions) {
    this.#options = options;
    this.#filledAtMs = options.now();
  }

  get queued(): number {
    return this.#queue.size;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** False if it is queued already or there is no room. */
  add(move: PlannedMove): boolean {
    const key = move.tier.pathOf(move.name);
    if (this.#isClosed || this.#queue.has(key) || this.#queue.size >= this.#options.maxQueued) {
      return false;
    }
    this.#queue.set(key, move);
    this.#wake();
    return true;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#wake();
  }

  /** Ends the move under way; those that wait are dropped. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#queue.clear();
    clearTimeout(this.#timer);
    await this.#working;
  }

  #wake(): void {
    if (this.#working || this.#isPaused || this.#isClosed || this.#queue.size === 0) return;
    const waitMs = this.#waitMs();
    if (waitMs > 0) {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.#wake();
      }, waitMs);
      this.#timer.unref();
      return;
    }
    this.#tokens -= 1;
    const [key, move] = this.#queue.entries().next().value!;
    this.#queue.delete(key);
    this.#working = this.#make(move).then(() => {
      this.#working = undefined;
      this.#wake();
    });
  }

  /** Until the rate allows the next one. */
  #waitMs(): number {
    const { now, movesPerSecond } = this.#options;
    const nowMs = now();
    const filled = (Math.max(0, nowMs - this.#filledAtMs) * movesPerSecond) / 1000;
    this.#filledAtMs = nowMs;
    this.#tokens = Math.min(this.#tokens + filled, Math.max(1, movesPerSecond));
    return this.#tokens >= 1 ? 0 : Math.ceil(((1 - this.#tokens) * 1000) / movesPerSecond);
  }

  async #make(move: PlannedMove): Promise<void> {
    const { onEnd, onError } = this.#options;
    try {
      onEnd(move, await this.#carryOut(move));
    } catch (error) {
      onEnd(move, 'failed');
      onError(error);
    }
  }

  #carryOut({ tier: { moves }, name, to }: PlannedMove): Promise<MoveOutcome> {
    if (to === 'file') return moves.toFile(name);
    return to === 'home'
      ? moves.home(name, this.#options.thresholdBytes())
      : moves.toGroup(name, to.group);
  }
}

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
