import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { LOST_SEGMENT } from './constants.js';
import { type FileMapChange, type PlannedMember, unpackMembers } from './filemap-change.js';
import { Checkpoints, LOG_PAGES } from './filemap-checkpoints.js';
import { type Counted, type Counters, Sums } from './filemap-counters.js';
import type {
  AdoptedFile,
  DamagedCopy,
  FileRow,
  TrunkRow,
  TrunkState,
  TrunkSum,
} from './filemap-rows.js';
import { migrate } from './filemap-schema.js';
import { prepareStatements, type Statements } from './filemap-statements.js';
import { FileMapWriter } from './filemap-writer.js';

export * from './filemap-rows.js';

/**
 * The FileMap: an index over container and trunks. Every change comes from a
 * record of the container and is committed together with how far the record's
 * segment is indexed, so that a FileMap that lost its last transactions, or all
 * of them, is brought up to date by reading records again. It need not sync by
 * itself for that; `checkpoint` makes it durable before segments are removed.
 */

const CACHE_KIB = 32 * 1024;
const CHECKPOINT_ATTEMPTS = 10_000;
const CHECKPOINT_PAUSE_MS = 3;

export class FileMap {
  readonly #database: SqliteDatabase;
  readonly #statements: Statements;
  readonly #checkpoints: Checkpoints;
  readonly #transact: (work: (writer: FileMapWriter) => void) => void;

