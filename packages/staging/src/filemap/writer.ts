import assert from 'node:assert';
import type { SqliteDatabase } from '@stevedore/disk/sqlite';
import { Checkpoints } from './checkpoints.js';
import { CounterChanges } from './counter-changes.js';
import { FileMapQueries } from './queries.js';
import {
  type AdoptedFile,
  type Confirmed,
  countOf,
  type FileChange,
  type FileMapChange,
  type FileRow,
  type FormerPlace,
  factsIn,
  isGivenUp,
  type PlannedMember,
  type PlannedTrunk,
  packMembers,
  placesText,
  stateAt,
  stateOf,
  type TrunkRow,
} from './rows.js';
import { PLACES, WRITER_STEPS } from './schema.js';

/**
 * Applies records of the container and confirmations of trunks to the FileMap's tables; each call is
 * one transaction. Changes of the counters are summed up and written at its end.
 *
 * Trunks may be read back into a lost FileMap in any order: if two hold a file, the place that the
 * other one lists under `was` is the former one.
 */
export class FileMapWriter extends FileMapQueries {
  readonly #steps = this.steps(WRITER_STEPS);
  readonly #confirmFile = this.get<
    [trunk: number, offset: number, key: Buffer],
    { size: number; spooled: number; segment: number; isDerived: 0 | 1 }
  >(
    `UPDATE files SET trunk = ?, trunkOffset = ? WHERE key = ? AND trunk IS NULL
      RETURNING size, spooled, segment, pictureOf IS NOT NULL AS isDerived`,
  );
  /** As `#confirmFile`, where the plan knows what that returns: for half of the time. */
  readonly #confirmPlanned = this.run<
    [trunk: number, offset: number, key: Buffer, segment: number]
  >(
    `UPDATE files SET trunk = ?, trunkOffset = ?
      WHERE key = ? AND trunk IS NULL AND spooled = 0 AND segment = ? AND pictureOf IS NULL`,
  );
  readonly #oldestSegment = this.value<[trunk: number], number | null>(
    `SELECT min(segment) FROM files
      WHERE trunk = ? AND spooled = 0 AND segment > 0 AND deleted IS NULL`,
  );
  readonly #findMarked = this.get<[key: Buffer], MarkedRow>(
    'SELECT trunk, deleted FROM files WHERE key = ? AND deleted IS NOT NULL',
  );
  readonly #setIndexed = this.run<[segment: number, indexed: number, synced: number]>(
    `INSERT INTO segments (number, indexedBytes, syncedBytes) VALUES (?, ?, ?)
      ON CONFLICT (number) DO UPDATE SET indexedBytes = excluded.indexedBytes,
        syncedBytes = max(syncedBytes, excluded.syncedBytes)`,
  );
  readonly setBlocks = this.run<[key: Buffer, crcs: Buffer]>(
    'INSERT OR REPLACE INTO blocks (key, crcs) VALUES (?, ?)',
  );
  protected readonly checkpoints: Checkpoints;
  readonly #transact: (work: () => unknown) => unknown;
  #counted = new CounterChanges();

  constructor(database: SqliteDatabase) {
    super(database);
    this.checkpoints = new Checkpoints(database.name);
    this.#transact = database.transaction((work: () => unknown) => {
      this.#counted = new CounterChanges();
      const result = work();
      for (const [name, value] of this.#counted.entries()) this.#steps.count(value, name);
      return result;
    });
  }

  /** Runs one transaction that changes about this many rows. */
  #write<Result>(rows: number, work: () => Result): Result {
    const result = this.#transact(work) as Result;
    this.checkpoints.note(rows);
    return result;
  }

  /**
   * Applies all changes of one segment's records up to `indexedBytes`. `syncedBytes` of the segment
   * are known to be durable.
   */
  apply(
    changes: readonly FileMapChange[],
    segment: number,
    indexedBytes: number,
    syncedBytes = 0,
  ): void {
    this.#write(changes.length, () => {
      for (const change of changes) this.#change(change, segment);
      this.#setIndexed(segment, indexedBytes, syncedBytes);
    });
  }

  #change(change: FileMapChange, segment: number): void {
    switch (change.what) {
      case 'file':
        this.#addFile(change, segment);
        return;
      case 'moved':
        this.#moveFile(change, segment);
        return;
      case 'deletion':
        this.#deleteFile(change.key, segment);
        return;
      case 'plan':
        this.#steps.addPlan({ ...change, files: countOf(change.members), segment });
        return;
      case 'stored':
        this.#addStored(change, segment);
        return;
      case 'retired':
        this.#retire(change, segment);
    }
  }

  /** Points the members' rows at the trunk; members deleted since become its dead bytes. */
  confirmMembers(trunk: number, members: readonly PlannedMember[]): Confirmed {
    return this.#write(members.length, () => this.#confirm(trunk, members));
  }

  /** As `confirmMembers`, for a trunk of an earlier process: some may have moved on since. */
  confirmUnmoved(trunk: TrunkRow, members: readonly PlannedMember[]): void {
    this.#write(members.length, () => {
      const unmoved = members.filter(({ offset }) => !this.#isForwarded(trunk.fileId, offset));
      this.#confirm(trunk.id, unmoved);
    });
  }

  #confirm(trunk: number, members: readonly PlannedMember[]): Confirmed {
    let [files, bytes, waiting, waitingBytes, derived, derivedBytes] = [0, 0, 0, 0, 0, 0];
    let oldestSegment = Number.POSITIVE_INFINITY;
    for (const { key, offset, size, segment } of members) {
      const isPlanned =
        segment !== undefined && this.#confirmPlanned(trunk, offset, key, segment).changes === 1;
      const row = isPlanned
        ? { size, spooled: 0, segment, isDerived: 0 }
        : this.#confirmFile(trunk, offset, key);
      if (!row) {
        this.#hold(trunk, key);
        continue;
      }
      files += 1;
      bytes += row.size;
      if (row.isDerived) {
        derived += 1;
        derivedBytes += row.size;
      }
      if (row.spooled !== 0) continue;
      waiting += 1;
      waitingBytes += row.size;
      if (row.segment > 0) oldestSegment = Math.min(oldestSegment, row.segment);
    }
    this.#counted.pass('waiting', 'merged', waitingBytes, waiting);
    this.#counted.pass('spooled', 'merged', bytes - waitingBytes, files - waiting);
    this.#counted.passDerived('waiting', 'merged', derivedBytes, derived);
    return { files, bytes, oldestSegment };
  }

  /** Adds rows for members of a trunk that only its own directory describes. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    this.#write(entries.length, () => {
      const members: PlannedMember[] = [];
      for (const { file, offset, was } of entries) {
        const { key, size } = file;
        for (const [fileId, at] of was) this.#forward(fileId, at, key);
        if (this.isDeleted(key)) this.#hold(trunk.id, key);
        else if (this.#isForwarded(trunk.fileId, offset)) continue;
        else if (!this.#claim(trunk, key, offset, was)) {
          this.#adopt(file, 'container', was);
          members.push({ key, offset, size });
        }
      }
      this.#confirm(trunk.id, members);
    });
  }

  /**
   * Confirms the trunk, once every living member's row points at it; the rest of it is dead.
   * Without `confirmed`, the rows are counted.
   */
  finishTrunk(
    trunk: number,
    files: number,
    bytes: number,
    plan?: PlannedTrunk,
    confirmed?: Confirmed,
  ): void {
    this.#write(1, () => {
      const oldest = confirmed ? confirmed.oldestSegment : this.#oldestSegment(trunk);
      const sums = { trunk, files, bytes };
      this.#steps.finishTrunk({
        ...sums,
        oldestSegment: Number.isFinite(oldest) ? oldest : null,
        thin: plan?.thin?.level ?? 0,
        oldestAt: plan?.thin?.oldestAt ?? null,
        lastExpiry: plan?.lastExpiry ?? null,
      });
      if (confirmed) {
        const missing = { files: files - confirmed.files, bytes: bytes - confirmed.bytes };
        assert(missing.files >= 0 && missing.bytes >= 0, 'more was confirmed than was planned');
        this.#steps.addMissing({ trunk, ...missing });
      } else this.#steps.countDead(sums);
      this.#steps.markSparse({ trunk });
    });
  }

  /**
   * Rolls a moved file back to its former place: its new bytes are lost. False if that place is
   * gone.
   */
  rollBackMove(key: Buffer): boolean {
    const row = this.find(key);
    const place = row?.was.at(-1);
    if (!row || row.trunk || !place) return false;
    const [fileId, offset] = place;
    const trunk = this.trunkByFileId(fileId);
    if (trunk?.state !== 'confirmed') return false;
    // A small file may have been set aside in the spool.
    const spooled = PLACES.indexOf(trunk.kind === 'whole' ? 'gone' : 'container');
    const was = placesText(row.was.slice(0, -1));
    this.#write(1, () => {
      this.#steps.returnFile({ key, trunk: trunk.id, offset, was, spooled });
      this.#steps.removeForward(fileId, offset);
      this.#counted.passOne(stateOf(row), 'merged', row);
      this.#steps.uncountDead(row.size, trunk.id);
      this.#steps.clearSparse(trunk.id);
      this.#steps.markSparse({ trunk: trunk.id });
    });
    return true;
  }

  #addFile(change: FileChange, segment: number): void {
    const { key, position, at } = change;
    if (this.#addRow(change, segment, position, PLACES.indexOf(at)).changes === 0) return;
    this.#counted.passOne('none', stateAt(at), change);
    if (change.blocks) this.setBlocks(key, change.blocks);
  }

  #addRow(file: FileChange, segment: number, position: number, spooled: number) {
    const { key, name, type, group, expiresAt, once, pictureOf, size, crc32, stagedAt } = file;
    return (group ?? expiresAt ?? once ?? pictureOf) === undefined
      ? this.#steps.addPlain(key, name, type, size, crc32, stagedAt, segment, position, spooled)
      : this.#steps.addFile(Object.assign(factsIn(file), { segment, position, spooled }));
  }

  /** The file's bytes are in the container or the spool again; its place in a trunk is dead. */
  #moveFile(change: Extract<FileMapChange, { what: 'moved' }>, segment: number): void {
    const { key, position, at, blocks, was } = change;
    if (this.isDeleted(key)) return;
    const row = this.find(key);
    if (!row) this.#addFile(change, segment);
    else {
      if (row.trunk) this.#addDead(row.trunk.id, row.size);
      this.#counted.passOne(stateOf(row), stateAt(at), row);
    }
    // Its earlier copies no longer count.
    this.#steps.removeAllDamage(key);
    const place = { segment, position, spooled: PLACES.indexOf(at), was: placesText(was) };
    this.#steps.moveFile({ key, ...place });
    if (blocks) this.setBlocks(key, blocks);
    for (const [fileId, offset] of was) this.#forward(fileId, offset, key);
  }

  #deleteFile(key: Buffer, segment: number): void {
    const row = this.find(key);
    // One trunk has it and no other ever had: its row stays as long as that trunk.
    const isHeldOnce = row ? row.trunk && row.was.length === 0 : this.#findMarked(key);
    if (isHeldOnce) {
      this.#steps.markFile({ key, segment });
      this.#steps.noteMark(segment, key);
    } else this.#noteDeletion(key, row, segment);
    if (!row) return;
    this.#counted.passOne(stateOf(row), 'none', row);
    if (row.trunk) this.#addDead(row.trunk.id, row.size);
    if (row.was.length > 0) this.#steps.removeForwards(key);
    if (row.local.at !== 'container') this.#steps.removeBlocks(key);
    this.#steps.removeAllDamage(key);
  }

  #noteDeletion(key: Buffer, row: FileRow | undefined, segment: number): void {
    const holders = row ? this.#holders(row) : [];
    for (const trunk of holders) this.#steps.addHold(trunk, key);
    this.#steps.addDeletion({ key, segment, trunks: holders.length });
    if (row) this.#steps.removeFile(key);
  }

  /** The trunks that have the file: its own, and those it was moved from that still exist. */
  #holders(row: FileRow): number[] {
    const holders = row.trunk ? [row.trunk.id] : [];
    for (const [fileId] of row.was) {
      const trunk = this.trunkByFileId(fileId);
      const isHeld = trunk && !isGivenUp(trunk) && !holders.includes(trunk.id);
      if (isHeld) holders.push(trunk.id);
    }
    return holders;
  }

  #addStored(change: Extract<FileMapChange, { what: 'stored' }>, segment: number): void {
    const { size, file, blocks, doubtfulSince = null } = change;
    const known = this.trunkByTask(change.taskId);
    // A large file that only its `stored` record may still describe.
    if (file && !(known && isGivenUp(known)) && !this.isDeleted(file.key)) {
      this.#adopt(file, 'gone', file.was);
      for (const [place, offset] of file.was) this.#forward(place, offset, file.key);
    }
    const members = file ? packMembers([{ key: file.key, offset: 0, size }]) : null;
    this.#steps.addStored({ ...change, members, segment, doubtfulSince });
    if (file && blocks && this.find(file.key)) this.setBlocks(file.key, blocks);
  }

  #retire(change: Extract<FileMapChange, { what: 'retired' }>, segment: number): void {
    const known = this.trunkByTask(change.taskId);
    if (known?.kind === 'whole') this.#forgetAdopted(known.id);
    const { doubtfulSince = null } = change;
    this.#steps.addRetired({ ...change, segment, doubtfulSince });
    if (!known) return;
    this.#steps.uncountHolds(known.id);
    this.#steps.freeHolds(known.id);
    // A trunk whose members are unknown may have the file, too.
    this.#steps.listMarked(known.id);
    this.#steps.removeMarked(known.id);
  }

  /** The file's deletion was forgotten with its trunk, but its `stored` record remains. */
  #forgetAdopted(trunk: number): void {
    for (const { key } of this.members(trunk)) {
      const row = this.find(key);
      if (!row || row.trunk || row.local.at !== 'gone') continue;
      this.#steps.removeFile(key);
      this.#counted.passOne('spooled', 'none', row);
    }
  }

  #adopt(file: AdoptedFile['file'], at: 'container' | 'gone', was: readonly FormerPlace[]): void {
    const place = { spooled: PLACES.indexOf(at), was: placesText(was) };
    const { changes } = this.#steps.adoptFile(Object.assign(factsIn(file), place));
    if (changes === 1) this.#counted.passOne('none', stateAt(at), file);
  }

  /**
   * True if the file already has a place in another trunk: either its former place, and this
   * becomes its place, or the place where it stays.
   */
  #claim(trunk: TrunkRow, key: Buffer, offset: number, was: readonly FormerPlace[]): boolean {
    const row = this.find(key);
    const place = row?.trunk;
    if (!place || place.id === trunk.id) return false;
    if (was.some(([fileId, at]) => fileId === place.fileId && at === place.offset)) {
      this.#addDead(place.id, row.size);
      this.#steps.claimFile(trunk.id, offset, JSON.stringify(was), key);
    } else this.#forward(trunk.fileId, offset, key);
    return true;
  }

  #isForwarded(fileId: string, offset: number): boolean {
    return this.forwardOf(fileId, offset) !== undefined;
  }

  #forward(fileId: string, offset: number, key: Buffer): void {
    if (!this.isDeleted(key)) this.#steps.addForward(fileId, offset, key);
  }

  /** The trunk has the bytes of a file; if the file is deleted, its deletion is kept as long. */
  #hold(trunk: number, key: Buffer): void {
    const marked = this.#findMarked(key);
    if (marked?.trunk === trunk) return;
    if (marked) this.#unmark(key, marked);
    if (!this.isDeleted(key)) return;
    if (this.#steps.addHold(trunk, key).changes === 1) this.#steps.countHold(key);
  }

  /** A second trunk has the bytes of the deleted file: its row must outlive the first. */
  #unmark(key: Buffer, { trunk, deleted }: MarkedRow): void {
    this.#steps.removeFile(key);
    this.#steps.addHold(trunk, key);
    this.#steps.addDeletion({ key, segment: deleted, trunks: 1 });
  }

  #addDead(trunk: number, bytes: number): void {
    this.#steps.addDead(trunk, bytes);
    this.#steps.markSparse({ trunk });
  }
}

/** The row of a deleted file: its trunk, and the segment of the deletion's record. */
interface MarkedRow {
  readonly trunk: number;
  readonly deleted: number;
}
