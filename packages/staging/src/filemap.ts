import Database from 'better-sqlite3';
import {
  type FileChange,
  type FileMapChange,
  type FormerPlace,
  type PlannedMember,
  packMembers,
  type TrunkKind,
  unpackMembers,
} from './filemap-change.js';
import { type Counted, type Counters, Sums } from './filemap-counters.js';
import { migrate } from './filemap-schema.js';
import { prepareStatements, type Statements } from './filemap-statements.js';

/**
 * The FileMap: an index over container and trunks. Every change comes from a
 * record of the container and is committed together with how far the record's
 * segment is indexed, so that a FileMap that lost its last transactions, or all
 * of them, is brought up to date by reading records again. It need not sync by
 * itself for that; `checkpoint` makes it durable before segments are removed.
 */

export interface FileRow {
  readonly key: Buffer;
  readonly name: string;
  readonly type: string;
  readonly group: string | null;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
  readonly segment: number;
  /** Where the body begins in the segment. */
  readonly position: number;
  /** 1: a large file whose bytes are in the spool; 2: one whose spool file is gone. */
  readonly spooled: 0 | 1 | 2;
  readonly trunk: number | null;
  /** Where the content begins in the trunk; null until it is confirmed. */
  readonly trunkOffset: number | null;
  readonly trunkKind: TrunkKind | null;
  /** FastDFS id of the trunk. */
  readonly trunkFileId: string | null;
  /** JSON of the FormerPlaces it was moved from; null for most. */
  readonly was: string | null;
  /** Unix milliseconds from which on it is gone; null for most. */
  readonly expiresAt: number | null;
}

/**
 * planned: members are fixed, sending may have begun. stored: FastDFS has it.
 * confirmed: every member's row points at it. retired: nothing in it was alive, it
 * is deleted from FastDFS. abandoned: given up before it was stored.
 */
export type TrunkState = 'planned' | 'stored' | 'confirmed' | 'retired' | 'abandoned';

export interface TrunkRow {
  readonly id: number;
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  readonly state: TrunkState;
  readonly fileId: string | null;
  readonly size: number;
  readonly crc32: number | null;
  readonly files: number;
  /** Bytes of its members' content, alive or dead; 0 until it is confirmed. */
  readonly contentBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
  readonly recordSegment: number;
}

/** A member as a trunk's directory tells it. */
export interface AdoptedFile {
  readonly file: Omit<FileChange, 'position' | 'spooled'>;
  /** Where its content begins in the trunk. */
  readonly offset: number;
  readonly was: readonly FormerPlace[];
}

/** Trunks of one state and kind together. */
export interface TrunkSum {
  readonly state: TrunkState;
  readonly kind: TrunkKind;
  readonly trunks: number;
  readonly bytes: number;
  readonly contentBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
}

const CACHE_KIB = 32 * 1024;

export class FileMap {
  readonly #database: Database.Database;
  readonly #statements: Statements;
  readonly #apply: (changes: readonly FileMapChange[], segment: number, bytes: number) => void;
  readonly #confirm: (trunk: number, members: readonly PlannedMember[]) => void;
  readonly #adopt: (trunk: TrunkRow, entries: readonly AdoptedFile[]) => void;

