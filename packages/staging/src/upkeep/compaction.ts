import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { serial } from '@stevedore/async';
import type { Acceptance } from '../accept/acceptance.js';
import { recordOf } from '../accept/retention.js';
import { BackgroundTask } from '../changes.js';
import type { MergedRow, TrunkRow } from '../filemap/filemap.js';
import { HOUR_MS } from '../merge/expiry.js';
import { chooseJoin, shareOf } from '../merge/joining.js';
import { MAX_FILES } from '../merge/waiting-files.js';
import type { LocalBytes } from '../repair/local-bytes.js';
import type { Rebuild } from '../repair/rebuild.js';
import { readTrunk, soundSlice, stageAgain } from '../repair/sound-bytes.js';
import type { State } from '../state.js';

/**
 * Reclaims the space of deleted files and joins thin trunks. The living files of a trunk that is
 * more than half dead, or to be joined, are staged again at a bounded rate and go into new trunks
 * under the same keys; their old slice ids become forwarding rows. The old trunk stays readable
 * until all of them are confirmed elsewhere, so no read fails; then it is deleted from FastDFS. A
 * trunk whose files all expire within a week is left alone, since it will be deleted as a whole.
 */
const BYTES_PER_SECOND = 8 * 2 ** 20;
/** Files and bytes read and staged at a time. */
const PAGE_ROWS = 64;
const PAGE_BYTES = 4 * 2 ** 20;
/** A trunk whose files all expire within this time is not compacted. */
const EXPIRES_SOON_MS = 7 * 24 * HOUR_MS;

export class Compaction extends BackgroundTask<number> {
  readonly #state: State;
  readonly #acceptance: Acceptance;
  readonly #local: LocalBytes;

  constructor(state: State, acceptance: Acceptance, local: LocalBytes) {
    super(state.changes);
    this.#state = state;
    this.#acceptance = acceptance;
    this.#local = local;
  }

  /** Compacts every trunk that is due and joins some. Resolves with the number of files moved. */
  run(): Promise<number> {
    return this.runOnce(() => this.#runAll());
  }

  async #runAll(): Promise<number> {
    const { fileMap, now } = this.#state;
    let moved = 0;
    let after = 0;
    while (!this.stopped.aborted) {
      // Not the first one each time: a file that no storage has sound must not hold up others.
      const trunk = fileMap.sparseTrunk(after, now() + EXPIRES_SOON_MS);
      if (!trunk) break;
      after = trunk.id;
      moved += await this.#emptyAll([trunk]);
    }
    return moved + (await this.#emptyAll(this.#joinable()));
  }

  /**
   * Thin trunks with living files. Trunks whose files were staged again but not yet merged are
   * empty.
   */
  #joinable(): TrunkRow[] {
    const { fileMap, files, room, now, options } = this.#state;
    const { trunkSize, idMaxAge = 0 } = options;
    if (idMaxAge === 0 || room.isShort) return [];
    const trunks = new Map(fileMap.thinTrunks().map((trunk) => [trunk.id, trunk]));
    const full = { bytes: trunkSize, files: MAX_FILES };
    const alive = [...trunks.values()].map((trunk) => {
      const oldestAt = trunk.oldestAt ?? 0;
      const left = {
        files: trunk.files - trunk.deadFiles,
        bytes: trunk.size - trunk.deadBytes,
      };
      return {
        ...{ id: trunk.id, share: shareOf(left, full), level: trunk.thin, oldestAt },
        isOverdue: now() - oldestAt >= idMaxAge,
        isEmpty: left.files === 0,
      };
    });
    const waiting = shareOf(files.small(), full);
    const chosen = chooseJoin(
      alive.filter(({ isEmpty }) => !isEmpty),
      waiting,
    );
    // Keeps files of a group in order.
    const oldestFirst = [...chosen].sort((a, b) => a.oldestAt - b.oldestAt);
    return oldestFirst.map(({ id }) => trunks.get(id)!);
  }

