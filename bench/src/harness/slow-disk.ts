import { setTimeout as sleep } from 'node:timers/promises';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile } from '@stevedore/disk';

/**
 * A disk slowed to that of the paper's machines, a single 7,200 rpm drive, by a model:
 * one arm serves one request at a time, in the order they came; a request that does
 * not go on where the last one ended costs 8 ms for seek and rotation, and every
 * request its bytes at 100 MB/s. A sync costs 8 ms. Nothing is reordered and nothing
 * is cached by the drive. Where it is, the caller is made to wait; what is read and
 * written is real.
 */

export const SEEK_MS = 8;
export const BYTES_PER_MS = 100_000;

export class SlowDisk {
  readonly disk: Disk;
  /** False: no delays. */
  isSlow = false;
  #freeAtMs = 0;
  #last: { readonly path: string; readonly end: number } | undefined;

  constructor(disk: Disk) {
    const syncDirectory = async (path: string): Promise<void> => {
      await this.#wait(SEEK_MS);
      await disk.syncDirectory(path);
    };
    this.disk = decoratedDisk(disk, { syncDirectory }, (file, path) => this.#file(path, file));
  }

  /** What is no file of the `Disk`, somewhere else than the last request. */
  access(bytes: number): Promise<void> {
    this.#last = undefined;
    return this.#wait(SEEK_MS + bytes / BYTES_PER_MS);
  }

  #file(path: string, file: DiskFile): DiskFile {
    const move = async (position: number, bytes: number): Promise<void> => {
      const follows = this.#last?.path === path && this.#last.end === position;
      this.#last = { path, end: position + bytes };
      await this.#wait((follows ? 0 : SEEK_MS) + bytes / BYTES_PER_MS);
    };
    return decoratedFile(file, {
      readAt: async (target, position) => {
        await move(position, target.length);
        return file.readAt(target, position);
      },
      writeAt: async (chunks, position) => {
        await move(
          position,
          chunks.reduce((sum, chunk) => sum + chunk.length, 0),
        );
        return file.writeAt(chunks, position);
      },
      sync: async () => {
        await this.#wait(SEEK_MS);
        await file.sync();
      },
    });
  }

  /** Until the arm has done all before and this. Late timers do not add up: the arm's time is its own. */
  async #wait(ms: number): Promise<void> {
    if (!this.isSlow) return;
    const nowMs = performance.now();
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + ms;
    await sleep(this.#freeAtMs - nowMs);
  }
}
