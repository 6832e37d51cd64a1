import { lastPart } from '../once.js';
import type {
  Counters,
  DamagedCopy,
  FileRow,
  MergedRow,
  PlannedMember,
  TrunkRow,
  TrunkState,
  TrunkSum,
} from './rows.js';
import { NO_FILES, unpackMembers } from './rows.js';
import { FILES, Statements, TRUNKS, WAITING } from './schema.js';

/** Queries of the FileMap. None of them changes it. */
export class FileMapQueries extends Statements {
  readonly find = this.file<[key: Buffer]>(
    `${FILES} LEFT JOIN trunks t ON t.id = f.trunk WHERE f.key = ? AND f.deleted IS NULL`,
  );

  readonly isAlive = this.exists<[key: Buffer]>(
    'SELECT 1 FROM files WHERE key = ? AND deleted IS NULL',
  );

  /** The living file whose content begins at this offset of the trunk. */
  readonly findInTrunk = this.file<[trunk: number, offset: number]>(
    `${FILES} INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset = ? AND f.deleted IS NULL`,
  );

  readonly forwardOf = this.value<[fileId: string, offset: number], Buffer>(
    'SELECT key FROM forwards WHERE fileId = ? AND offset = ?',
  );

  /** Files after the given key, in key order. */
  readonly page = this.files<[after: Buffer, limit: number]>(
    `${FILES} LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.key > ? AND f.deleted IS NULL ORDER BY f.key LIMIT ?`,
  );

  readonly pageBefore = this.files<[before: Buffer, limit: number]>(
    `${FILES} LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.key < ? AND f.deleted IS NULL ORDER BY f.key DESC LIMIT ?`,
  );

  /** Without derived files. */
  readonly pageOfGroup = this.files<[group: string, after: Buffer, limit: number]>(
    `${FILES} INDEXED BY files_by_group LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.grp = ? AND f.key > ? AND f.pictureOf IS NULL ORDER BY f.key LIMIT ?`,
  );

  readonly pageOfGroupBefore = this.files<[group: string, before: Buffer, limit: number]>(
    `${FILES} INDEXED BY files_by_group LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.grp = ? AND f.key < ? AND f.pictureOf IS NULL ORDER BY f.key DESC LIMIT ?`,
  );

  /** The first group behind this one, in the order of their bytes, though its files may have expired. */
  readonly groupBehind = this.value<[group: string], string>(
    `SELECT grp FROM files INDEXED BY files_by_group
      WHERE grp > ? AND pictureOf IS NULL ORDER BY grp LIMIT 1`,
  );

  /** Files that were made of this one. */
  readonly derivedOf = this.files<[original: Buffer]>(
    `${FILES} INDEXED BY files_by_original LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.pictureOf = ? ORDER BY f.key`,
  );

  readonly oldestDerived = this.files<[limit: number]>(
    `${FILES} INDEXED BY files_derived LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.pictureOf IS NOT NULL ORDER BY f.key LIMIT ?`,
  );

  /** Keys of files that others were made of, after the given key, in order. */
  readonly originals = this.column<[after: Buffer, limit: number], Buffer>(
    `SELECT DISTINCT pictureOf FROM files INDEXED BY files_by_original
      WHERE pictureOf > ? ORDER BY pictureOf LIMIT ?`,
  );

  /** Files that wait for a trunk, in order of arrival, after the given position. */
  readonly waiting = this.files<[segment: number, position: number, limit: number]>(
    `${WAITING} INDEXED BY files_waiting
      WHERE trunk IS NULL AND (segment, position) > (?, ?) ORDER BY segment, position LIMIT ?`,
  );

  readonly lastWaiting = this.file<[]>(
    `${WAITING} INDEXED BY files_waiting
      WHERE trunk IS NULL ORDER BY segment DESC, position DESC LIMIT 1`,
  );

