import { type Disk, removeIfThere } from '@stevedore/disk';
import { decodeSegmentHeader, SEGMENT_HEADER_BYTES } from '../container/record.js';
import { Segment, segmentNumbers } from '../container/segment.js';
import { scanSegment } from '../container/segment-scan.js';
import { StoreError } from '../errors.js';

/**
 * The copy that a partner holds of another gateway's container: the same segments, byte for byte,
 * without those that the gateway no longer needs. Bytes arrive in order and are durable when a
 * write resolves. Only the newest segment is written, so after a crash only its end is in doubt: an
 * incomplete record there is truncated, and the gateway sends it again.
 */

/** Limit and use of disk space by all held copies of this gateway. */
export interface HeldRoom {
  readonly limitBytes: number;
  usedBytes: number;
}

export class HeldCopy {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #origin: number;
  readonly #room: HeldRoom;
  readonly #segments = new Map<number, Segment>();
  /** Writes in flight; they end in order. */
  #written: Promise<void> = Promise.resolve();
  #failure: unknown;

  private constructor(disk: Disk, folder: string, origin: number, room: HeldRoom) {
    this.#disk = disk;
    this.#folder = folder;
    this.#origin = origin;
    this.#room = room;
  }

  static async open(disk: Disk, directory: string, origin: number, room: HeldRoom) {
    const folder = `${directory}/container`;
    await disk.makeDirectory(folder);
    const held = new HeldCopy(disk, folder, origin, room);
    try {
      await held.#openSegments();
      return held;
    } catch (error) {
      await held.close();
      throw error;
    }
  }

  async #openSegments(): Promise<void> {
    await this.#disk.syncDirectory(this.#folder);
    const numbers = await segmentNumbers(this.#disk, this.#folder);
    for (const number of numbers) {
      const isNewest = number === numbers.at(-1);
      const known = isNewest ? 0 : Number.POSITIVE_INFINITY;
      const segment = await Segment.open(this.#disk, this.#folder, number, known);
      this.#segments.set(number, segment);
      if (isNewest) await this.#cutTorn(segment);
    }
  }

  async #cutTorn(segment: Segment): Promise<void> {
    let end = 0;
    if (await segment.header()) {
      end = SEGMENT_HEADER_BYTES;
      for await (const record of scanSegment(segment, end)) end = record.end;
    }
    this.#room.usedBytes -= segment.end - end;
    segment.bytes = end;
    if (end === 0) {
      await this.#remove(segment);
      return;
    }
    await segment.dropInvalidBytes();
    await segment.sync(end);
  }