  private constructor(database: Database.Database) {
    this.#database = database;
    this.#statements = prepareStatements(database);
    this.#apply = database.transaction((changes, segment, bytes) => {
      const sums = new Sums();
      for (const change of changes) this.#change(change, segment, sums);
      this.#addToCounters(sums);
      this.#statements.setIndexed.run(segment, bytes);
    });
    this.#confirm = database.transaction((trunk, members) => {
      const sums = new Sums();
      this.#confirmMembers(trunk, members, sums);
      this.#addToCounters(sums);
    });
    this.#adopt = database.transaction((trunk, entries) => {
      const sums = new Sums();
      this.#adoptMembers(trunk, entries, sums);
      this.#addToCounters(sums);
    });
  }

  /** Throws when the file is no sound database; the caller moves it aside and rebuilds. */
  static open(path: string): FileMap {
    const database = new Database(path);
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      database.pragma(`cache_size = -${CACHE_KIB}`);
      migrate(database);
      return new FileMap(database);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** All changes of one segment's records up to byte `indexedBytes`, in one transaction. */
  apply(changes: readonly FileMapChange[], segment: number, indexedBytes: number): void {
    this.#apply(changes, segment, indexedBytes);
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
    return this.#statements.isDeleted.get(key) !== undefined;
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
    this.#confirm(trunk, members);
  }

  /** Rows for members of a trunk that only its own directory still tells about. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    this.#adopt(trunk, entries);
  }

  /** The trunk is in place and every living member's row says so; the rest of it is dead. */
  finishTrunk(trunk: number, files: number, contentBytes: number): void {
    this.#statements.finishTrunk.run({ trunk, files, bytes: contentBytes });
    this.#statements.markSparse.run(trunk);
  }

  /** Confirmed trunks of which more than half of the content is dead, worst first. */
  sparseTrunks(limit: number): TrunkRow[] {
    return this.#statements.sparseTrunks.all(limit) as TrunkRow[];
  }

  /** Living files of a trunk in its order, behind the given offset. */
  aliveIn(trunk: number, offset: number, limit: number): FileRow[] {
    return this.#statements.aliveIn.all(trunk, offset, limit) as FileRow[];
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

  /** Nothing refers to the trunk any more, and it is gone from FastDFS. */
  retireTrunk(trunk: number): void {
    this.#statements.retireTrunk.run(trunk);
    this.#statements.freeDeletions.run(trunk);
  }

  abandonTrunk(trunk: number): void {
    this.#statements.abandonTrunk.run(trunk);
  }

  indexedBytes(segment: number): number {
    const row = this.#statements.indexed.get(segment) as { indexedBytes: number } | undefined;
    return row?.indexedBytes ?? 0;
  }

  /** The highest number of a segment that it has heard of; 0 for none. */
  lastSegment(): number {
    return (this.#statements.lastSegment.get() as { number: number }).number;
  }

  /** Number of the oldest segment with a file that is not confirmed in a trunk. */
  oldestNeededSegment(): number | undefined {
    return (this.#statements.oldestNeeded.get() as { segment: number } | undefined)?.segment;
  }

  /** Keys of spooled files that FastDFS has, oldest first. */
  confirmedSpooled(): Buffer[] {
    return (this.#statements.confirmedSpooled.all() as { key: Buffer }[]).map((row) => row.key);
  }

  /** Trunks and deletions whose record would go with the segment although it is needed. */
  neededRecords(segment: number): { trunks: TrunkRow[]; deletions: Buffer[] } {
    return {
      trunks: this.#statements.trunksRecordedIn.all(segment) as TrunkRow[],
      deletions: (this.#statements.deletionsRecordedIn.all(segment) as { key: Buffer }[]).map(
        (row) => row.key,
      ),
    };
  }

  /** The file of a trunk that holds one whole file. */
  onlyMember(trunk: number): FileRow | undefined {
    return this.#statements.onlyMember.get(trunk) as FileRow | undefined;
  }

  forgetSegment(segment: number): void {
    this.#statements.forgetDeletions.run(segment);
    this.#statements.forgetSegment.run(segment);
  }

  /** Makes all transactions so far durable. */
  checkpoint(): void {
    this.#database.pragma('wal_checkpoint(TRUNCATE)');
  }

  close(): void {
    this.#database.close();
  }

  #change(change: FileMapChange, segment: number, sums: Sums): void {
    switch (change.what) {
      case 'file':
        this.#addFile(change, segment, sums);
        return;
      case 'moved':
        this.#moveFile(change, segment, sums);
        return;
      case 'deletion':
        this.#deleteFile(change.key, segment, sums);
        return;
      case 'plan':
        this.#statements.addPlan.run({
          taskId: change.taskId,
          kind: change.kind,
          size: change.size,
          files: change.members.length,
          members: packMembers(change.members),
          segment,
        });
        return;
      case 'stored':
        if (change.file) this.#adoptWhole(change.file, sums);
        this.#statements.addStored.run({
          members: change.file
            ? packMembers([{ key: change.file.key, offset: 0, size: change.size }])
            : null,
          taskId: change.taskId,
          kind: change.kind,
          fileId: change.fileId,
          size: change.size,
          crc32: change.crc32,
          files: change.files,
          segment,
        });
    }
  }

  #addFile(change: Extract<FileMapChange, { what: 'file' }>, segment: number, sums: Sums): void {
    const { changes } = this.#statements.addFile.run(
      change.key,
      change.name,
      change.type,
      change.group ?? null,
      change.size,
      change.crc32,
      change.stagedAt,
      segment,
      change.position,
      change.spooled ? 1 : 0,
      change.expiresAt ?? null,
      change.once === undefined ? null : Buffer.from(change.once, 'base64url'),
    );
    if (changes === 1) sums.add(change.spooled ? 'spooled' : 'waiting', 1, change.size);
  }

  /** The file's bytes are in the container again; its place in a trunk is dead. */
  #moveFile(change: Extract<FileMapChange, { what: 'moved' }>, segment: number, sums: Sums): void {
    if (this.isDeleted(change.key)) return;
    const row = this.find(change.key);
    if (!row) this.#addFile({ ...change, what: 'file' }, segment, sums);
    else if (row.trunk !== null) {
      this.#addDead(row.trunk, row.size);
      sums.add('merged', -1, -row.size);
      sums.add('waiting', 1, row.size);
    }
    const was = JSON.stringify(change.was);
    this.#statements.moveFile.run(segment, change.position, was, change.key);
    for (const [fileId, offset] of change.was) {
      this.#statements.addForward.run(fileId, offset, change.key);
    }
  }

  /** A large file that only the record of its storing still tells about. */
  #adoptWhole(file: Omit<FileChange, 'position' | 'spooled'>, sums: Sums): void {
    if (this.isDeleted(file.key)) return;
    const { key, name, type, group, size, crc32, stagedAt, expiresAt = null } = file;
    const values = [key, name, type, group ?? null, size, crc32, stagedAt, 2, null, expiresAt];
    if (this.#statements.adoptFile.run(...values).changes === 1) sums.add('spooled', 1, size);
  }

  #adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[], sums: Sums): void {
    const members: PlannedMember[] = [];
    for (const { file, offset, was } of entries) {
      const { key, name, type, group, size, crc32, stagedAt, expiresAt = null } = file;
      members.push({ key, offset, size });
      // Deleted, or moved to another trunk since: dead in this one.
      if (this.isDeleted(key) || this.#statements.forward.get(trunk.fileId, offset)) continue;
      const places = was.length > 0 ? JSON.stringify(was) : null;
      const about = [name, type, group ?? null, size, crc32, stagedAt];
      const values = [key, ...about, 0, places, expiresAt];
      if (this.#statements.adoptFile.run(...values).changes === 1) sums.add('waiting', 1, size);
      for (const [fileId, at] of was) this.#statements.addForward.run(fileId, at, key);
    }
    this.#confirmMembers(trunk.id, members, sums, trunk.fileId);
  }

  #deleteFile(key: Buffer, segment: number, sums: Sums): void {
    const row = this.find(key);
    if (row) {
      this.#statements.removeFile.run(key);
      if (row.was !== null) this.#statements.removeForwards.run(key);
      const waiting = row.spooled === 0 ? 'waiting' : 'spooled';
      sums.add(row.trunk === null ? waiting : 'merged', -1, -row.size);
      if (row.trunk !== null) this.#addDead(row.trunk, row.size);
    }
    this.#statements.addDeletion.run({ key, trunk: row?.trunk ?? null, segment });
  }

  #confirmMembers(
    trunk: number,
    members: readonly PlannedMember[],
    sums: Sums,
    fileId: string | null = null,
  ): void {
    for (const { key, offset } of members) {
      if (fileId !== null && this.#statements.forward.get(fileId, offset)) continue;
      const row = this.#statements.confirmFile.get(trunk, offset, key) as
        | { size: number; spooled: number }
        | undefined;
      if (row) {
        sums.add(row.spooled === 0 ? 'waiting' : 'spooled', -1, -row.size);
        sums.add('merged', 1, row.size);
      } else {
        this.#statements.setDeletionTrunk.run(trunk, key);
      }
    }
  }

  #addDead(trunk: number, bytes: number): void {
    this.#statements.addDead.run(1, bytes, trunk);
    this.#statements.markSparse.run(trunk);
  }

  #addToCounters(sums: Sums): void {
    for (const [name, value] of sums.entries()) this.#statements.count.run(value, name);
  }
}