  async #emptyAll(trunks: readonly TrunkRow[]): Promise<number> {
    if (trunks.length === 0) return 0;
    let moved = 0;
    try {
      await this.#state.files.whileMoving(async () => {
        for (const trunk of trunks) moved += await this.#empty(trunk);
      });
    } finally {
      this.#state.changes.emit('mergeable');
    }
    return moved;
  }

  async #empty(trunk: TrunkRow): Promise<number> {
    const { fileMap, options } = this.#state;
    const { compactionBytesPerSecond: bytesPerSecond = BYTES_PER_SECOND } = options;
    let moved = 0;
    let offset = -1;
    while (!this.stopped.aborted) {
      const rows = firstBytes(fileMap.aliveIn(trunk.id, offset, PAGE_ROWS), PAGE_BYTES);
      if (rows.length === 0) break;
      const { bytes, files } = await this.#move(trunk, rows);
      offset = rows.at(-1)?.trunk.offset ?? offset;
      moved += files;
      await this.pause((bytes / bytesPerSecond) * 1000, true);
    }
    return moved;
  }

  async #move(trunk: TrunkRow, rows: readonly MergedRow[]) {
    const { fileMap } = this.#state;
    const bytes = rows.reduce((sum, row) => sum + row.size, 0);
    await this.#acceptance.makeRoom(bytes);
    const files = [];
    for (const row of rows) {
      const body = await this.#read(trunk, row).catch((error: unknown) => {
        // Deleted since the page was read, perhaps with its trunk.
        if (fileMap.find(row.key)?.trunk?.id !== trunk.id) return undefined;
        throw error;
      });
      if (body) files.push({ row, bytes: body });
    }
    await stageAgain(this.#state, files);
    const staged = files.reduce((sum, { row }) => sum + row.size, 0);
    this.#state.files.noteMoved(files.length, staged);
    return { bytes, files: files.length };
  }

  /** Undefined if no copy is sound. */
  async #read(trunk: TrunkRow, row: MergedRow): Promise<Buffer | undefined> {
    const local = await this.#local.read(row);
    if (local) return local;
    if (row.size === 0) return Buffer.alloc(0);
    const { trunkStore } = this.#state;
    const bytes = await readTrunk(trunkStore, trunk, row.trunk.offset, row.size, this.stopped);
    if (bytes && bytes.length === row.size && crc32(bytes) === row.crc32) return bytes;
    return soundSlice(this.#state, row, undefined);
  }
}

/** The first rows with at most `bytes` in total; at least one. */
function firstBytes(rows: readonly MergedRow[], bytes: number): MergedRow[] {
  let sum = 0;
  const count = rows.findIndex((row, index) => {
    sum += row.size;
    return index > 0 && sum > bytes;
  });
  return rows.slice(0, count === -1 ? rows.length : count);
}

/**
 * Deletes trunks without living files from FastDFS. A durable record gives the trunk up before
 * FastDFS is asked to delete it: from then on no file is searched for in it, even if the FileMap is
 * lost, and the deletions of its files need no longer be kept. The request is retried until FastDFS
 * has done it.
 */
const REMOVE_TIMEOUT_MS = 30_000;
const FORWARDS_PAGE = 250;

export class Retirement {
  readonly #state: State;
  readonly #inTurn = serial();

  constructor(state: State) {
    this.#state = state;
  }

  /** One run at a time; a failed run leaves the rest to the next. */
  run(): Promise<void> {
    return this.#inTurn(() => this.#retireAll());
  }

  async ended(): Promise<void> {
    await this.#inTurn(async () => undefined);
  }

  async #retireAll(): Promise<void> {
    const { container, fileMap, trunkStore, changes } = this.#state;
    for (const trunk of fileMap.deadTrunks()) {
      if (changes.isOver) return;
      if (!this.#isNeeded(trunk)) await this.#beginRetiring(trunk);
    }
    const retiring = fileMap.trunksIn('retiring');
    if (retiring.length > 0) await container.sync();
    for (const trunk of retiring) {
      if (changes.isOver) return;
      await trunkStore.remove(trunk.fileId, AbortSignal.timeout(REMOVE_TIMEOUT_MS));
      fileMap.retireTrunk(trunk.id);
      if (trunk.thin > 0) {
        // A page at a time, so that uploads get their turn.
        while (fileMap.removeForwards(trunk.fileId, FORWARDS_PAGE).changes > 0) await nextTurn();
      }
    }
  }

  /** Not while retention may rewrite its `stored` record, which would follow this one. */
  #beginRetiring(trunk: TrunkRow): Promise<void> {
    const { container, fileMap, alone, now } = this.#state;
    return alone(async () => {
      if (this.#isNeeded(trunk)) return;
      await container.append([recordOf(fileMap, { ...trunk, state: 'retiring' }, now())]);
    });
  }

  /** Until its last file is stored elsewhere, that file can be read in it, or rolled back to it. */
  #isNeeded(trunk: TrunkRow): boolean {
    const { fileMap } = this.#state;
    return fileMap.hasUnsettledMoves(trunk.fileId) || fileMap.aliveIn(trunk.id, -1, 1).length > 0;
  }
}

/** Deletes dead trunks and compacts sparse ones, on request. */
export class Cleanup {
  readonly #state: State;
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #rebuild: Rebuild;
  #isWanted = false;
  #isUnderWay = false;

  constructor(state: State, retirement: Retirement, compaction: Compaction, rebuild: Rebuild) {
    this.#state = state;
    this.#retirement = retirement;
    this.#compaction = compaction;
    this.#rebuild = rebuild;
    const want = (): void => this.want();
    state.changes.on('thinned', want).on('released', want);
    // Only one set of thin trunks is joined at a time; there may be another.
    if ((state.options.idMaxAge ?? 0) > 0) state.changes.on('stored', want);
  }

  want(): void {
    this.#isWanted = true;
    if (!this.#isUnderWay) this.#state.changes.run(this.#run());
  }

  async #run(): Promise<void> {
    const { changes } = this.#state;
    this.#isUnderWay = true;
    try {
      while (this.#isWanted && !changes.isOver) {
        this.#isWanted = false;
        await this.#retirement.run();
        if (!changes.isOver && !this.#rebuild.isWaiting) await this.#compaction.run();
      }
    } finally {
      this.#isUnderWay = false;
    }
  }
}
