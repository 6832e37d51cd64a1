import type { PlannedMember } from './changes.js';
import { unpackMembers } from './changes.js';
import { type Counted, type Counters, Sums } from './counters.js';
import type { DamagedCopy, FileRow, TrunkRow, TrunkState, TrunkSum } from './rows.js';
import type { Statements } from './statements.js';

/** What the FileMap is asked. Nothing here changes it. */
export class FileMapQueries {
  protected readonly statements: Statements;

  constructor(statements: Statements) {
    this.statements = statements;
  }

  find(key: Buffer): FileRow | undefined {
    return this.statements.find.get(key) as FileRow | undefined;
  }

  findInTrunk(trunk: number, offset: number): FileRow | undefined {
    return this.statements.findInTrunk.get(trunk, offset) as FileRow | undefined;
  }

  /** The file that was moved away from this place of an earlier trunk. */
  forwarded(fileId: string, offset: number): FileRow | undefined {
    const row = this.statements.forward.get(fileId, offset) as { key: Buffer } | undefined;
    return row && this.find(row.key);
  }

  /** Files in the order of keys, behind the given one. */
  page(after: Buffer, limit: number): FileRow[] {
    return this.statements.page.all(after, limit) as FileRow[];
  }

  isDeleted(key: Buffer): boolean {
    return this.statements.isDeleted.get({ key }) !== undefined;
  }

  /** Files that wait to be packed, in order of arrival, behind the given place. */
  waiting(segment: number, position: number, limit: number): FileRow[] {
    return this.statements.waiting.all(segment, position, limit) as FileRow[];
  }

  /** Large files that wait to be sent, oldest first. */
  waitingSpooled(limit: number): FileRow[] {
    return this.statements.waitingSpooled.all(limit) as FileRow[];
  }

  /** Files whose time is over, the longest ago first. */
  expired(now: number, limit: number): FileRow[] {
    return this.statements.expired.all(now, limit) as FileRow[];
  }

  /** The files of the upload that was marked so since then, in its order. */
  findOnce(once: Buffer, since: number): FileRow[] {
    return this.statements.byOnce.all(once, since) as FileRow[];
  }

  /** CRC-32s of a large file's blocks; undefined when they are not known. */
  blocks(key: Buffer): Buffer | undefined {
    return (this.statements.blocks.get(key) as { crcs: Buffer } | undefined)?.crcs;
  }

  counters(): Counters {
    const rows = this.statements.counters.all() as {
      name: keyof Counters;
      value: number;
    }[];
    const sums = new Sums();
    return Object.assign(
      sums.values,
      Object.fromEntries(rows.map(({ name, value }) => [name, value])),
    );
  }

  /** The counters as the rows themselves tell them. */
  recount(): Counters {
    const sums = new Sums();
    const rows = this.statements.recount.all() as {
      what: Counted;
      files: number;
      bytes: number;
    }[];
    for (const { what, files, bytes } of rows) sums.add(what, files, bytes);
    return sums.values;
  }

  countTrunks(): number {
    return (this.statements.countTrunks.get() as { n: number }).n;
  }

  trunkByFileId(fileId: string): TrunkRow | undefined {
    return this.statements.trunkByFile.get(fileId) as TrunkRow | undefined;
  }

  trunkByTask(taskId: Buffer): TrunkRow | undefined {
    return this.statements.trunkByTask.get(taskId) as TrunkRow | undefined;
  }

  trunksIn(state: TrunkState): TrunkRow[] {
    return this.statements.trunksIn.all(state) as TrunkRow[];
  }

  trunkSums(): TrunkSum[] {
    return this.statements.sums.all() as TrunkSum[];
  }

  members(trunk: number): PlannedMember[] {
    const row = this.statements.members.get(trunk) as { members: Buffer | null } | undefined;
    return row?.members ? unpackMembers(row.members) : [];
  }

  /** The file of a trunk that holds one whole file. */
  onlyMember(trunk: number): FileRow | undefined {
    return this.statements.onlyMember.get(trunk) as FileRow | undefined;
  }

  /** Confirmed trunks of which more than half of the content is dead, worst first. */
  sparseTrunks(limit: number): TrunkRow[] {
    return this.statements.sparseTrunks.all(limit) as TrunkRow[];
  }

  /** Confirmed trunks in which nothing is alive. */
  deadTrunks(): TrunkRow[] {
    return this.statements.deadTrunks.all() as TrunkRow[];
  }

  doubtfulTrunks(): TrunkRow[] {
    return this.statements.doubtful.all() as TrunkRow[];
  }

