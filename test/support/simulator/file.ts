import type { Random } from '../random.js';

/**
 * A file of the simulated disk: what readers see, what a sync has made durable, and
 * every change since. A power failure keeps the durable bytes and whatever of the
 * changes it pleases; a killed process loses nothing, but the changes stay unsynced.
 *
 * A sync that fails leaves its changes doubtful, as Linux does: they are still
 * read, they may have reached the disk, and no later sync makes them durable.
 */

/**
 * killed: the process ends, the system goes on. The others are power failures: lost
 * (nothing unsynced survives), kept (everything does), subset (any of the changes, in
 * whole), torn (of each write a part: a prefix, or some of its sectors).
 */
export type CrashMode = 'killed' | 'lost' | 'kept' | 'subset' | 'torn';
export const CRASH_MODES: readonly CrashMode[] = ['killed', 'lost', 'kept', 'subset', 'torn'];

const SECTOR_BYTES = 512;

interface Change {
  readonly position: number;
  /** Undefined: the file was cut, or filled up with zeros, to `position`. */
  readonly bytes: Buffer | undefined;
  readonly state: 'unsynced' | 'doubtful' | 'durable';
}

export class SimulatedFile {
  #seen = new Image();
  #durable = new Image();
  /** In order; those before the first doubtful one are never durable: they are in the image. */
  #changes: Change[] = [];
  /** Unix seconds; no sync makes it durable. */
  mtimeSeconds: number;
  readonly #mtimeBefore: number;

  constructor(mtimeSeconds = 0) {
    this.mtimeSeconds = mtimeSeconds;
    this.#mtimeBefore = mtimeSeconds;
  }

  get size(): number {
    return this.#seen.size;
  }

  read(target: Buffer, position: number): number {
    return this.#seen.bytes().copy(target, 0, Math.min(position, this.#seen.size));
  }

  bytes(): Buffer {
    return Buffer.from(this.#seen.bytes());
  }

  write(bytes: Buffer, position: number): void {
    this.#change({ position, bytes, state: 'unsynced' });
  }

  truncate(size: number): void {
    this.#change({ position: size, bytes: undefined, state: 'unsynced' });
  }

  sync(): void {
    this.#changes = this.#changes.map((change) =>
      change.state === 'unsynced' ? { ...change, state: 'durable' } : change,
    );
    while (this.#changes[0]?.state === 'durable') this.#durable.apply(this.#changes.shift()!);
  }

  /** What was written to that place last is durable, whatever was before it. */
  syncLast(position: number): void {
    this.#endLast(position, 'durable');
  }

  failSyncLast(position: number): void {
    this.#endLast(position, 'doubtful');
  }

  #endLast(position: number, state: Change['state']): void {
    const index = this.#changes.findLastIndex((change) => change.position === position);
    const change = this.#changes[index];
    if (change?.state === 'unsynced') this.#changes[index] = { ...change, state };
    while (this.#changes[0]?.state === 'durable') this.#durable.apply(this.#changes.shift()!);
  }

  failSync(): void {
    this.#changes = this.#changes.map((change) =>
      change.state === 'unsynced' ? { ...change, state: 'doubtful' } : change,
    );
  }

  copy(): SimulatedFile {
    const file = new SimulatedFile(this.mtimeSeconds);
    file.#seen = this.#seen.copy();
    file.#durable = this.#durable.copy();
    file.#changes = [...this.#changes];
    return file;
  }

  /** The file as it is found after a power failure, all of it durable. */
  survivor(mode: Exclude<CrashMode, 'killed'>, random: Random): SimulatedFile {
    const image = this.#durable.copy();
    for (const change of this.#changes) {
      if (change.state === 'durable') image.apply(change);
      else for (const part of survivingParts(change, mode, random)) image.apply(part);
    }
    const isLate = mode === 'kept' || (mode !== 'lost' && random.below(2) === 0);
    const file = new SimulatedFile(isLate ? this.mtimeSeconds : this.#mtimeBefore);
    file.#durable = image;
    file.#seen = image.copy();
    return file;
  }

  #change(change: Change): void {
    this.#seen.apply(change);
    this.#changes.push(change);
  }
}

function survivingParts(change: Change, mode: CrashMode, random: Random): Change[] {
  if (mode === 'kept') return [change];
  if (mode === 'lost') return [];
  if (mode === 'subset' || !change.bytes) return random.below(2) === 0 ? [change] : [];
  const { bytes, position } = change;
  const whole = random.below(3);
  if (whole === 0) return [change];
  if (whole === 1) {
    const cut = random.below(bytes.length + 1);
    const kept = random.below(2) === 0 ? cut : sectorEnd(position + cut) - position;
    return [{ ...change, bytes: bytes.subarray(0, Math.max(0, Math.min(kept, bytes.length))) }];
  }
  const parts: Change[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, sectorEnd(position + at + 1) - position);
    if (random.below(2) === 0) {
      parts.push({ ...change, position: position + at, bytes: bytes.subarray(at, end) });
    }
    at = end;
  }
  return parts;
}

function sectorEnd(position: number): number {
  return Math.ceil(position / SECTOR_BYTES) * SECTOR_BYTES;
}

/** Bytes that grow; what was skipped reads as zeros. */
class Image {
  #buffer = Buffer.alloc(0);
  size = 0;

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.size);
  }

  apply({ position, bytes }: Pick<Change, 'position' | 'bytes'>): void {
    const end = position + (bytes?.length ?? 0);
    if (end > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(end, this.#buffer.length * 2, 1024));
      this.bytes().copy(larger);
      this.#buffer = larger;
    }
    if (bytes) {
      bytes.copy(this.#buffer, position);
      this.size = Math.max(this.size, end);
    } else {
      if (position < this.size) this.#buffer.fill(0, position);
      this.size = position;
    }
  }

  copy(): Image {
    const image = new Image();
    image.#buffer = Buffer.from(this.bytes());
    image.size = this.size;
    return image;
  }
}
