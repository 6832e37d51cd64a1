import {
  type AccessedFile,
  type Costs,
  decideInterval,
  fileThreshold,
  type IntervalDecision,
  migrationProfit,
  type PolicyState,
  splitByRoom,
  startPolicy,
} from '@stevedore/balance';
import type { Scheduler } from '../scheduler/scheduler.js';
import type { TierSettings } from '../tier-options.js';
import { Place } from '../tiers/record-rows.js';
import type { Records } from '../tiers/records.js';
import type { Tier } from '../tiers/tier.js';
import type { Tiers } from '../tiers/tiers.js';
import { AccessedFiles, coldestRows, LoadFigures, RowHeat } from './interval.js';
import { type Audit, type MoveTarget, PlannedMoves } from './moves.js';
import type { OtherRoom, OwnRoom } from './rooms.js';
import type { FileCounts, MigrationStatus } from './status.js';

/**
 * Adaptive migration of one storage. At the end of each interval, the policy of @stevedore/balance
 * decides from the load served and the requests waiting; this class applies the decision: the
 * threshold, the rate of small files, and which files leave their rows. Within an interval, a file
 * above its threshold leaves its row when it is read, and a file truncated below it returns.
 */

export interface MigrationParts {
  readonly settings: TierSettings;
  readonly tiers: Tiers;
  readonly scheduler: Scheduler;
  readonly audit: Audit;
  readonly costs: Costs;
  readonly ownRoom: OwnRoom;
  /** A metadata server of another group that can take so much load in an interval. */
  readonly findRoom: (loadBytes: number) => Promise<OtherRoom | undefined>;
  readonly orphans: () => number;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export class Migration {
  readonly #parts: MigrationParts;
  readonly #plans: PlannedMoves;
  /** B_logic for one interval. */
  readonly #capacityBytes: number;
  #state: PolicyState;
  #decision: IntervalDecision | undefined;
  #accessed: AccessedFiles;
  readonly #heat = new RowHeat();
  #isRecalling = false;
  #timer: NodeJS.Timeout | undefined;
  /** Asking other servers for room; can take longer than an interval. */
  #relieving: Promise<void> | undefined;
  #usedShare = 0;
  #roomBytes: number | undefined;
  readonly #load = new LoadFigures();

  constructor(parts: MigrationParts) {
    this.#parts = parts;
    const { settings, tiers, costs } = parts;
    this.#capacityBytes = (costs.bytesPerSecond * settings.intervalMs) / 1000;
    this.#state = startPolicy(settings.thresholdBytes);
    this.#accessed = new AccessedFiles(tiers);
    this.#plans = new PlannedMoves({
      ...parts,
      movesPerSecond: settings.movesPerSecond,
      thresholdBytes: () => this.#state.thresholdBytes,
    });
  }

  /** Starts the timer that ends each interval. */
  start(): void {
    const { settings } = this.#parts;
    this.#timer = setInterval(() => {
      try {
        this.endInterval();
      } catch (error) {
        this.#parts.onError(error);
      }
    }, settings.intervalMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#parts.scheduler.close();
    await this.#relieving;
    await this.#plans.close();
  }

  pause(): void {
    this.#plans.pause();
  }

  resume(): void {
    this.#isRecalling = false;
    this.#plans.resume();
  }

  /** Until `resume`, decisions are logged but not applied. */
  dryRun(): void {
    this.#plans.dryRun();
  }

  /** Until `resume`, no file goes to another group, and those that are there come home. */
  recall(): void {
    this.#isRecalling = true;
  }

  /** Bytes of a row were read or written, at a cost of so much load. */
  accessed(path: string, loadBytes: number, size: number, isNew: boolean): void {
    const file = this.#accessed.add(path, loadBytes, size, isNew);
    if (file && !isNew) this.#outgrown(file.tier, file.name, size);
  }

  /** A file of this storage was truncated. */
  cut(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!settings.enabled) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    // A file that has moved often may grow to a larger threshold, but returns only below the global
    // one, so that it does not move back and forth.
    if (size > this.#state.thresholdBytes) return;
    this.#plans.add({ tier, name, to: 'home', reason: 'shrunk', size, numbers: { moves } });
  }

  /** A change made a file too large for its row. It is a file here now, and may move on. */
  grown(tier: Tier, name: string, size: number): void {
    const target = this.#target;
    if (!this.#parts.settings.enabled || target === 'file') return;
    this.#plans.add({ tier, name, to: target, reason: 'threshold', size, numbers: {} });
  }

  endInterval(): void {
    const { settings, scheduler, tiers, audit } = this.#parts;
    void audit.flush();
    this.#usedShare = tiers.usedShare;
    const served = scheduler.endInterval();
    const accessed = this.#accessed;
    this.#accessed = new AccessedFiles(tiers);
    const decision = decideInterval(
      this.#state,
      {
        ...served,
        usedShare: this.#usedShare,
        // Moved to a file of this storage, a row relieves nothing, and the move itself is load.
        leastByLoadBytes: this.#target === 'file' ? settings.thresholdBytes : 0,
        accessed: accessed.movable,
      },
      this.#capacityBytes,
      settings.parameters,
    );
    this.#load.ended(served, decision.load, decision.forecast);
    this.#decision = decision;
    this.#heat.ended(accessed, this.#parts.now());
    if (!this.#adapts) {
      this.#state = { ...decision.state, thresholdBytes: settings.thresholdBytes };
      return;
    }
    this.#state = decision.state;
    tiers.thresholdBytes = Math.floor(decision.state.thresholdBytes);
    this.#allow(decision.allowedSmallFileBytes);
    this.#tellRoom(decision);
    this.#relieving ??= this.#relieve(accessed, decision)
      .catch(this.#parts.onError)
      .finally(() => {
        this.#relieving = undefined;
      });
    this.#makeRoom();
    if (this.#isRecalling) this.#recall();
  }

  status(): MigrationStatus {
    const { settings, tiers } = this.#parts;
    const sum = (of: (tier: Tier) => number): number =>
      tiers.all.reduce((before, tier) => before + of(tier), 0);
    const counted = (of: (records: Records) => FileCounts): FileCounts => ({
      files: sum(({ records }) => of(records).files),
      bytes: sum(({ records }) => of(records).bytes),
    });
    return {
      ...this.#plans.status,
      migrates: settings.migrates,
      isRecalling: this.#isRecalling,
      intervalMs: settings.intervalMs,
      capacityBytes: this.#capacityBytes,
      thresholdBytes: Math.floor(this.#state.thresholdBytes),
      usedShare: this.#usedShare,
      rows: counted((records) => records.counts(Place.row)),
      roomBytes: settings.roomBytes,
      remote: counted((records) => records.counts(Place.remote)),
      unwantedCopies: sum(({ records }) => records.unwantedCopies),
      openCopies: sum(({ records }) => records.openCopies().length),
      orphans: this.#parts.orphans(),
      intervals: this.#load.intervals,
      load: this.#load.classes,
      smallFileRoomBytes: this.#roomBytes ?? 0,
      loadToMoveBytes: this.#decision?.loadToMoveBytes ?? 0,
      revokes: sum(({ revokes }) => revokes),
    };
  }

  /** False if files do not move by load, threshold or space. */
  get #adapts(): boolean {
    const { enabled, migrates } = this.#parts.settings;
    return enabled && migrates;
  }

  /** Where files go that leave their rows for good. */
  get #target(): MoveTarget {
    const { moveTo } = this.#parts.settings;
    return moveTo === undefined || this.#isRecalling ? 'file' : { group: moveTo };
  }

  /**
   * Moves load to one other metadata server that has room, and the rest to the group for large
   * files. A file on the same disk would relieve nothing.
   */
  async #relieve(accessed: AccessedFiles, decision: IntervalDecision): Promise<void> {
    const { selection, loadToMoveBytes, forecast } = decision;
    if (selection.files.length === 0 || this.#isRecalling) return;
    const room = await this.#parts.findRoom(selection.totalLoadBytes);
    const split = splitByRoom(selection.files, room?.roomBytes ?? 0);
    const plan = (files: readonly AccessedFile[], to: MoveTarget): void => {
      for (const file of files) {
        const row = accessed.find(file.id);
        if (!row) throw new TypeError(`${file.id} was not accessed`);
        const { tier, name } = row;
        const numbers = {
          loadBytes: file.loadBytes,
          profit: migrationProfit(file),
          loadToMoveBytes,
          forecastMetadataBytes: forecast.metadataBytes,
          forecastSmallFileBytes: forecast.smallFileBytes,
          capacityBytes: this.#capacityBytes,
        };
        this.#plans.add({ tier, name, to, reason: 'load', size: file.sizeBytes, numbers });
      }
    };
    if (room) plan(split.toTarget, { group: room.group });
    if (this.#target !== 'file') plan(split.rest, this.#target);
  }

  /** A server that has load to move accepts none. */
  #tellRoom({ forecast, loadToMoveBytes }: IntervalDecision): void {
    const { settings, ownRoom } = this.#parts;
    const perSecond = 1000 / settings.intervalMs;
    ownRoom.begin(
      {
        metadataBytes: forecast.metadataBytes * perSecond,
        smallFileBytes: forecast.smallFileBytes * perSecond,
      },
      this.#capacityBytes * perSecond,
      settings.parameters.efficiencyMark,
      loadToMoveBytes === 0 && this.#usedShare < settings.parameters.usedMark,
    );
  }

  /** Brings back every file of this storage from other groups. */
  #recall(): void {
    const { tiers, settings } = this.#parts;
    for (const tier of tiers.all) {
      for (const { name, size } of tier.records.coldest(Place.remote, settings.movesPerSecond)) {
        this.#plans.add({ tier, name, to: 'home', reason: 'recall', size, numbers: {} });
      }
    }
  }

  #allow(bytes: number | undefined): void {
    const { settings, scheduler } = this.#parts;
    this.#roomBytes = bytes;
    scheduler.allow(bytes === undefined ? undefined : bytes / settings.intervalMs);
  }

  /** Evicts the coldest rows if rows take too much space. */
  #makeRoom(): void {
    const { settings, tiers } = this.#parts;
    const { usedMark } = settings.parameters;
    const most = Math.max(1, Math.ceil((settings.movesPerSecond * settings.intervalMs) / 1000));
    const beyondBytes = (this.#usedShare - usedMark) * settings.roomBytes;
    for (const { tier, name, size } of coldestRows(tiers.all, beyondBytes, most)) {
      const numbers = { usedShare: this.#usedShare };
      this.#plans.add({ tier, name, to: this.#target, reason: 'space', size, numbers });
    }
    for (const { records } of tiers.all) records.shrink();
  }

  /** Section 4.2.1: each access checks whether the file is still small. */
  #outgrown(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!this.#adapts || size <= this.#state.thresholdBytes) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    if (size <= fileThreshold(this.#state.thresholdBytes, moves, settings.parameters)) return;
    this.#plans.add({
      tier,
      name,
      to: this.#target,
      reason: 'threshold',
      size,
      numbers: { moves },
    });
  }
}