  /** Trunks of which too few storages have shown a copy, behind the given one. */
  uncopiedTrunks(after: number, limit: number): TrunkRow[] {
    return this.statements.uncopied.all(after, limit) as TrunkRow[];
  }

  countUncopied(): number {
    return (this.statements.countUncopied.get() as { n: number }).n;
  }

  /** True while a file that was moved out of the trunk is not stored elsewhere yet. */
  hasUnsettledMoves(trunk: TrunkRow): boolean {
    return this.statements.unsettledMoves.get(trunk.fileId) !== undefined;
  }

  /** Living files of a trunk in its order, behind the given offset. */
  aliveIn(trunk: number, offset: number, limit: number): FileRow[] {
    return this.statements.aliveIn.all(trunk, offset, limit) as FileRow[];
  }

  /**
   * Living files of the merged file's affinity group that lie beside it in its trunk, in
   * the trunk's order and itself among them; at most `limit` on either side.
   */
  groupAround(row: FileRow, limit: number): FileRow[] {
    const { aliveBefore, aliveIn } = this.statements;
    const isOther = ({ group }: FileRow): boolean => group !== row.group;
    const before = aliveBefore.all(row.trunk, row.trunkOffset, limit) as FileRow[];
    const behind = aliveIn.all(row.trunk, row.trunkOffset, limit) as FileRow[];
    return [...until(before, isOther).reverse(), row, ...until(behind, isOther)];
  }

  unwanted(): string[] {
    return (this.statements.unwanted.all() as { fileId: string }[]).map((row) => row.fileId);
  }

  damageOf(key: Buffer): Pick<DamagedCopy, 'place' | 'holder'>[] {
    return this.statements.damageOf.all(key) as DamagedCopy[];
  }

  damagedCopies(limit: number): DamagedCopy[] {
    return this.statements.damage.all(limit) as DamagedCopy[];
  }

  countDamage(): number {
    return (this.statements.countDamage.get() as { n: number }).n;
  }

  /** What a slow walk noted of the place it has come to. */
  mark(name: string): string | undefined {
    return (this.statements.mark.get(name) as { value: string } | undefined)?.value;
  }

  indexedBytes(segment: number): number {
    const row = this.statements.indexed.get(segment) as { indexedBytes: number } | undefined;
    return row?.indexedBytes ?? 0;
  }

  /** How much of the segment is known to be on the medium. */
  syncedBytes(segment: number): number {
    const row = this.statements.synced.get(segment) as { syncedBytes: number } | undefined;
    return row?.syncedBytes ?? 0;
  }

  /** Numbers of all segments that it knows records of. */
  segments(): number[] {
    return (this.statements.segments.all() as { number: number }[]).map(({ number }) => number);
  }

  /** The highest number of a segment that it has heard of; 0 for none. */
  lastSegment(): number {
    return (this.statements.lastSegment.get() as { number: number }).number;
  }

  /**
   * Number of the oldest segment with a file of which FastDFS has too few copies, or none;
   * but for those that wait and are damaged.
   */
  oldestNeededSegment(): number | undefined {
    const waiting = this.statements.oldestNeeded.get() as { segment: number } | undefined;
    const uncopied = this.statements.oldestUncopied.get() as { segment: number | null };
    if (uncopied.segment === null) return waiting?.segment;
    return Math.min(waiting?.segment ?? Infinity, uncopied.segment);
  }

  /** Keys of spooled files that FastDFS has, oldest first. */
  confirmedSpooled(): Buffer[] {
    return (this.statements.confirmedSpooled.all() as { key: Buffer }[]).map((row) => row.key);
  }

  /** Trunks and deletions whose record would go with the segment although it is needed. */
  neededRecords(segment: number): { trunks: TrunkRow[]; deletions: Buffer[] } {
    const { trunksRecordedIn, deletionsNeededIn, markedNeededIn } = this.statements;
    const deletions = deletionsNeededIn.all(segment) as { key: Buffer }[];
    const marked = markedNeededIn.all({ segment }) as { key: Buffer }[];
    return {
      trunks: trunksRecordedIn.all(segment) as TrunkRow[],
      deletions: [...deletions, ...marked].map(({ key }) => key),
    };
  }
}

/** The first rows up to one for which `isEnd` is true. */
function until(rows: FileRow[], isEnd: (row: FileRow) => boolean): FileRow[] {
  const end = rows.findIndex(isEnd);
  return end === -1 ? rows : rows.slice(0, end);
}
