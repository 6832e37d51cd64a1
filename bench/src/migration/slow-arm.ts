import { setTimeout as sleep } from 'node:timers/promises';
import { type Disk, type DiskFile, decoratedFile } from '@stevedore/disk';

/**
 * A metadata server whose disk is a single 7,200 rpm drive, by a model: one arm serves one
 * thing at a time, in the order they came, and each costs 8 ms and its bytes at 100 MB/s. A
 * read of a small file is one, because record and bytes are one row; a commit is one, for
 * all that wait for it when it begins. What is not on this disk costs nothing here, nor does
 * looking up what the memory of the system has (records without their bytes). Where the arm
 * is, the caller waits; what is read and written is real.
 */

export const ACCESS_MS = 8;
export const BYTES_PER_MS = 100_000;

export class SlowArm {
  #freeAtMs = 0;
  /** Those who wait for the commit that comes next. */
  #commit: Promise<void> | undefined;

  /** A disk over the tiers; `isHere` tells whether the bytes of a path are on this server. */
  over(disk: Disk, isHere: (path: string) => boolean): Disk {
    return {
      create: (path) => disk.create(path),
      openToRead: async (path) => {
        const file = await disk.openToRead(path);
        return isHere(path) && !path.endsWith('-m') ? this.#read(file) : file;
      },
      openToUpdate: (path) => disk.openToUpdate(path),
      rename: (from, to) => disk.rename(from, to),
      unlink: (path) => disk.unlink(path),
      exists: (path) => disk.exists(path),
      makeDirectory: (path) => disk.makeDirectory(path),
      makeLink: (target, path) => disk.makeLink(target, path),
      readLink: (path) => disk.readLink(path),
      list: (path) => disk.list(path),
      space: (path) => disk.space(path),
      syncDirectory: async (path) => {
        await this.#committed();
        await disk.syncDirectory(path);
      },
    };
  }

  #read(file: DiskFile): DiskFile {
    return decoratedFile(file, {
      readAt: async (target, position) => {
        await this.#turn(ACCESS_MS + target.length / BYTES_PER_MS);
        return file.readAt(target, position);
      },
    });
  }

  /** One commit is at the arm, one gathers those who come meanwhile. */
  #committed(): Promise<void> {
    if (!this.#commit) {
      const beginsAtMs = Math.max(this.#freeAtMs, performance.now());
      this.#freeAtMs = beginsAtMs + ACCESS_MS;
      const endsAtMs = this.#freeAtMs;
      this.#commit = (async () => {
        await sleep(beginsAtMs - performance.now());
        this.#commit = undefined;
        await sleep(endsAtMs - performance.now());
      })();
    }
    return this.#commit;
  }

  /** Until the arm has done all before and this. Late timers do not add up: the arm's time is its own. */
  async #turn(ms: number): Promise<void> {
    const nowMs = performance.now();
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + ms;
    await sleep(this.#freeAtMs - nowMs);
  }
}
