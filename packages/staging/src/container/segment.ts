import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { serial } from '@stevedore/async';
import { type Disk, type DiskFile, hasCode, isMediumFailure, removeIfThere } from '@stevedore/disk';
import {
  decodeSegmentHeader,
  encodeSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
} from './record.js';

/** Bytes per read when the whole segment is read. */
export const CHUNK_BYTES = 2 ** 20;

/**
 * One segment file. Readers may continue while it is being removed: the file is closed when the
 * last of them is done.
 */
export class Segment {
  readonly number: number;
  readonly path: string;
  readonly #disk: Disk;
  readonly #file: DiskFile;
  /** Valid bytes: what readers may see. */
  bytes: number;
  /** Written bytes: where the next record goes. */
  end: number;
  /** Bytes known to be durable. */
  synced = 0;
  /** Durable bytes, plus those that durable writes in progress will add. */
  #syncing = 0;
  /** Writes in progress; they never reject. */
  readonly #writing = new Set<Promise<void>>();
  /** Why the segment accepts no more writes. */
  failure: unknown;
  /** A sync has failed since `synced` was known: a later one says nothing about those bytes. */
  #isDoubtful = false;
  /** One sync at a time: with two, one could get the error of the other. */
  readonly #inTurn = serial();
  /** Refused bytes are known to be cut off durably. */
  isCut = false;
  #readers = 0;
  #closing: (() => void) | undefined;

  private constructor(number: number, path: string, disk: Disk, file: DiskFile, bytes: number) {
    this.number = number;
    this.path = path;
    this.#disk = disk;
    this.#file = file;
    this.bytes = bytes;
    this.end = bytes;
  }

  /** A new, empty segment; its name and header are durable when this resolves. */
  static async create(disk: Disk, folder: string, header: SegmentHeader): Promise<Segment> {
    const number = header.segment;
    const path = `${folder}/${segmentName(number)}`;
    const file = await disk.create(path);
    try {
      await file.writeAt([encodeSegmentHeader(header)], 0);
      await file.sync();
      await disk.syncDirectory(folder);
    } catch (error) {
      await file.close().catch(() => undefined);
      await disk.unlink(path).catch(() => undefined);
      throw error;
    }
    const segment = new Segment(number, path, disk, file, SEGMENT_HEADER_BYTES);
    segment.synced = SEGMENT_HEADER_BYTES;
    return segment;
  }

  /**
   * Opens a segment of an earlier process, of which the first `synced` bytes are known to be
   * durable. The first sync rewrites the rest, because another process may have failed to sync it.
   */
  static async open(disk: Disk, folder: string, number: number, synced: number): Promise<Segment> {
    const path = `${folder}/${segmentName(number)}`;
    const file = await disk.openToUpdate(path);
    try {
      const segment = new Segment(number, path, disk, file, (await file.stat()).size);
      segment.synced = Math.min(synced, segment.bytes);
      segment.#isDoubtful = true;
      return segment;
    } catch (error) {
      await file.close().catch(() => undefined);
      throw error;
    }
  }

  /** Opens a segment that another process writes; undefined if there is none. */
  static async openToRead(
    disk: Disk,
    folder: string,
    number: number,
  ): Promise<Segment | undefined> {
    const path = `${folder}/${segmentName(number)}`;
    try {
      return new Segment(number, path, disk, await disk.openToRead(path), 0);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  /** The segment's header; undefined if it is damaged. */
  async header(): Promise<SegmentHeader | undefined> {
    const header = decodeSegmentHeader(await this.read(0, SEGMENT_HEADER_BYTES));
    return header?.segment === this.number ? header : undefined;
  }

  /**
   * Appends bytes; the caller declares them valid later. With `durably`, if the disk supports it
   * (`isDurable`), the bytes are durable when `done` resolves, provided that the bytes before them
   * are; the caller reports that with `settle`. The next write need not wait for it.
   */
  write(
    buffers: readonly Uint8Array[],
    bytes: number,
    durably: boolean,
  ): { readonly done: Promise<void>; readonly isDurable: boolean } {
    const start = this.end;
    this.end += bytes;
    // All bytes before a durable write must be durable.
    const isSynced = !this.#isDoubtful && Math.max(this.synced, this.#syncing) >= start;
    const isDurable = durably && isSynced && this.#file.writeDurablyAt !== undefined;
    const done = isDurable
      ? this.#writeDurably(buffers, start)
      : this.#file.writeAt(buffers, start);
    if (isDurable) this.#syncing = this.end;
    const ended = done.catch(() => undefined).finally(() => this.#writing.delete(ended));
    this.#writing.add(ended);
    return { done, isDurable };
  }

  async #writeDurably(buffers: readonly Uint8Array[], start: number): Promise<void> {
    try {
      await this.#file.writeDurablyAt!(buffers, start);
    } catch (error) {
      this.#isDoubtful = true;
      throw error;
    }
  }

  /** Call when all bytes up to `end` are durable because all durable writes before it are done. */
  settle(end: number): void {
    this.synced = Math.max(this.synced, end);
  }

  /** Makes bytes up to `end` durable. */
  sync(end = this.bytes): Promise<void> {
    return this.#inTurn(() => this.#sync(end));
  }

  async #sync(end: number): Promise<void> {
    try {
      // After a failed sync the system drops the dirty pages. Only rewritten bytes are synced
      // again.
      if (this.#isDoubtful) await this.#writeAgain(this.synced, end);
      await this.#file.sync();
    } catch (error) {
      this.#isDoubtful = true;
      throw error;
    }
    this.#isDoubtful = false;
    this.settle(end);
  }

  async #writeAgain(from: number, end: number): Promise<void> {
    for (let at = from; at < end; ) {
      const bytes = await this.read(at, Math.min(CHUNK_BYTES, end - at));
      if (bytes.length === 0) return;
      await this.#file.writeAt([bytes], at);
      at += bytes.length;
    }
  }

  /** Truncates bytes that were written but not declared valid; durable when it resolves. */
  async dropInvalidBytes(): Promise<void> {
    while (this.#writing.size > 0) await Promise.all(this.#writing);
    this.end = this.bytes;
    await this.#file.truncate(this.bytes);
    await this.#inTurn(async () => {
      try {
        await this.#file.sync();
      } catch (error) {
        // The error may concern bytes that were acknowledged before they were synced.
        this.#isDoubtful = true;
        throw error;
      }
    });
    this.isCut = true;
  }

