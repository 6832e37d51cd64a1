import { dirname, join } from 'node:path';
import type { Disk } from '@stevedore/disk';
import { endOfLines } from '@stevedore/storage';
import { isMovedName } from '../tiers/remote-files.js';
import type { Tier } from '../tiers/tier.js';
import type { MoveOutcome } from '../tiers/tier-moves.js';
import type { MigrationStatus } from './status.js';

/**
 * Carries out the planned moves one after another, at a limited rate, or only logs them in a dry
 * run. The queue is bounded and holds a file once; a move that does not fit is planned again later
 * if it still matters. Each move ends with a line in the move log.
 */

export type MoveReason = 'load' | 'threshold' | 'space' | 'shrunk' | 'recall';

/** `file`: a file of this storage; `home`: back from another group, as a row or a file. */
export type MoveTarget = 'file' | 'home' | { readonly group: string };

export interface PlannedMove {
  readonly tier: Tier;
  readonly name: string;
  readonly to: MoveTarget;
  readonly reason: MoveReason;
  readonly size: number;
  /** The numbers behind the decision, for the audit. */
  readonly numbers: Readonly<Record<string, number>>;
}

export interface PlannedMovesParts {
  readonly audit: Audit;
  readonly movesPerSecond: number;
  /** The largest file that may return to a row now. */
  readonly thresholdBytes: () => number;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const MAX_QUEUED = 1024;

export class PlannedMoves {
  readonly #parts: PlannedMovesParts;
  readonly #queue = new Map<string, PlannedMove>();
  readonly #ended = { moved: 0, revoked: 0, refused: 0, failed: 0 };
  #movedBytes = 0;
  #isDryRun = false;
  #isPaused = false;
  #isClosed = false;
  /** Moves that may start at once; refills over time. */
  #tokens = 1;
  #filledAtMs: number;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;

  constructor(parts: PlannedMovesParts) {
    this.#parts = parts;
    this.#filledAtMs = parts.now();
  }

  get status(): Pick<MigrationStatus, 'isPaused' | 'isDryRun' | 'moves' | 'movedBytes' | 'queued'> {
    return {
      isPaused: this.#isPaused,
      isDryRun: this.#isDryRun,
      moves: { ...this.#ended },
      movedBytes: this.#movedBytes,
      queued: this.#queue.size,
    };
  }

  add(planned: PlannedMove): void {
    const thresholdBytes = Math.floor(this.#parts.thresholdBytes());
    // A file that another storage moved here does not move on: no copy leads to another.
    const to = typeof planned.to === 'object' && isMovedName(planned.name) ? 'file' : planned.to;
    const move = { ...planned, to, numbers: { ...planned.numbers, thresholdBytes } };
    if (this.#isDryRun) {
      this.#write(move, 'dry-run');
      return;
    }
    const key = move.tier.pathOf(move.name);
    if (this.#isClosed || this.#queue.has(key) || this.#queue.size >= MAX_QUEUED) return;
    this.#queue.set(key, move);
    this.#wake();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isDryRun = false;
    this.#isPaused = false;
    this.#wake();
  }

  dryRun(): void {
    this.#isDryRun = true;
  }

  /** Cancels the running move and drops the waiting ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#queue.clear();
    clearTimeout(this.#timer);
    await this.#working;
    await this.#parts.audit.flush();
  }

  #wake(): void {
    const [next] = this.#queue;
    if (this.#working || this.#isPaused || this.#isClosed || !next) return;
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
    const [key, move] = next;
    this.#queue.delete(key);
    this.#working = this.#make(move).then(() => {
      this.#working = undefined;
      this.#wake();
    });
  }

  /** Until the rate allows another move: 0 or less if it does now. */
  #waitMs(): number {
    const { now, movesPerSecond } = this.#parts;
    const nowMs = now();
    const filled = (Math.max(0, nowMs - this.#filledAtMs) * movesPerSecond) / 1000;
    this.#filledAtMs = nowMs;
    this.#tokens = Math.min(this.#tokens + filled, Math.max(1, movesPerSecond));
    return Math.ceil(((1 - this.#tokens) * 1000) / movesPerSecond);
  }

  async #make(move: PlannedMove): Promise<void> {
    let outcome: MoveOutcome | 'failed' = 'failed';
    try {
      outcome = await this.#carryOut(move);
    } catch (error) {
      this.#parts.onError(error);
    }
    this.#ended[outcome] += 1;
    if (outcome === 'moved') this.#movedBytes += move.size;
    this.#write(move, outcome);
  }

  #carryOut({ tier: { moves }, name, to }: PlannedMove): Promise<MoveOutcome> {
    if (to === 'file') return moves.toFile(name);
    return to === 'home'
      ? moves.home(name, this.#parts.thresholdBytes())
      : moves.toGroup(name, to.group);
  }

  #write({ name, to, reason, size, numbers }: PlannedMove, outcome: string): void {
    const at = new Date(this.#parts.now()).toISOString();
    const where = typeof to === 'string' ? to : to.group;
    this.#parts.audit.write({ at, name, to: where, reason, size, ...numbers, outcome });
  }
}

/**
 * The move log: a JSON line per move, with the numbers that decided it, so that operators can see
 * why a file is where it is. At `MAX_BYTES` the file is rotated and replaces the previous one.
 * Lines are written and synced together when `flush` is called, because a sync for each would load
 * the disk that moves are to relieve. A crash can lose the last lines, but leaves no partial line
 * before others.
 */

export const AUDIT_FILE = '.stevedore-moves.jsonl';
const MAX_BYTES = 16 * 2 ** 20;

export class Audit {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #onError: (error: unknown) => void;
  #waiting: Buffer[] = [];
  #writing: Promise<void> | undefined;

  constructor(disk: Disk, directory: string, onError: (error: unknown) => void) {
    this.#disk = disk;
    this.#path = join(directory, AUDIT_FILE);
    this.#onError = onError;
  }

  /** Lines keep the order of the calls. */
  write(entry: object): void {
    this.#waiting.push(Buffer.from(`${JSON.stringify(entry)}\n`));
  }

  /** Resolves when all lines are durable, or were reported as failed. */
  async flush(): Promise<void> {
    if (this.#waiting.length > 0) this.#writing ??= this.#writeAll();
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = Buffer.concat(this.#waiting);
      this.#waiting = [];
      await this.#append(lines).catch(this.#onError);
    }
    this.#writing = undefined;
  }

  async #append(lines: Buffer): Promise<void> {
    const file = await this.#disk.openToUpdate(this.#path);
    let end = 0;
    try {
      end = await endOfLines(file);
      await file.truncate(end);
      await file.writeAt([lines], end);
      await file.sync();
    } finally {
      await file.close();
    }
    if (end === 0) await this.#disk.syncDirectory(dirname(this.#path));
    if (end + lines.length < MAX_BYTES) return;
    await this.#disk.rename(this.#path, `${this.#path}.1`);
    await this.#disk.syncDirectory(dirname(this.#path));
  }
}
