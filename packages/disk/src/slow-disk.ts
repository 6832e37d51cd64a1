import { setTimeout as sleep } from 'node:timers/promises';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile } from './disk.js';

/**
 * A model of a hard disk in front of a real one, to see what Stevedore does on one: a single arm
 * serves one request at a time, in the order in which they come. A request that does not continue
 * the last one takes `seekMs` for seek and rotation, a sync as long, and every byte its time at 100
 * MB/s. Nothing is reordered, and the drive caches nothing. Callers wait; what is read and written
 * is real.
 */

const BYTES_PER_MS = 100_000;

export function slowDisk(disk: Disk, seekMs: number): Disk {
  let freeAtMs = 0;
  let last = { path: '', end: 0 };

  /** Until the arm has done all before and this. Late timers do not add up. */
  const arm = async (ms: number): Promise<void> => {
    const nowMs = performance.now();
    freeAtMs = Math.max(freeAtMs, nowMs) + ms;
    await sleep(freeAtMs - nowMs);
  };
  const transfer = (path: string, position: number, bytes: number): Promise<void> => {
    const follows = last.path === path && last.end === position;
    last = { path, end: position + bytes };
    return arm((follows ? 0 : seekMs) + bytes / BYTES_PER_MS);
  };
  const decorate = (file: DiskFile, path: string): DiskFile =>
    decoratedFile(file, {
      readAt: async (target, position) => {
        await transfer(path, position, target.length);
        return file.readAt(target, position);
      },
      writeAt: async (chunks, position) => {
        const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
        await transfer(path, position, bytes);
        await file.writeAt(chunks, position);
      },
      sync: async () => {
        await arm(seekMs);
        await file.sync();
      },
    });
  const changed: Partial<Disk> = {
    syncDirectory: async (path) => {
      await arm(seekMs);
      await disk.syncDirectory(path);
    },
    access: (bytes) => {
      last = { path: '', end: 0 };
      return arm(seekMs + bytes / BYTES_PER_MS);
    },
  };
  return decoratedDisk(disk, changed, decorate);
}
