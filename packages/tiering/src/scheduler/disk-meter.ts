import type { Access, Accesses } from '@stevedore/balance';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile } from '@stevedore/disk';

/**
 * For how long the disk is busy with reads, and with synced writes. Where several are under
 * way at once each counts for its share of the time, so that all of them together
 * never count for more than has passed.
 */
export class DiskMeter {
  readonly #now: () => number;
  #underWay = 0;
  /** What one that had been under way from the beginning would have been given. */
  #sharedMs = 0;
  #atMs: number;
  #seen = nothing();

  /** `now` gives milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#atMs = now();
  }

  /** Times what is done; its milliseconds count for the access, with so many accesses and bytes. */
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

  /** What there has been since the last call. */
  endInterval(): Readonly<Record<Access, Accesses>> {
    const seen = this.#seen;
    this.#seen = nothing();
    return seen;
  }

  /** The disk, with what is read and written on it metered: a write is one when it is synced. */
  metered(disk: Disk): Disk {
    const decorated = decoratedDisk(disk, (file) => this.#file(file));
    const syncDirectory = (path: string): Promise<void> =>
      this.time('write', { count: 0, bytes: 0 }, () => disk.syncDirectory(path));
    return { ...decorated, syncDirectory };
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