  /** Bytes at `position`; fewer than asked for only at the end of the file. */
  async read(position: number, count: number): Promise<Buffer> {
    this.#readers += 1;
    try {
      const target = Buffer.allocUnsafe(count);
      const filled = await this.#file.readAt(target, position);
      return filled === count ? target : target.subarray(0, filled);
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) this.#closing?.();
    }
  }

  /** As `read`, at once; undefined if the bytes may have to be waited for, or cannot be read. */
  readNow(position: number, count: number): Buffer | undefined {
    if (this.#closing || !this.#file.readNow) return undefined;
    const target = Buffer.allocUnsafeSlow(count);
    try {
      return this.#file.readNow(target, position) === count ? target : undefined;
    } catch {
      // `readFirmly` tells a bad sector from a passing failure.
      return undefined;
    }
  }

  /** Closes the segment for writes and keeps one descriptor for reads. */
  async finish(): Promise<void> {
    // Durable bytes stay durable, whatever closing returns.
    await this.#file.releaseDurable?.().catch(() => undefined);
  }

  /** As `read`, but bytes that a working disk fails to read throw Unreadable. */
  readFirmly(position: number, count: number): Promise<Buffer> {
    return readFirmly(
      () => this.read(position, count),
      () => this.#disk.syncDirectory(dirname(this.path)),
    );
  }

  async close(): Promise<void> {
    if (this.#readers > 0) {
      await new Promise<void>((resolve) => {
        this.#closing = resolve;
      });
    }
    await this.#file.close();
  }

  /** Removes the file's name. Open readers can continue. */
  async unlink(): Promise<void> {
    await removeIfThere(this.#disk, this.path);
  }
}

/**
 * Tells a bad sector from a passing failure. A failed read is retried a few times. If it still
 * fails while the disk does other work, the bytes are Unreadable. If the whole disk fails, or the
 * system lacks resources, the error says nothing about these bytes and is rethrown unchanged.
 */
export class Unreadable extends Error {
  constructor(cause: unknown) {
    super(`the disk does not give the bytes (${(cause as Error).message})`, { cause });
  }
}

/** Pauses before the second and the third, last attempt. */
const PAUSES_MS = [50, 100];

/** `isWell` rejects if the disk fails as a whole; it is called before each further attempt. */
export async function readFirmly<T>(
  read: () => Promise<T>,
  isWell: () => Promise<unknown>,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await read();
    } catch (error) {
      if (!isMediumFailure(error)) throw error;
      const pauseMs = PAUSES_MS[attempt];
      if (pauseMs === undefined) throw new Unreadable(error);
      await sleep(pauseMs);
      try {
        await isWell();
      } catch {
        throw error;
      }
    }
  }
}

function segmentName(number: number): string {
  return `${String(number).padStart(10, '0')}.seg`;
}

/** The numbers of the segments in the folder, in order. */
export async function segmentNumbers(disk: Disk, folder: string): Promise<number[]> {
  const names = (await disk.list(folder)).filter((name) => /^\d{10}\.seg$/.test(name));
  return names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b);
}
