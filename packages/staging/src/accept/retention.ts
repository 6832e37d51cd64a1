import type { NewRecord } from '../container/record.js';
import {
  deletionRecord,
  planRecord,
  retiredRecord,
  type StoredTrunk,
  storedRecord,
} from '../container/records.js';
import type { Segment } from '../container/segment.js';
import type { FileMap, TrunkRow } from '../filemap/filemap.js';
import { pastLocks } from '../filemap/locks.js';
import type { State } from '../state.js';

/**
 * Frees the container. Segments and spooled files that FastDFS has confirmed stay as read copies
 * until their budget is used up or room is needed. Segments are removed strictly oldest first.
 * Before a segment is removed, its records that are still needed are rewritten into the newest one,
 * damaged files that wait are set aside, and the FileMap is made durable. Once all files of the
 * newest segment are confirmed, an empty one can take its place.
 */

/** A shorter segment is not worth replacing. */
const MIN_ENDED_BYTES = 2 ** 20;
/** Approximate bytes of a record without its body. */
const RECORD_BYTES = 300;

/** Sets damaged files that wait in a segment aside; false if the segment must stay. */
type SetAside = (state: State, segment: number, isRoomNeeded: boolean) => Promise<boolean>;

export class Retention {
  readonly #state: State;
  readonly #setAside: SetAside;
  /** The last segment whose needed records were all rewritten. */
  #rewrittenUpTo = 0;

  constructor(state: State, setAside: SetAside) {
    this.#state = state;
    this.#setAside = setAside;
    const trim = (): void => state.changes.run(this.trim());
    state.changes.on('released', trim).on('removable', trim);
  }

  /** Removes what exceeds the budget, and at least `neededBytes` if there is that much. */
  trim(neededBytes = 0): Promise<void> {
    const { alone, copies } = this.#state;
    return alone(async () => {
      await this.#trim(neededBytes);
      copies?.release(await this.#rewriteNeeded());
    });
  }

  /**
   * Rewrites the records still needed of segments whose files are confirmed, although they stay
   * here as read copies. Resolves with the first segment that a partner must keep.
   */
  firstNeeded(): Promise<number> {
    return this.#state.alone(() => this.#rewriteNeeded());
  }

  async #rewriteNeeded(): Promise<number> {
    const { container, fileMap, now } = this.#state;
    for (const { number } of this.#confirmedSegments()) {
      if (number <= this.#rewrittenUpTo) continue;
      const records = neededRecords(fileMap, number, now());
      if (records.length > 0) await container.append(records);
      this.#rewrittenUpTo = number;
    }
    return this.#rewrittenUpTo + 1;
  }

  async #trim(neededBytes: number): Promise<void> {
    let freed = 0;
    const { retain } = this.#state.options;
    const isEnough = (retained: number) => retained <= retain && freed >= neededBytes;
    let retained = this.#confirmedSegments().reduce((sum, segment) => sum + segment.bytes, 0);
    const { fileMap, spool } = this.#state;
    for (const key of fileMap.confirmedSpooled()) retained += spool.sizeOf(key);
    // Spooled files first: each is one large read from FastDFS, not many small ones.
    for (const key of this.#state.fileMap.confirmedSpooled()) {
      if (isEnough(retained)) return;
      const before = this.#state.spool.bytes;
      await this.#state.container.sync();
      await this.#state.fileMap.makeDurable();
      await this.#state.spool.remove(key);
      await pastLocks(() => this.#state.fileMap.forgetSpooled(key));
      freed += before - this.#state.spool.bytes;
      retained -= before - this.#state.spool.bytes;
    }
    for (;;) {
      for (const segment of this.#confirmedSegments()) {
        if (isEnough(retained)) return;
        const { number } = segment;
        if (!(await this.#setAside(this.#state, number, freed < neededBytes))) return;
        // A file found sound in the meantime may be in flight.
        if (this.#state.files.oldestSegmentInUse() <= number) return;
        await this.#removeSegment(segment);
        freed += segment.bytes;
        retained -= segment.bytes;
      }
      const newest = this.#worthEnding();
      if (!newest || isEnough(retained + newest.bytes)) return;
      await this.#state.container.beginSegment();
      retained += newest.bytes;
    }
  }

  /** The newest segment, if all of its files are confirmed and most of it would be freed. */
  #worthEnding(): Segment | undefined {
    const { container, fileMap, files, now } = this.#state;
    const segments = container.segments();
    const newest = segments.at(-1);
    if (!newest || segments.length > 1 || newest.bytes < MIN_ENDED_BYTES) return undefined;
    if (
      typeof fileMap.oldestNeededSegment() === 'number' ||
      files.oldestSegmentInUse() <= newest.number
    ) {
      return undefined;
    }
    const records = neededRecords(fileMap, newest.number, now());
    const kept = records.reduce((sum, { bodyBytes }) => sum + RECORD_BYTES + bodyBytes, 0);
    return kept * 2 < newest.bytes ? newest : undefined;
  }

  /** The oldest segments without a file that waits to be confirmed. */
  #confirmedSegments(): Segment[] {
    const { container, fileMap, files } = this.#state;
    const needed = Math.min(fileMap.oldestNeededSegment() ?? Infinity, files.oldestSegmentInUse());
    // The newest segment always stays: the next number follows from it.
    const segments = container.segments().slice(0, -1);
    return segments.filter((segment) => segment.number < needed && !container.isCurrent(segment));
  }

  async #removeSegment(segment: Segment): Promise<void> {
    const { container, fileMap, now } = this.#state;
    const records = neededRecords(fileMap, segment.number, now());
    if (records.length > 0) await container.append(records);
    await container.sync();
    await fileMap.makeDurable();
    await container.removeSegment(segment);
    await container.syncFolder();
    await pastLocks(() => fileMap.forgetSegment(segment.number));
  }
}

/** Records of the segment to rewrite before it is removed. */
export function neededRecords(fileMap: FileMap, segment: number, now: number): NewRecord[] {
  const { trunks, deletions } = fileMap.neededRecords(segment);
  return [
    ...trunks.map((trunk) => recordOf(fileMap, trunk, now)),
    ...deletions.map((key) => deletionRecord(key, now)),
  ];
}

/** The record that preserves what must be remembered of the trunk. */
export function recordOf(fileMap: FileMap, trunk: TrunkRow, now: number): NewRecord {
  const { state } = trunk;
  if (state === 'planned' || state === 'abandoned' || state === 'retired') {
    // It is still searched for: that it was planned here must be remembered.
    return planRecord({ ...trunk, members: fileMap.members(trunk.id) }, now);
  }
  const stored = describeStored(fileMap, trunk);
  return state === 'retiring' ? retiredRecord(stored, now) : storedRecord(stored, now);
}

/** The content of a stored trunk's record. */
export function describeStored(fileMap: FileMap, trunk: TrunkRow): StoredTrunk {
  const { taskId, kind, fileId, size, files } = trunk;
  const file = kind === 'whole' ? fileMap.findInTrunk(trunk.id, 0) : undefined;
  return {
    taskId,
    kind,
    fileId,
    size,
    files,
    file,
    crc32: trunk.crc32 ?? 0,
    doubtful: trunk.doubtfulSince !== null,
    blocks: file && fileMap.blocks(file.key),
  };
}
