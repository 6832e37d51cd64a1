import { Acceptance } from './accept/acceptance.js';
import { Retention } from './accept/retention.js';
import type { RoomStats } from './accept/room.js';
import type { Changes } from './changes.js';
import type { Spool } from './container/spool.js';
import type { Unfinished } from './container/unfinished.js';
import type { HeldIndex } from './copies/held-index.js';
import { restore } from './copies/returned-files.js';
import type { CopiesStats, StagedCopies } from './copies/staged-copies.js';
import { type TakenOver, takeOver } from './copies/take-over.js';
import type { Counters, FileMap } from './filemap/filemap.js';
import type { KeyMaker } from './key.js';
import { Confirmations } from './merge/confirmations.js';
import { joinIntervalMs } from './merge/joining.js';
import { type MergeStats, MergeTask } from './merge/merge-task.js';
import type { WaitingFiles } from './merge/waiting-files.js';
import { type AdoptedTrunks, adopt } from './repair/adoption.js';
import { type FsckReport, fsck } from './repair/fsck.js';
import { LocalBytes } from './repair/local-bytes.js';
import { type OrphanStats, OrphanWatch } from './repair/orphan-watch.js';
import type { DamageStats, Quarantine } from './repair/quarantine.js';
import { Rebuild } from './repair/rebuild.js';
import { Repairs } from './repair/repair.js';
import {
  type ScrubOptions,
  type ScrubReport,
  type ScrubStats,
  ScrubWatch,
  scrub,
} from './repair/scrub.js';
import { setAside } from './repair/set-aside.js';
import type { UpkeepOptions } from './repair/sound-bytes.js';
import type { StagingOptions } from './staging-options.js';
import { type OpenedState, openState } from './startup.js';
import type { State } from './state.js';
import { Cleanup, Compaction, Retirement } from './upkeep/compaction.js';
import { Deletions } from './upkeep/deletions.js';

export interface StagingStats extends Counters, MergeStats {
  readonly trunks: number;
  /** Bytes of the container's segments and spooled files on disk. */
  readonly containerBytes: number;
  /** Unfinished resumable uploads, and their bytes. */
  readonly unfinishedUploads: number;
  readonly unfinishedBytes: number;
  /** Trunks that too few storages are known to have; this disk keeps its copies. */
  readonly unconfirmedTrunks: number;
  /** Trunks in FastDFS without a record. */
  readonly orphans: OrphanStats;
  /** Damaged copies. */
  readonly damage: DamageStats;
  /** The background scrub. */
  readonly scrub: ScrubStats;
  readonly room: RoomStats;
  /** The second copy of what is staged; undefined without one. */
  readonly copies?: CopiesStats;
}

const FREE_SPACE_INTERVAL_MS = 1_000;
/** How long opening waits for a FileMap that was lost, before it continues in the background. */
const REBUILD_GRACE_MS = 3_000;
const REBUILD_FIRST_MS = 600_000;
const EXPIRY_INTERVAL_MS = 10_000;

/**
 * Staging: files are acknowledged once they are durable in the container, readable from then on,
 * and merged into trunks in the background. Once acknowledged, a file is never lost, never altered,
 * and always readable. It has four phases; each uses those above it, and tells them what it did by
 * `changes` alone:
 *
 *     state    the files, their room, damaged copies; nothing runs by itself
 *     accept   takes files, reads them from this disk and frees room
 *     merge    packs files into trunks and stores them
 *     upkeep   deletes, repairs, checks and reclaims
 */
export class Staging {
  readonly fileMap: FileMap;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
  readonly origin: number;
  readonly keys: KeyMaker;
  readonly quarantine: Quarantine;
  readonly files: WaitingFiles;
  readonly changes: Changes;
  readonly copies: StagedCopies | undefined;
  readonly acceptance: Acceptance;
  readonly local: LocalBytes;
  readonly merging: MergeTask;
  readonly deletions: Deletions;
  readonly rebuild: Rebuild;
  readonly #state: State;
  readonly #retention: Retention;
  readonly #confirmations: Confirmations;
  readonly #orphans: OrphanWatch;
  readonly #repairs: Repairs;
  readonly #scrubs: ScrubWatch;
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #cleanup: Cleanup;
  #closing: Promise<void> | undefined;

