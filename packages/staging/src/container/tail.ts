import type { FileMapChange, LocalPlace } from '../filemap/filemap.js';
import { copyInto, sharedMemory } from '../shared-memory.js';
import type { Entry } from './append-queue.js';
import { mostHeadBytes, writeRecordHead } from './record.js';
import { changeOfRecord, fileRecord } from './records.js';

/**
 * The container's tail in memory. A batch is copied once into slabs and written from them; a slab
 * then stays as the memory of what was written, until the ring of slabs comes round. So a file that
 * was just uploaded is a view of its slab, found by segment and position: it has no entry, no
 * memory and no copy of its own.
 *
 * Slabs are reused: a view is valid only in the turn in which it was given. To keep the bytes, copy
 * them. A slab that is being written or sent is pinned.
 *
 * The ring grows to its limit only for files that are read. Memory that was never used takes ten
 * times as long to fill, so beyond a share of it a slab is reused as soon as its files are in
 * FastDFS, unless readers came for them.
 */

/** Of a slab: enough that few records fall to its end, and few slabs are enough. */
const MAX_SLAB_BYTES = 8 * 2 ** 20;
const MIN_SLAB_BYTES = 64 * 1024;
/** A smaller tail has smaller slabs: two batches are written while the next one is filled. */
const LEAST_SLABS = 4;
/** Where nothing is read from it. */
const WRITTEN_BYTES = 8 * 2 ** 20;
/** Of the newest files, which stay whether anybody reads them or not; half of a smaller tail. */
const KEPT_BYTES = 256 * 2 ** 20;
/** A slab of which less was read is not worth keeping. */
const READ_SHARE = 1 / 8;

/** Bytes of a segment that are in a slab. */
interface Extent {
  readonly segment: number;
  /** Where they begin in the segment, and in the slab. */
  readonly position: number;
  readonly at: number;
  bytes: number;
}

class Slab {
  readonly memory: Buffer;
  used = 0;
  /** Batches that are being written or sent from it. */
  pins = 0;
  /** Bytes that readers took. */
  readBytes = 0;
  extents: Extent[] = [];

  constructor(bytes: number) {
    this.memory = sharedMemory(bytes);
  }
}

export class Tail {
  readonly #slabBytes: number;
  readonly #maxSlabs: number;
  readonly #keptSlabs: number;
  readonly #isRead: boolean;
  readonly #oldestNeeded: () => number;
  /** Oldest first; the last one is being filled. */
  readonly #slabs: Slab[] = [];
  /** The extents of each segment, in order. */
  readonly #found = new Map<number, { readonly slab: Slab; readonly extent: Extent }[]>();

  /**
   * With 0 bytes it is memory to write from alone, and nothing is found in it. `oldestNeeded`: the first
   * segment with a file that is not in FastDFS yet.
   */
  constructor(maxBytes: number, oldestNeeded: () => number) {
    const bytes = maxBytes || WRITTEN_BYTES;
    const share = Math.floor(bytes / LEAST_SLABS);
    this.#slabBytes = Math.min(MAX_SLAB_BYTES, Math.max(MIN_SLAB_BYTES, share));
    this.#maxSlabs = Math.max(LEAST_SLABS, Math.floor(bytes / this.#slabBytes));
    this.#keptSlabs = Math.min(KEPT_BYTES / this.#slabBytes, this.#maxSlabs / 2);
    this.#isRead = maxBytes > 0;
    this.#oldestNeeded = oldestNeeded;
  }

  /** A view of the bytes, for this turn; undefined if they are not in memory. */
  find(segment: number, position: number, bytes: number): Buffer | undefined {
    const found = this.#find(segment, position, bytes);
    if (found) found.slab.readBytes += bytes;
    return found?.view;
  }

  /** Views of all of these bytes, valid until `release`; undefined if any is not in memory. */
  pin(files: readonly { readonly local: LocalPlace; readonly size: number }[]) {
    const bodies: Buffer[] = [];
    const slabs = new Set<Slab>();
    for (const { local, size } of files) {
      const found = this.#find(local.segment, local.position, size);
      if (!found) return undefined;
      bodies.push(found.view);
      slabs.add(found.slab);
    }
    for (const slab of slabs) slab.pins += 1;
    const release = (): void => {
      for (const slab of slabs) slab.pins -= 1;
    };
    return { bodies, release };
  }