  /** Large files that wait to be sent, oldest first. */
  readonly waitingSpooled = this.files<[limit: number]>(
    `${WAITING} INDEXED BY files_spooled
      WHERE spooled = 1 AND trunk IS NULL ORDER BY key LIMIT ?`,
  );

  /** Expired files, longest expired first. */
  readonly expired = this.files<[now: number, limit: number]>(
    `${FILES} INDEXED BY files_expiring LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.expiresAt <= ? ORDER BY f.expiresAt LIMIT ?`,
  );

  readonly #marked = this.files<[first: Buffer, last: Buffer]>(
    `${FILES} INDEXED BY files_once LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.once >= ? AND f.once <= ? ORDER BY f.once, f.segment, f.position, f.key`,
  );

  /** CRC-32s of a large file's blocks; undefined if unknown. */
  readonly blocks = this.value<[key: Buffer], Buffer>('SELECT crcs FROM blocks WHERE key = ?');

  readonly trunkByFileId = this.get<[fileId: string], TrunkRow>(`${TRUNKS} WHERE fileId = ?`);

  readonly trunkByTask = this.get<[taskId: Buffer], TrunkRow>(`${TRUNKS} WHERE taskId = ?`);

  readonly trunksIn = this.all<[state: TrunkState], TrunkRow>(
    `${TRUNKS} WHERE state = ? ORDER BY id`,
  );

  readonly trunkSums = this.all<[], TrunkSum>(
    `SELECT state, kind, count(*) AS trunks, coalesce(sum(size), 0) AS bytes,
      coalesce(sum(d.files), 0) AS deadFiles, coalesce(sum(d.bytes), 0) AS deadBytes
      FROM trunks t LEFT JOIN dead d ON d.trunk = t.id GROUP BY state, kind`,
  );

  /**
   * The first confirmed trunk after the one given of which more than half of the content is dead,
   * unless all of its files expire by that time.
   */
  readonly sparseTrunk = this.get<[after: number, expiry: number], TrunkRow>(
    `${TRUNKS} INDEXED BY trunks_sparse
      WHERE sparse > 0 AND sparse = 1 AND id > ? AND (lastExpiry IS NULL OR lastExpiry > ?)
      ORDER BY id LIMIT 1`,
  );

  readonly thinTrunks = this.all<[], TrunkRow>(
    `${TRUNKS} INDEXED BY trunks_thin WHERE thin > 0 AND state = 'confirmed' ORDER BY id`,
  );

  /** Confirmed trunks in which nothing is alive. */
  readonly deadTrunks = this.all<[], TrunkRow>(
    `${TRUNKS} INDEXED BY trunks_sparse WHERE sparse > 0 AND sparse = 2 ORDER BY id`,
  );

  readonly doubtfulTrunks = this.all<[], TrunkRow>(
    `${TRUNKS} INDEXED BY trunks_doubtful WHERE doubtfulSince IS NOT NULL ORDER BY id`,
  );

  /** Trunks that too few storages are known to have, after the given one. */
  readonly uncopiedTrunks = this.all<[after: number, limit: number], TrunkRow>(
    `${TRUNKS} INDEXED BY trunks_uncopied
      WHERE copied = 0 AND state = 'confirmed' AND id > ? ORDER BY id LIMIT ?`,
  );

  /** Living files of a trunk after the given offset, in order. */
  readonly aliveIn = this.#merged<[trunk: number, offset: number, limit: number]>(
    `${FILES} INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset > ? AND f.deleted IS NULL
      ORDER BY f.trunkOffset LIMIT ?`,
  );

  readonly unwanted = this.column<[], string>('SELECT fileId FROM unwanted ORDER BY fileId');

  readonly damageOf = this.all<[key: Buffer], Pick<DamagedCopy, 'place' | 'holder'>>(
    'SELECT place, holder FROM damage WHERE key = ?',
  );

  /** Storages whose copy of the file is damaged. */
  readonly damagedHolders = this.column<[key: Buffer], string>(
    "SELECT holder FROM damage WHERE key = ? AND place = 'trunk'",
  );

  readonly damagedCopies = this.all<[limit: number], DamagedCopy>(
    'SELECT key, place, holder, foundAt FROM damage ORDER BY key, place, holder LIMIT ?',
  );

  /** A mark, such as the progress of a slow walk. */
  readonly mark = this.value<[name: string], string>('SELECT value FROM marks WHERE name = ?');

  readonly segments = this.column<[], number>('SELECT number FROM segments ORDER BY number');

  /** Keys of spooled files confirmed in FastDFS, oldest first. */
  readonly confirmedSpooled = this.column<[], Buffer>(
    `SELECT f.key FROM files f INDEXED BY files_spooled
      JOIN trunks t ON t.id = f.trunk WHERE f.spooled = 1 AND t.copied > 0 ORDER BY f.key`,
  );

  /** Keys of deleted files whose deletion is still kept, after the given key, in order. */
  readonly deletedKeys = this.column<[{ after: Buffer; limit: number }], Buffer>(
    `SELECT key FROM deletions WHERE key > $after
      UNION SELECT key FROM files WHERE key > $after AND deleted IS NOT NULL
      ORDER BY key LIMIT $limit`,
  );

  readonly isDeleted = this.exists<[key: Buffer]>(
    `SELECT 1 FROM (SELECT ? AS wanted)
      WHERE EXISTS (SELECT 1 FROM deletions WHERE key = wanted)
        OR EXISTS (SELECT 1 FROM files WHERE key = wanted AND deleted IS NOT NULL)`,
  );
  readonly countTrunks = this.number<[]>("SELECT count(*) FROM trunks WHERE state = 'confirmed'");
  readonly countUncopied = this.number<[]>(
    `SELECT count(*) FROM trunks INDEXED BY trunks_uncopied
      WHERE copied = 0 AND state = 'confirmed'`,
  );
  readonly countDamage = this.number<[]>('SELECT count(*) FROM damage');
  readonly #counters = this.all<[], { name: keyof Counters; value: number }>(
    'SELECT name, value FROM counters',
  );
  readonly #recount = this.all<[], { what: string; files: number; bytes: number }>(
    `SELECT
      CASE WHEN trunk IS NOT NULL THEN 'merged' WHEN spooled > 0 THEN 'spooled' ELSE 'waiting' END
        AS what, count(*) AS files, sum(size) AS bytes
      FROM files WHERE deleted IS NULL GROUP BY what
      UNION ALL SELECT iif(trunk IS NULL, 'derivedStaged', 'derivedMerged') AS what, count(*), sum(size)
      FROM files INDEXED BY files_derived WHERE pictureOf IS NOT NULL GROUP BY what`,
  );
  readonly #members = this.value<[trunk: number], Buffer | null>(
    'SELECT members FROM trunks WHERE id = ?',
  );
  /** True while a file that was moved out of the trunk is not stored elsewhere yet. */
  readonly hasUnsettledMoves = this.exists<[fileId: string]>(
    `SELECT 1 FROM forwards w JOIN files f ON f.key = w.key
      WHERE w.fileId = ? AND f.trunk IS NULL LIMIT 1`,
  );
  readonly #aliveBefore = this.#merged<[trunk: number, offset: number, limit: number]>(
    `${FILES} INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset < ? AND f.deleted IS NULL
      ORDER BY f.trunkOffset DESC LIMIT ?`,
  );
  readonly indexedBytes = this.number<[segment: number]>(
    'SELECT indexedBytes FROM segments WHERE number = ?',
  );
  /** Bytes of the segment known to be durable. */
  readonly syncedBytes = this.number<[segment: number]>(
    'SELECT syncedBytes FROM segments WHERE number = ?',
  );
  /** The highest known segment number; 0 if there is none. */
  readonly lastSegment = this.number<[]>('SELECT max(number) FROM segments');
  /**
   * Number of the oldest segment with a file that FastDFS does not have in enough copies; null if
   * there is none. Waiting damaged files do not count.
   */
  readonly oldestNeededSegment = this.value<[], number | null>(
    `SELECT min(oldest) FROM (
      SELECT * FROM (SELECT segment AS oldest FROM files INDEXED BY files_waiting
        WHERE trunk IS NULL
          AND NOT EXISTS (SELECT 1 FROM damage d WHERE d.key = files.key AND d.place <> 'trunk')
        ORDER BY segment, position LIMIT 1)
      UNION ALL SELECT min(oldestSegment) FROM trunks INDEXED BY trunks_uncopied
        WHERE copied = 0 AND state = 'confirmed')`,
  );
  readonly #trunksRecordedIn = this.all<[segment: number], TrunkRow>(
    `${TRUNKS} WHERE recordSegment = ? AND (doubtfulSince IS NOT NULL
        OR state IN ('stored', 'missing', 'confirmed', 'retiring'))`,
  );
  readonly #deletionsNeededIn = this.column<[segment: number], Buffer>(
    `SELECT key FROM deletions INDEXED BY deletions_by_segment
      WHERE recordSegment = ? AND (trunks > 0
        OR EXISTS (SELECT 1 FROM trunks INDEXED BY trunks_by_state
          WHERE state IN ('stored', 'missing')))`,
  );
  readonly #markedNeededIn = this.column<[{ segment: number }], Buffer>(
    `SELECT DISTINCT f.key FROM marked m INDEXED BY marked_by_segment
      CROSS JOIN files f ON f.key = m.key WHERE m.segment = $segment AND f.deleted = $segment`,
  );

  #merged<Args extends unknown[]>(sql: string): (...args: Args) => MergedRow[] {
    return this.files<Args>(sql) as (...args: Args) => MergedRow[];
  }

  /** The files that are left of the upload with this mark, in its order. */
  findOnce(mark: Buffer): readonly FileRow[] {
    return this.#marked(mark, lastPart(mark));
  }

  /** The file that was moved away from this place in an earlier trunk. */
  forwarded(fileId: string, offset: number): FileRow | undefined {
    const key = this.forwardOf(fileId, offset);
    return key && this.find(key);
  }

  counters(): Counters {
    const values = this.#counters().map(({ name, value }) => [name, value]);
    return { ...NO_FILES, ...(Object.fromEntries(values) as Partial<Counters>) };
  }

  recount(): Counters {
    const counted = this.#recount().flatMap(({ what, files, bytes }) => [
      [`${what}Files`, files],
      [`${what}Bytes`, bytes],
    ]);
    return { ...NO_FILES, ...(Object.fromEntries(counted) as Partial<Counters>) };
  }

  /** Members of the trunk's plan; empty once the trunk is confirmed. */
  members(trunk: number): PlannedMember[] {
    const packed = this.#members(trunk);
    return packed ? unpackMembers(packed) : [];
  }

  /**
   * The living files of the merged file's affinity group adjacent to it in its trunk, in trunk
   * order, including itself; at most `limit` on either side.
   */
  groupAround(row: MergedRow, limit: number): MergedRow[] {
    const { id, offset } = row.trunk;
    const isOther = ({ group }: FileRow): boolean => group !== row.group;
    const before = this.#aliveBefore(id, offset, limit);
    const behind = this.aliveIn(id, offset, limit);
    return [...until(before, isOther).reverse(), row, ...until(behind, isOther)];
  }

  /** Trunks and deletions whose records are in the segment and still needed. */
  neededRecords(segment: number): { trunks: TrunkRow[]; deletions: Buffer[] } {
    const deletions = [...this.#deletionsNeededIn(segment), ...this.#markedNeededIn({ segment })];
    return { trunks: this.#trunksRecordedIn(segment), deletions };
  }
}

/** The first rows up to one for which `isEnd` is true. */
function until(rows: MergedRow[], isEnd: (row: MergedRow) => boolean): MergedRow[] {
  const end = rows.findIndex(isEnd);
  return end === -1 ? rows : rows.slice(0, end);
}