  /** Bytes held of each segment. */
  state(): [number: number, bytes: number][] {
    return [...this.#segments.values()].map(({ number, bytes }) => [number, bytes]);
  }

  /** Begins a write after all earlier ones. `done` resolves once all of them are durable. */
  async write(
    number: number,
    position: number,
    pieces: readonly Uint8Array[],
    bytes: number,
  ): Promise<{ readonly done: Promise<void> }> {
    if (this.#failure !== undefined) throw this.#failure;
    const { usedBytes, limitBytes } = this.#room;
    if (usedBytes + bytes > limitBytes) throw full(limitBytes);
    const segment = this.#segments.get(number);
    if (!segment) {
      await this.#begin(number, position, pieces);
      return { done: Promise.resolve() };
    }
    if (position !== segment.end) throw gap(number, position, segment.end);
    const { done, isDurable } = segment.write(pieces, bytes, true);
    this.#room.usedBytes += bytes;
    const before = this.#written;
    this.#written = this.#settle(segment, position + bytes, done, isDurable, before);
    this.#written.catch(() => undefined);
    return { done: this.#written };
  }

  async #settle(
    segment: Segment,
    end: number,
    written: Promise<void>,
    isDurable: boolean,
    before: Promise<void>,
  ): Promise<void> {
    try {
      await Promise.all([before, written]);
      if (isDurable) segment.settle(end);
      else await segment.sync(end);
      segment.bytes = end;
    } catch (error) {
      this.#failure ??= error;
      throw error;
    }
  }

  /** Begins a new segment; the earlier ones are complete. */
  async #begin(number: number, position: number, pieces: readonly Uint8Array[]): Promise<void> {
    const header = decodeSegmentHeader(Buffer.concat(pieces).subarray(0, SEGMENT_HEADER_BYTES));
    const isIt = header?.segment === number && header.origin === this.#origin;
    const newest = Math.max(0, ...this.#segments.keys());
    if (position !== 0 || !header || !isIt || number < newest) throw gap(number, position, 0);
    await this.#written;
    await this.#segments.get(newest)?.finish();
    const segment = await Segment.create(this.#disk, this.#folder, header);
    this.#segments.set(number, segment);
    this.#room.usedBytes += SEGMENT_HEADER_BYTES;
    const rest = Buffer.concat(pieces).subarray(SEGMENT_HEADER_BYTES);
    if (rest.length > 0) {
      const { done } = await this.write(number, SEGMENT_HEADER_BYTES, [rest], rest.length);
      await done;
    }
  }

  /** Truncates the segment to `end`: the rest was never acknowledged. */
  async cut(number: number, end: number): Promise<void> {
    await this.#written;
    const segment = this.#segments.get(number);
    if (!segment || segment.bytes <= end) return;
    this.#room.usedBytes -= segment.end - end;
    segment.bytes = end;
    await segment.dropInvalidBytes();
    await segment.sync(end);
  }

  /** Removes the segments up to this one. */
  async release(upTo: number): Promise<void> {
    const released = [...this.#segments.values()].filter(({ number }) => number <= upTo);
    if (released.length === 0) return;
    await this.#written;
    for (const segment of released) {
      this.#room.usedBytes -= segment.end;
      await this.#remove(segment);
    }
    await this.#disk.syncDirectory(this.#folder);
  }

  async #remove(segment: Segment): Promise<void> {
    await segment.unlink();
    this.#segments.delete(segment.number);
    await segment.close();
  }

  async close(): Promise<void> {
    await this.#written.catch(() => undefined);
    await Promise.allSettled([...this.#segments.values()].map((segment) => segment.close()));
    this.#segments.clear();
  }
}

/** Bytes of all copies in the folder. */
export async function heldBytes(disk: Disk, folder: string): Promise<number> {
  let sum = 0;
  for (const origin of await heldOrigins(disk, folder)) {
    sum += await bytesIn(disk, `${folder}/${origin}/container`);
  }
  return sum;
}

async function bytesIn(disk: Disk, folder: string): Promise<number> {
  let sum = 0;
  for (const name of await disk.list(folder)) {
    const file = await disk.openToRead(`${folder}/${name}`);
    try {
      sum += (await file.stat()).size;
    } finally {
      await file.close();
    }
  }
  return sum;
}

/** The origins whose copies are held. */
export async function heldOrigins(disk: Disk, folder: string): Promise<number[]> {
  return (await disk.list(folder)).filter((name) => /^\d{1,5}$/.test(name)).map(Number);
}

/** Removes a copy that nothing has open. Resolves with its bytes. */
export async function removeHeld(disk: Disk, directory: string): Promise<number> {
  const folder = `${directory}/container`;
  const bytes = await bytesIn(disk, folder);
  for (const name of await disk.list(folder)) await removeIfThere(disk, `${folder}/${name}`);
  await disk.syncDirectory(folder);
  return bytes;
}

function full(limitBytes: number): StoreError {
  return new StoreError(
    'container_full',
    `the partner holds the ${limitBytes} bytes of copies that it may (heldSize)`,
  );
}

function gap(number: number, position: number, end: number): Error {
  return new Error(`bytes for ${position} of segment ${number}, where ${end} are held`);
}