  private constructor({ state, unread }: OpenedState) {
    this.#state = state;
    this.fileMap = state.fileMap;
    this.spool = state.spool;
    this.unfinished = state.unfinished;
    this.origin = state.origin;
    this.keys = state.keys;
    this.quarantine = state.quarantine;
    this.files = state.files;
    this.changes = state.changes;
    this.copies = state.copies;
    this.#retention = new Retention(state, setAside);
    this.acceptance = new Acceptance(state, this.#retention);
    this.local = new LocalBytes(state);
    this.merging = new MergeTask(state, this.local);
    this.#confirmations = new Confirmations(state);
    this.rebuild = new Rebuild(state, unread);
    this.deletions = new Deletions(state, this.rebuild);
    const { rebuild } = this;
    this.#orphans = new OrphanWatch(state, { inFlight: this.merging.inFlight, rebuild });
    this.#repairs = new Repairs(state, this.acceptance);
    this.#scrubs = new ScrubWatch(state, this.#repairs);
    this.#retirement = new Retirement(state);
    this.#compaction = new Compaction(state, this.acceptance, this.local);
    this.#cleanup = new Cleanup(state, this.#retirement, this.#compaction, rebuild);
    state.changes.on('released', ({ kind, rows: [row] }) => {
      // The large file may have been deleted while it was in flight.
      if (kind !== 'whole' || !row || state.fileMap.find(row.key)) return;
      state.changes.run(state.spool.remove(row.key));
    });
  }

  /** Locks the directory, recovers its content and starts the Merge Task. */
  static async open(options: StagingOptions): Promise<Staging> {
    const staging = new Staging(await openState(options));
    await staging.#begin();
    return staging;
  }

  async #begin(): Promise<void> {
    const { changes, container, copies, lock, options } = this.#state;
    void lock.lost.then((error) => {
      changes.report(error);
      return this.close().catch(() => undefined);
    });
    await this.rebuild.begin(options.rebuildsFirst ? REBUILD_FIRST_MS : REBUILD_GRACE_MS);
    changes.tellSoon();
    copies?.start({
      container,
      firstNeeded: () => this.#retention.firstNeeded(),
      store: (keys, signal) => this.merging.store(keys, signal),
      storeFailure: () => this.merging.inFlight.failure,
      discard: (keys) => this.deletions.discard(keys),
      onError: (error) => changes.report(error),
    });
    this.merging.start();
    this.#confirmations.start();
    changes.run(this.#retention.trim());
    changes.every(FREE_SPACE_INTERVAL_MS, () => this.acceptance.lookAtDisk());
    this.#beginUpkeep();
  }

  #beginUpkeep(): void {
    const { changes, quarantine, options, now } = this.#state;
    const { idMaxAge = 0, unfinishedAge = Number.POSITIVE_INFINITY } = options;
    if (options.findsOrphans ?? true) this.#orphans.start();
    this.#scrubs.start();
    this.#cleanup.want();
    for (const { key, was } of quarantine.onlyCopies()) if (was.length > 0) this.#repairs.want(key);
    if (idMaxAge > 0) changes.every(joinIntervalMs(idMaxAge), async () => this.#cleanup.want());
    changes.every(options.expiryIntervalMs ?? EXPIRY_INTERVAL_MS, async () => {
      await this.deletions.deleteExpired();
      await this.unfinished.removeOlder(now() - unfinishedAge);
    });
  }

  /** Compacts sparse trunks. Resolves with the number of files moved. */
  async compact(): Promise<number> {
    const moved = await this.#compaction.run();
    await this.#retirement.run();
    return moved;
  }

  /**
   * Stages the files held of a gateway that will not return. Its trunks must have been adopted
   * before.
   */
  takeOver(index: HeldIndex): Promise<TakenOver> {
    return takeOver(this.#state, this.acceptance, index);
  }

  /** Stages a file of an adopted gateway that has come back, unless it is known here. */
  restore(facts: Parameters<typeof restore>[2], body: AsyncIterable<Uint8Array>): Promise<void> {
    return restore(this.#state, this.acceptance, facts, body);
  }

  /** Takes over the trunks of a container that is gone, and starts to read their directories. */
  adopt(adopted: AdoptedTrunks): Promise<void> {
    return adopt(this.#state, this.rebuild, this.deletions, adopted);
  }

  fsck(options: UpkeepOptions): Promise<FsckReport> {
    return fsck(this.#state, this.#orphans, options);
  }

  scrub(options: ScrubOptions): Promise<ScrubReport> {
    return scrub(this.#state, this.#repairs, options);
  }

  stats(): StagingStats {
    const { fileMap, room, copies, unfinished, quarantine } = this.#state;
    return {
      ...fileMap.counters(),
      trunks: fileMap.countTrunks(),
      containerBytes: room.usedBytes,
      ...this.merging.stats(),
      room: this.acceptance.stats(),
      ...(copies ? { copies: copies.stats() } : {}),
      unfinishedUploads: unfinished.count,
      unfinishedBytes: unfinished.bytes,
      unconfirmedTrunks: fileMap.countUncopied(),
      orphans: this.#orphans.stats(),
      damage: quarantine.stats(),
      scrub: this.#scrubs.stats(),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #upkeepEnded(): Promise<void> {
    await this.rebuild.ended();
    await Promise.all([this.#scrubs.ended(), this.#repairs.ended()]);
    await this.#compaction.ended();
    await this.#orphans.ended();
    await this.#retirement.ended();
  }

  /** Runs every step, whatever fails. Rejects with the first failure. */
  async #close(): Promise<void> {
    const { changes, container, copies, fileMap, lock } = this.#state;
    changes.end();
    const failures: unknown[] = [];
    const steps = [
      () => Promise.all([this.#upkeepEnded(), this.merging.ended()]),
      () => this.#confirmations.ended(),
      () => this.#retention.trim().catch(() => undefined),
      () => copies?.stop(),
      () => container.close(),
      () => fileMap.makeDurable(),
      () => fileMap.close(),
      () => lock.release(),
    ];
    for (const step of steps) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