  #find(segment: number, position: number, bytes: number) {
    const found = this.#found.get(segment);
    if (!found) return undefined;
    for (const { slab, extent } of found) {
      const from = position - extent.position;
      if (from < 0 || from + bytes > extent.bytes) continue;
      return { slab, view: slab.memory.subarray(extent.at + from, extent.at + from + bytes) };
    }
    return undefined;
  }

  /** Begins a batch that is written to this place. */
  begin(segment: number, position: number): TailBatch {
    return new TailBatch(this, segment, position);
  }

  /** The slab with room for so many bytes; undefined if no slab has. */
  slabFor(bytes: number): Slab | undefined {
    if (bytes > this.#slabBytes) return undefined;
    const last = this.#slabs.at(-1);
    if (last && last.used + bytes <= this.#slabBytes) return last;
    const slab = this.#recycle() ?? new Slab(this.#slabBytes);
    this.#slabs.push(slab);
    return slab;
  }

  /** From now on the bytes are found in the slab. */
  note(slab: Slab, extent: Extent): void {
    if (!this.#isRead) return;
    const last = slab.extents.at(-1);
    // Batches follow each other: most slabs have one extent.
    const isNext =
      last?.segment === extent.segment &&
      last.position + last.bytes === extent.position &&
      last.at + last.bytes === extent.at;
    if (isNext) {
      last.bytes += extent.bytes;
      return;
    }
    slab.extents.push(extent);
    const found = this.#found.get(extent.segment);
    if (found) found.push({ slab, extent });
    else this.#found.set(extent.segment, [{ slab, extent }]);
  }

  /** The oldest slab, empty, if there are enough; more than that are given up. */
  #recycle(): Slab | undefined {
    let slab = this.#unread();
    while (this.#slabs.length >= this.#maxSlabs) {
      const oldest = this.#slabs.find(({ pins }) => pins === 0);
      if (!oldest) break;
      slab = oldest;
      this.#take(slab);
    }
    return slab;
  }

  /** The oldest slab that nobody needs, empty, if there are enough of them. */
  #unread(): Slab | undefined {
    if (this.#slabs.length < this.#keptSlabs) return undefined;
    const needed = this.#oldestNeeded();
    const slab = this.#slabs.find(
      ({ pins, readBytes, extents }) =>
        pins === 0 &&
        readBytes < READ_SHARE * this.#slabBytes &&
        extents.every(({ segment }) => segment < needed),
    );
    if (slab) this.#take(slab);
    return slab;
  }

  #take(slab: Slab): void {
    this.#slabs.splice(this.#slabs.indexOf(slab), 1);
    this.#forget(slab);
  }

  #forget(slab: Slab): void {
    for (const number of new Set(slab.extents.map(({ segment }) => segment))) {
      const left = this.#found.get(number)?.filter((found) => found.slab !== slab) ?? [];
      if (left.length > 0) this.#found.set(number, left);
      else this.#found.delete(number);
    }
    slab.extents = [];
    slab.used = 0;
    slab.readBytes = 0;
  }
}

/** The bytes of one batch, in slabs as far as they fit. Call `release` once they are written. */
export class TailBatch {
  readonly #tail: Tail;
  readonly #segment: number;
  readonly #pinned: Slab[] = [];
  /** Where the next record begins in the segment. */
  position: number;
  /** What is to be written. */
  readonly pieces: Uint8Array[] = [];
  /** The slab that is being filled, and where this batch, or its last piece, begins in it. */
  #slab: Slab | undefined;
  #from = 0;

  constructor(tail: Tail, segment: number, position: number) {
    this.#tail = tail;
    this.#segment = segment;
    this.position = position;
  }

  /**
   * Copies a record into the slab, or notes it in the caller's memory, which stays as it is until the
   * batch is released. Returns what it changes in the FileMap.
   */
  add(entry: Entry): FileMapChange {
    const record = 'what' in entry ? fileRecord(entry) : entry;
    const { body, bodyBytes } = record;
    const meta = JSON.stringify(record.meta);
    const mostBytes = mostHeadBytes(meta);
    const slab = this.#slabFor(mostBytes + bodyBytes);
    const target = slab?.memory ?? Buffer.allocUnsafe(mostBytes);
    let at = slab?.used ?? 0;
    const headBytes = writeRecordHead(target, at, record, meta, this.#segment);
    const bodyPosition = this.position + headBytes;
    at += headBytes;
    if (slab) {
      for (const piece of body) {
        copyInto(target, at, piece);
        at += piece.length;
      }
      slab.used = at;
    } else this.pieces.push(target.subarray(0, headBytes), ...body);
    this.position = bodyPosition + bodyBytes;
    if (!('what' in entry))
      return changeOfRecord(entry, body[0] as Buffer | undefined, bodyPosition);
    entry.position = bodyPosition;
    return entry;
  }

  /** No more is added. */
  end(): void {
    this.#endPiece();
    this.#slab = undefined;
  }

  release(): void {
    for (const slab of this.#pinned.splice(0)) slab.pins -= 1;
  }

  #slabFor(bytes: number): Slab | undefined {
    const slab = this.#tail.slabFor(bytes);
    if (slab === this.#slab) return slab;
    this.#endPiece();
    this.#slab = slab;
    this.#from = slab?.used ?? 0;
    if (slab && !this.#pinned.includes(slab)) {
      this.#pinned.push(slab);
      slab.pins += 1;
    }
    return slab;
  }

  #endPiece(): void {
    const slab = this.#slab;
    const bytes = slab ? slab.used - this.#from : 0;
    if (!slab || bytes === 0) return;
    this.pieces.push(slab.memory.subarray(this.#from, slab.used));
    const position = this.position - bytes;
    this.#tail.note(slab, { segment: this.#segment, position, at: this.#from, bytes });
  }
}