  private constructor(database: SqliteDatabase) {
    this.#database = database;
    this.#checkpoints = new Checkpoints(database.name);
    this.#statements = prepareStatements(database);
    this.#transact = database.transaction((work: (writer: FileMapWriter) => void) => {
      const writer = new FileMapWriter(this.#statements);
      work(writer);
      writer.finish();
    });
  }

  /** Throws when the file is no sound database; the caller moves it aside and rebuilds. */
  static open(path: string): FileMap {
    const database = openDatabase(path);
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      database.pragma(`wal_autocheckpoint = ${LOG_PAGES}`);
      database.pragma(`cache_size = -${CACHE_KIB}`);
      migrate(database);
      return new FileMap(database);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /**
   * All changes of one segment's records up to byte `indexedBytes`, in one transaction;
   * so many of the segment's bytes are known to be on the medium.
   */
  apply(
    changes: readonly FileMapChange[],
    segment: number,
    indexedBytes: number,
    syncedBytes = 0,
  ): void {
    this.#write(changes.length, (writer) => {
      for (const change of changes) writer.change(change, segment);
      this.#statements.setIndexed.run(segment, indexedBytes, syncedBytes);
    });
  }

  find(key: Buffer): FileRow | undefined {
    return this.#statements.find.get(key) as FileRow | undefined;
  }

  findInTrunk(trunk: number, offset: number): FileRow | undefined {
    return this.#statements.findInTrunk.get(trunk, offset) as FileRow | undefined;
  }

  /** The file that was moved away from this place of an earlier trunk. */
  forwarded(fileId: string, offset: number): FileRow | undefined {
    const row = this.#statements.forward.get(fileId, offset) as { key: Buffer } | undefined;
    return row && this.find(row.key);
  }

  /** Files in the order of keys, behind the given one. */
  page(after: Buffer, limit: number): FileRow[] {
    return this.#statements.page.all(after, limit) as FileRow[];
  }

  /** The counters as the rows themselves tell them. */
  recount(): Counters {
    const sums = new Sums();
    const rows = this.#statements.recount.all() as {
      what: Counted;
      files: number;
      bytes: number;
    }[];
    for (const { what, files, bytes } of rows) sums.add(what, files, bytes);
    return sums.values;
  }

  setCounters(counters: Counters): void {
    for (const [name, value] of Object.entries(counters))
      this.#statements.setCount.run(value, name);
  }

  /** The merged file's copy in the container is not to be read any more. */
  forgetLocal(key: Buffer): void {
    this.#statements.forgetLocal.run(key);
  }

  isDeleted(key: Buffer): boolean {
    return this.#statements.isDeleted.get({ key }) !== undefined;
  }

  /** Files that wait to be packed, in order of arrival, behind the given place. */
  waiting(segment: number, position: number, limit: number): FileRow[] {
    return this.#statements.waiting.all(segment, position, limit) as FileRow[];
  }

  /** Large files that wait to be sent, oldest first. */
  waitingSpooled(limit: number): FileRow[] {
    return this.#statements.waitingSpooled.all(limit) as FileRow[];
  }

  /** Files whose time is over, the longest ago first. */
  expired(now: number, limit: number): FileRow[] {
    return this.#statements.expired.all(now, limit) as FileRow[];
  }

  /** The files of the upload that was marked so since then, in its order. */
  findOnce(once: Buffer, since: number): FileRow[] {
    return this.#statements.byOnce.all(once, since) as FileRow[];
  }

  /** The large file's spool file is gone. */
  forgetSpooled(key: Buffer): void {
    this.#statements.forgetSpooled.run(key);
  }

  counters(): Counters {
    const rows = this.#statements.counters.all() as {
      name: keyof Counters;
      value: number;
    }[];
    const sums = new Sums();
    return Object.assign(
      sums.values,
      Object.fromEntries(rows.map(({ name, value }) => [name, value])),
    );
  }

  countTrunks(): number {
    return (this.#statements.countTrunks.get() as { n: number }).n;
  }

  trunkByFileId(fileId: string): TrunkRow | undefined {
    return this.#statements.trunkByFile.get(fileId) as TrunkRow | undefined;
  }

  trunkByTask(taskId: Buffer): TrunkRow | undefined {
    return this.#statements.trunkByTask.get(taskId) as TrunkRow | undefined;
  }

  trunksIn(state: TrunkState): TrunkRow[] {
    return this.#statements.trunksIn.all(state) as TrunkRow[];
  }

  members(trunk: number): PlannedMember[] {
    const row = this.#statements.members.get(trunk) as { members: Buffer | null } | undefined;
    return row?.members ? unpackMembers(row.members) : [];
  }

  /** Points the members' rows at the trunk; those deleted meanwhile become its dead bytes. */
  confirmMembers(trunk: number, members: readonly PlannedMember[]): void {
    this.#write(members.length, (writer) => writer.confirmMembers(trunk, members));
  }

  /** As `confirmMembers`, for a trunk of an earlier process: some may have moved on since. */
  confirmUnmoved(trunk: TrunkRow, members: readonly PlannedMember[]): void {
    this.#write(members.length, (writer) => writer.confirmUnmoved(trunk, members));
  }

  /** The bytes it was moved to are lost: it is where it was before. False if that is gone. */
  takeBack(key: Buffer): boolean {
    let isBack = false;
    this.#write(1, (writer) => {
      isBack = writer.takeBack(key);
    });
    return isBack;
  }

  /** Its only bytes are lost: it keeps no segment any more. */
  loseFile(key: Buffer): void {
    this.#statements.loseFile.run(LOST_SEGMENT, key);
  }

  /** Rows for members of a trunk that only its own directory still tells about. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    this.#write(entries.length, (writer) => writer.adoptMembers(trunk, entries));
  }

  /** The trunk is in place and every living member's row says so; the rest of it is dead. */
  finishTrunk(trunk: number, files: number, contentBytes: number): void {
    this.#write(1, (writer) => writer.finishTrunk(trunk, files, contentBytes));
  }

  /** Confirmed trunks of which more than half of the content is dead, worst first. */
  sparseTrunks(limit: number): TrunkRow[] {
    return this.#statements.sparseTrunks.all(limit) as TrunkRow[];
  }

  /** Living files of a trunk in its order, behind the given offset. */
  aliveIn(trunk: number, offset: number, limit: number): FileRow[] {
    return this.#statements.aliveIn.all(trunk, offset, limit) as FileRow[];
  }

  /**
   * Living files of the merged file's affinity group that lie beside it in its trunk, in
   * the trunk's order and itself among them; at most `limit` on either side.
   */
  groupAround(row: FileRow, limit: number): FileRow[] {
    const { aliveBefore, aliveIn } = this.#statements;
    const isOther = ({ group }: FileRow): boolean => group !== row.group;
    const before = aliveBefore.all(row.trunk, row.trunkOffset, limit) as FileRow[];
    const behind = aliveIn.all(row.trunk, row.trunkOffset, limit) as FileRow[];
    return [...until(before, isOther).reverse(), row, ...until(behind, isOther)];
  }

  /** True while a file that was moved out of the trunk is not stored elsewhere yet. */
  hasUnsettledMoves(trunk: TrunkRow): boolean {
    return this.#statements.unsettledMoves.get(trunk.fileId) !== undefined;
  }

  trunkSums(): TrunkSum[] {
    return this.#statements.sums.all() as TrunkSum[];
  }

  /** Confirmed trunks in which nothing is alive. */
  deadTrunks(): TrunkRow[] {
    return this.#statements.deadTrunks.all() as TrunkRow[];
  }

  /** The retiring trunk is gone from FastDFS. */
  retireTrunk(trunk: number): void {
    this.#statements.retireTrunk.run(trunk);
  }

  /** The stored trunk is to be adopted, and FastDFS says that it has no such file. */
  missTrunk(trunk: number): void {
    this.#statements.missTrunk.run(trunk);
  }

  /** It was given up; FastDFS may hold what was sent of it. */
  abandonTrunk(trunk: number, now: number): void {
    this.#statements.abandonTrunk.run({ trunk, now });
  }

  /** FastDFS may hold a copy of the trunk that no record names. */
  doubt(trunk: number, now: number): void {
    this.#statements.doubt.run({ trunk, now });
  }

  /** It holds none: all of it was looked through. */
  settleDoubt(trunk: number): void {
    this.#statements.settleDoubt.run(trunk);
  }

  doubtfulTrunks(): TrunkRow[] {
    return this.#statements.doubtful.all() as TrunkRow[];
  }

  /** A file that is to be removed from FastDFS, however often that fails. */
  addUnwanted(fileId: string): void {
    this.#statements.addUnwanted.run(fileId);
  }

  removeUnwanted(fileId: string): void {
    this.#statements.removeUnwanted.run(fileId);
  }

  unwanted(): string[] {
    return (this.#statements.unwanted.all() as { fileId: string }[]).map((row) => row.fileId);
  }

  /** Trunks of which too few storages have shown a copy, behind the given one. */
  uncopiedTrunks(after: number, limit: number): TrunkRow[] {
    return this.#statements.uncopied.all(after, limit) as TrunkRow[];
  }

  countUncopied(): number {
    return (this.#statements.countUncopied.get() as { n: number }).n;
  }

  /** As many storages as asked for have it: the copies on this disk may go. */
  setCopied(trunk: number): void {
    this.#statements.setCopied.run(trunk);
  }

  /** False if the copy was known to be damaged. */
  addDamage(copy: DamagedCopy): boolean {
    return this.#statements.addDamage.run(copy).changes === 1;
  }

  removeDamage({ key, place, holder }: Omit<DamagedCopy, 'foundAt'>): void {
    this.#statements.removeDamage.run(key, place, holder);
  }

  damageOf(key: Buffer): Pick<DamagedCopy, 'place' | 'holder'>[] {
    return this.#statements.damageOf.all(key) as DamagedCopy[];
  }

  damagedCopies(limit: number): DamagedCopy[] {
    return this.#statements.damage.all(limit) as DamagedCopy[];
  }

  countDamage(): number {
    return (this.#statements.countDamage.get() as { n: number }).n;
  }

  /** CRC-32s of a large file's blocks; undefined when they are not known. */
  blocks(key: Buffer): Buffer | undefined {
    return (this.#statements.blocks.get(key) as { crcs: Buffer } | undefined)?.crcs;
  }

  setBlocks(key: Buffer, crcs: Buffer): void {
    this.#statements.setBlocks.run(key, crcs);
  }

  /** What a slow walk noted of the place it has come to. */
  mark(name: string): string | undefined {
    return (this.#statements.mark.get(name) as { value: string } | undefined)?.value;
  }

  setMark(name: string, value: string): void {
    this.#statements.setMark.run(name, value);
  }

  indexedBytes(segment: number): number {
    const row = this.#statements.indexed.get(segment) as { indexedBytes: number } | undefined;
    return row?.indexedBytes ?? 0;
  }

  /** How much of the segment is known to be on the medium. */
  syncedBytes(segment: number): number {
    const row = this.#statements.synced.get(segment) as { syncedBytes: number } | undefined;
    return row?.syncedBytes ?? 0;
  }

  setSynced(segment: number, bytes: number): void {
    this.#statements.setSynced.run(bytes, segment);
  }

  /** Numbers of all segments that it knows records of. */
  segments(): number[] {
    return (this.#statements.segments.all() as { number: number }[]).map(({ number }) => number);
  }

  /** The highest number of a segment that it has heard of; 0 for none. */
  lastSegment(): number {
    return (this.#statements.lastSegment.get() as { number: number }).number;
  }

  /**
   * Number of the oldest segment with a file of which FastDFS has too few copies, or none;
   * but for those that wait and are damaged.
   */
  oldestNeededSegment(): number | undefined {
    const waiting = this.#statements.oldestNeeded.get() as { segment: number } | undefined;
    const uncopied = this.#statements.oldestUncopied.get() as { segment: number | null };
    if (uncopied.segment === null) return waiting?.segment;
    return Math.min(waiting?.segment ?? Infinity, uncopied.segment);
  }

  /** Keys of spooled files that FastDFS has, oldest first. */
  confirmedSpooled(): Buffer[] {
    return (this.#statements.confirmedSpooled.all() as { key: Buffer }[]).map((row) => row.key);
  }

  /** Trunks and deletions whose record would go with the segment although it is needed. */
  neededRecords(segment: number): { trunks: TrunkRow[]; deletions: Buffer[] } {
    const { trunksRecordedIn, deletionsNeededIn, markedNeededIn } = this.#statements;
    const deletions = deletionsNeededIn.all(segment) as { key: Buffer }[];
    const marked = markedNeededIn.all({ segment }) as { key: Buffer }[];
    return {
      trunks: trunksRecordedIn.all(segment) as TrunkRow[],
      deletions: [...deletions, ...marked].map(({ key }) => key),
    };
  }

  /** The file of a trunk that holds one whole file. */
  onlyMember(trunk: number): FileRow | undefined {
    return this.#statements.onlyMember.get(trunk) as FileRow | undefined;
  }

  forgetSegment(segment: number): void {
    this.#statements.forgetDeletions.run(segment);
    this.#statements.forgetMarked.run(segment);
    this.#statements.forgetSegment.run(segment);
  }

  /** Makes all transactions so far durable. */
  async checkpoint(): Promise<void> {
    // SQLite does not wait for another thread that is doing the same.
    for (let attempt = 0; attempt < CHECKPOINT_ATTEMPTS; attempt += 1) {
      const [result] = this.#database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
      if (result?.busy === 0) return;
      await sleep(CHECKPOINT_PAUSE_MS);
    }
    throw new Error('the FileMap could not be made durable: something else has it open');
  }

  /** Resolves when nothing has the file open any more. */
  async close(): Promise<void> {
    const stopped = this.#checkpoints.stop();
    this.#database.close();
    await stopped;
  }

  /** One transaction that changes about so many rows. */
  #write(changes: number, work: (writer: FileMapWriter) => void): void {
    this.#transact(work);
    this.#checkpoints.note(changes);
  }
}

/** The first rows up to one for which `isEnd` is true. */
function until(rows: FileRow[], isEnd: (row: FileRow) => boolean): FileRow[] {
  const end = rows.findIndex(isEnd);
  return end === -1 ? rows : rows.slice(0, end);
}
