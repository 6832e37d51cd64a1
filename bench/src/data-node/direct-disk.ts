import fs from 'node:fs';
import { promisify } from 'node:util';
import {
  type Disk,
  type DiskFile,
  decoratedDisk,
  decoratedFile,
  hasCode,
  localDisk,
} from '@stevedore/disk';

/**
 * The local disk, read past the page cache (O_DIRECT): what is measured is the disk,
 * however much memory the machine has. Such reads need memory, place and length in
 * whole blocks, so each goes through an aligned buffer and is copied from there, in
 * every setting alike. Where the system has no such reads, `isDirect` is false.
 */

const BLOCK_BYTES = 4096;
/** Buffers at a time; a read that finds none waits. */
const SLOTS = 16;
const SLOT_BYTES = 2 ** 21;
/** Memory from the system is aligned to at least so much. */
const STEP_BYTES = 16;
const DIRECT = fs.constants.O_DIRECT ?? 0;

const open = promisify(fs.open);
const close = promisify(fs.close);
const read = promisify(fs.read);

export class DirectDisk {
  readonly counts = { reads: 0, bytes: 0 };
  readonly disk: Disk = decoratedDisk(localDisk, { openToRead: (path) => this.#open(path) });
  isDirect = DIRECT !== 0;
  /** Undefined: none is made yet. */
  #free: Buffer[] | undefined;
  readonly #waiting: ((slot: Buffer) => void)[] = [];

  async #open(path: string): Promise<DiskFile> {
    const file = await localDisk.openToRead(path);
    const fd = this.isDirect ? await this.#openDirect(path) : undefined;
    return decoratedFile(file, {
      readAt: async (target, position) => {
        this.counts.reads += 1;
        this.counts.bytes += target.length;
        if (fd === undefined || target.length > SLOT_BYTES - 2 * BLOCK_BYTES) {
          return file.readAt(target, position);
        }
        return this.#readDirect(fd, target, position);
      },
      close: async () => {
        await file.close();
        if (fd !== undefined) await close(fd);
      },
    });
  }

  async #openDirect(path: string): Promise<number | undefined> {
    try {
      const fd = await open(path, fs.constants.O_RDONLY | DIRECT);
      // What is smaller than a block is of the storage's own: no file of the load.
      if (fs.fstatSync(fd).size >= BLOCK_BYTES) {
        this.#free ??= slotsFor(fd);
        this.isDirect = this.#free.length > 0;
        if (this.isDirect) return fd;
      }
      await close(fd);
    } catch (error) {
      if (!hasCode(error, 'EINVAL')) throw error;
      this.isDirect = false;
    }
    return undefined;
  }

  async #readDirect(fd: number, target: Buffer, position: number): Promise<number> {
    const free = this.#free?.pop();
    const slot = free ?? (await new Promise<Buffer>((resolve) => this.#waiting.push(resolve)));
    try {
      const from = position - (position % BLOCK_BYTES);
      const end = position + target.length;
      const bytes = Math.ceil((end - from) / BLOCK_BYTES) * BLOCK_BYTES;
      const { bytesRead } = await read(fd, slot, 0, bytes, from);
      return slot.copy(target, 0, position - from, Math.min(bytesRead, end - from));
    } finally {
      const next = this.#waiting.shift();
      if (next) next(slot);
      else this.#free?.push(slot);
    }
  }
}

/** Nobody tells where memory is: the first place from which a direct read works is aligned. */
function slotsFor(fd: number): Buffer[] {
  const memories = Array.from({ length: SLOTS }, () =>
    Buffer.allocUnsafeSlow(SLOT_BYTES + BLOCK_BYTES),
  );
  const slots = memories.map((memory) => {
    for (let at = 0; at < BLOCK_BYTES; at += STEP_BYTES) {
      try {
        fs.readSync(fd, memory, at, BLOCK_BYTES, 0);
        // Aligned to a sector at least; blocks begin at the next multiple from here.
        return memory.subarray(at, at + SLOT_BYTES);
      } catch (error) {
        if (!hasCode(error, 'EINVAL')) throw error;
      }
    }
    return undefined;
  });
  return slots.every((slot) => slot !== undefined) ? slots : [];
}
