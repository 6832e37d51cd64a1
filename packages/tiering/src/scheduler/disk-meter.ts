import type { Access, Accesses } from '@stevedore/balance';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile } from '@stevedore/disk';

/**
 * Measures how long the disk is busy with reads and with synced writes. Concurrent operations share
 * the time, so the sum never exceeds the time that has passed.
 */
export class DiskMeter {
  readonly #now: () => number;
  #underWay = 0;
  /** Time credited so far to an operation that had run from the beginning. */
  #sharedMs = 0;
  #atMs: number;
  #seen = nothing();

  /** `now` is in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#atMs = now();
  }

  /** Times an operation and credits it with so many accesses and bytes. */
  async time<Result>(
    access: Access,
    { count, bytes }: { readonly count: number; readonly bytes: number },
    work: () => Promise<Result>,
  ): Promise<Result> {
    this.#pass();
    this.#underWay += 1;
    const begun = this.#sharedMs;
    try {
      return await work();
    } finally {
      this.#pass();
      this.#underWay -= 1;
      const seen = this.#seen[access];
      seen.count += count;
      seen.bytes += bytes;
      seen.ms += this.#sharedMs - begun;
    }
  }

  /** Totals since the last call. */
  endInterval(): Readonly<Record<Access, Accesses>> {
    const seen = this.#seen;
    this.#seen = nothing();
    return seen;
  }

  /** The disk with metered reads and writes; a write counts when it is synced. */
  metered(disk: Disk): Disk {
    const syncDirectory = (path: string): Promise<void> =>
      this.time('write', { count: 0, bytes: 0 }, () => disk.syncDirectory(path));
    return decoratedDisk(disk, { syncDirectory }, (file) => this.#file(file));
  }

  #file(file: DiskFile): DiskFile {
    return decoratedFile(file, {
      readAt: (target, position) =>
        this.time('read', { count: 1, bytes: target.length }, () => file.readAt(target, position)),
      writeAt: (chunks, position) => {
        const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
        return this.time('write', { count: 0, bytes }, () => file.writeAt(chunks, position));
      },
      sync: () => this.time('write', { count: 1, bytes: 0 }, () => file.sync()),
    });
  }

  #pass(): void {
    const nowMs = this.#now();
    if (this.#underWay > 0) this.#sharedMs += (nowMs - this.#atMs) / this.#underWay;
    this.#atMs = nowMs;
  }
}

function nothing() {
  return { read: { count: 0, bytes: 0, ms: 0 }, write: { count: 0, bytes: 0, ms: 0 } };
}
