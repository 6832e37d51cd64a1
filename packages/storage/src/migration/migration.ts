import {
  type AccessedFile,
  decideInterval,
  type Forecaster,
  fileThreshold,
  heated,
  type IntervalDecision,
  migrationProfit,
  type PanelState,
  type PolicyState,
  panel,
  smallFileAllowance,
  splitByRoom,
  startPolicy,
} from '@stevedore/balance';
import type { Competition } from '../scheduler/competition.js';
import {
  type ClassInterval,
  REQUEST_CLASSES,
  type RequestClass,
  type Scheduler,
} from '../scheduler/scheduler.js';
import { Place } from '../tiers/constants.js';
import type { MoveOutcome } from '../tiers/move.js';
import type { OpenedTiers } from '../tiers/open-tiers.js';
import type { Tier } from '../tiers/tier.js';
import type { TierSettings } from '../tiers/tier-options.js';
import { AccessedFiles } from './accessed-files.js';
import type { Audit } from './audit.js';
import { type MoveReason, Mover, type MoveTarget, type PlannedMove } from './mover.js';
import type { OtherRoom } from './other-rooms.js';
import type { OwnRoom } from './own-room.js';
import type { ClassStatus, FileCounts, MigrationStatus } from './status.js';

/**
 * Adaptive migration of a storage. At the end of every interval the scheduler tells what
 * it served and what waits; the policy of @stevedore/balance decides, and this carries it
 * out: the threshold, what small-file load is let through, and which files leave their
 * rows. Between the intervals a file that is larger than its threshold leaves its row
 * when it is read, and one that was cut small enough comes back into one.
 */

export interface MigrationParts {
  readonly settings: TierSettings;
  readonly tiers: OpenedTiers;
  readonly scheduler: Scheduler;
  readonly competition: Competition;
  readonly audit: Audit;
  /** B_logic of the disk, bytes per second. */
  readonly bytesPerSecond: number;
  readonly ownRoom: OwnRoom;
  /** A metadata server of another group that takes so much load of an interval. */
  readonly findRoom: (loadBytes: number) => Promise<OtherRoom | undefined>;
  readonly orphans: () => number;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const MAX_QUEUED = 1024;
/** A hotter file is written down as such; less is not worth a write. */
const LEAST_HEATING = 0.1;

export class Migration {
  readonly #parts: MigrationParts;
  readonly #forecaster: Forecaster<PanelState>;
  readonly #mover: Mover;
  readonly #diskBytes: number;
  #state: PolicyState<PanelState>;
  #decision: IntervalDecision<PanelState> | undefined;
  #hasMetadata = false;
  #accessed: AccessedFiles;
  #isDryRun = false;
  #isRecalling = false;
  #timer: NodeJS.Timeout | undefined;
  /** Others are asked for room, which may take longer than an interval. */
  #relieving: Promise<void> | undefined;
  #intervals = 0;
  #usedShare = 0;
  #roomBytes: number | undefined;
  #classes: Record<RequestClass, ClassStatus>;
  readonly #errors = { metadata: 0, smallFile: 0 };
  readonly #moves = { moved: 0, revoked: 0, refused: 0, failed: 0 };
  #movedBytes = 0;

  constructor(parts: MigrationParts) {
    this.#parts = parts;
    const { settings, bytesPerSecond, tiers } = parts;
    this.#diskBytes = (bytesPerSecond * settings.intervalMs) / 1000;
    this.#forecaster = panel({ capacityBytes: this.#diskBytes });
    this.#state = startPolicy(this.#forecaster, settings.thresholdBytes);
    this.#classes = { metadata: noLoad(), smallFile: noLoad() };
    this.#accessed = new AccessedFiles(tiers.tiers);
    this.#mover = new Mover({
      maxQueued: MAX_QUEUED,
      movesPerSecond: settings.movesPerSecond,
      rowLimitBytes: () => this.#state.thresholdBytes,
      now: parts.now,
      onEnd: (move, outcome) => this.#ended(move, outcome),
      onError: parts.onError,
    });
  }

  /** An interval ends by itself from now on. */
  start(): void {
    const { settings, competition } = this.#parts;
    if (this.#adapts) competition.start(() => this.#limitSmallFiles());
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
    this.#parts.competition.close();
    this.#parts.scheduler.close();
    await this.#relieving;
    await this.#mover.close();
    await this.#parts.audit.flush();
  }

  pause(): void {
    this.#mover.pause();
  }

  resume(): void {
    this.#isDryRun = false;
    this.#isRecalling = false;
    this.#mover.resume();
  }

  /** Decisions are written down and not carried out, until `resume`. */
  dryRun(): void {
    this.#isDryRun = true;
  }

  /** No file goes to another group, and those that did come home, until `resume`. */
  recall(): void {
    this.#isRecalling = true;
  }

  /** Bytes of a row were read or written, for so much load. */
  accessed(path: string, loadBytes: number, size: number, isNew: boolean): void {
    const file = this.#accessed.add(path, loadBytes, size, isNew);
    if (file) this.#outgrown(file.tier, file.name, size);
  }

  /** A file of this storage has become smaller. */
  cut(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!settings.enabled) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    // A file that has moved often has the larger threshold to grow to, and to come back
    // the global one, so that it does not go to and fro.
    if (size > this.#state.thresholdBytes) return;
    this.#plan(tier, name, 'home', 'shrunk', size, { moves });
  }

  /** A change has made a file too large for its row: it is a file here, and goes on from there. */
  grown(tier: Tier, name: string, size: number): void {
    const target = this.#target;
    if (!this.#parts.settings.enabled || target === 'file') return;
    this.#plan(tier, name, target, 'threshold', size, {});
  }

  /** Ends an interval and carries out what is decided. */
  endInterval(): void {
    const { settings, scheduler, competition, tiers } = this.#parts;
    this.#usedShare = tiers.usedShare;
    const served = scheduler.endInterval();
    if (this.#adapts) competition.observe(served);
    const accessed = this.#accessed;
    this.#accessed = new AccessedFiles(tiers.tiers);
    const alone = competition.alone(served);
    const before = this.#decision?.forecast;
    const decision = decideInterval(
      this.#state,
      {
        metadata: served.metadata,
        smallFile: served.smallFile,
        alone,
        bearableBytes: competition.bearableBytes,
        bandwidthBytes: this.#diskBytes,
        usedShare: this.#usedShare,
        accessed: accessed.movable,
      },
      this.#forecaster,
      competition.capacityBytes,
      settings.parameters,
    );
    this.#intervals += 1;
    const of = { metadata: 'metadataBytes', smallFile: 'smallFileBytes' } as const;
    for (const kind of REQUEST_CLASSES) {
      if (before) this.#errors[kind] += Math.abs(before[of[kind]] - alone[of[kind]]);
      this.#classes[kind] = {
        ...served[kind],
        forecastBytes: decision.forecast[of[kind]],
        meanErrorBytes: this.#errors[kind] / Math.max(1, this.#intervals - 1),
        busyAnswersTotal: this.#classes[kind].busyAnswersTotal + served[kind].busyAnswers,
      };
    }
    this.#decision = decision;
    this.#heat(accessed);
    if (!this.#adapts) {
      this.#state = { ...decision.state, thresholdBytes: settings.thresholdBytes };
      return;
    }
    this.#state = decision.state;
    tiers.thresholdBytes = Math.floor(decision.state.thresholdBytes);
    this.#hasMetadata = isThere(served.metadata);
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
    const { settings, tiers: opened, competition } = this.#parts;
    const { tiers } = opened;
    const sum = (of: (tier: Tier) => number): number =>
      tiers.reduce((before, tier) => before + of(tier), 0);
    const counted = (place: Place): FileCounts => ({
      files: sum(({ records }) => records.counts(place).files),
      bytes: sum(({ records }) => records.counts(place).bytes),
    });
    return {
      migrates: settings.migrates,
      isPaused: this.#mover.isPaused,
      isDryRun: this.#isDryRun,
      isRecalling: this.#isRecalling,
      intervalMs: settings.intervalMs,
      capacityBytes: competition.capacityBytes,
      thresholdBytes: Math.floor(this.#state.thresholdBytes),
      usedShare: this.#usedShare,
      rows: counted(Place.row),
      roomBytes: settings.roomBytes,
      away: counted(Place.away),
      waitingDepartures: sum(({ records }) => records.waitingDepartures),
      openCopies: sum(({ records }) => records.openCopies().length),
      orphans: this.#parts.orphans(),
      intervals: this.#intervals,
      load: { ...this.#classes },
      metadataAloneBytes: competition.metadataAloneBytes ?? 0,
      metadataKeptShare: competition.metadataKeptShare ?? 1,
      smallFileRoomBytes: this.#roomBytes ?? 0,
      loadToMoveBytes: this.#decision?.loadToMoveBytes ?? 0,
      moves: { ...this.#moves },
      movedBytes: this.#movedBytes,
      revokes: sum(({ revokes }) => revokes),
      queued: this.#mover.queued,
    };
  }

  /** Files move by load, threshold and room. */
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
   * What has to go goes to one other metadata server with room, the rest to the group for
   * what has outgrown its rows. A file of its own on the same disk would relieve nobody.
   */
  async #relieve(
    accessed: AccessedFiles,
    { selection }: IntervalDecision<PanelState>,
  ): Promise<void> {
    if (selection.files.length === 0 || this.#isRecalling) return;
    const room = await this.#parts.findRoom(selection.totalLoadBytes);
    const split = splitByRoom(selection.files, room?.roomBytes ?? 0);
    for (const file of split.toTarget) this.#planForLoad(accessed, file, { group: room!.group });
    const target = this.#target;
    if (target === 'file') return;
    for (const file of split.rest) this.#planForLoad(accessed, file, target);
  }

  /** Who has load to move takes none. */
  #tellRoom({ forecast, loadToMoveBytes }: IntervalDecision<PanelState>): void {
    const { settings, competition, ownRoom } = this.#parts;
    const perSecond = 1000 / settings.intervalMs;
    ownRoom.begin(
      {
        metadataBytes: forecast.metadataBytes * perSecond,
        smallFileBytes: forecast.smallFileBytes * perSecond,
      },
      competition.capacityBytes * perSecond,
      settings.parameters.efficiencyMark,
      loadToMoveBytes === 0 && this.#usedShare < settings.parameters.usedMark,
    );
  }

  /** Everything that other groups have of this storage comes home. */
  #recall(): void {
    const { tiers, settings } = this.#parts;
    for (const tier of tiers.tiers) {
      for (const { name, size } of tier.records.coldest(Place.away, settings.movesPerSecond)) {
        this.#plan(tier, name, 'home', 'recall', size, {});
      }
    }
  }

  #planForLoad(accessed: AccessedFiles, file: AccessedFile, to: MoveTarget): void {
    const { tier, name } = accessed.find(file.id)!;
    this.#plan(tier, name, to, 'load', file.sizeBytes, {
      loadBytes: file.loadBytes,
      profit: migrationProfit(file),
      loadToMoveBytes: this.#decision!.loadToMoveBytes,
      forecastMetadataBytes: this.#decision!.forecast.metadataBytes,
      forecastSmallFileBytes: this.#decision!.forecast.smallFileBytes,
      capacityBytes: this.#parts.competition.capacityBytes,
    });
  }

  /** Something was learnt of what metadata bears: small files have more or less at once. */
  #limitSmallFiles(): void {
    const { settings, competition } = this.#parts;
    const { metadataBytes = 0 } = this.#decision?.forecast ?? {};
    const hasMetadata = competition.isThere || this.#hasMetadata;
    const { bearableBytes } = competition;
    this.#allow(
      smallFileAllowance(
        { metadataBytes, hasMetadata, bearableBytes },
        competition.capacityBytes,
        settings.parameters,
      ),
    );
  }

  #allow(bytes: number | undefined): void {
    const { settings, scheduler } = this.#parts;
    this.#roomBytes = bytes;
    scheduler.allow(bytes === undefined ? undefined : bytes / settings.intervalMs);
  }

  #heat(accessed: AccessedFiles): void {
    const nowMs = this.#parts.now();
    for (const { tier, name, accesses } of accessed) {
      const record = tier.records.find(name);
      if (!record) continue;
      const heat = heated(record.heat, nowMs, accesses);
      if (heat > record.heat + LEAST_HEATING) tier.records.setHeat(name, heat);
    }
  }

  /** The rows take too much room: those that are asked for least go. */
  #makeRoom(): void {
    const { settings, tiers } = this.#parts;
    const { usedMark } = settings.parameters;
    const most = Math.max(1, Math.ceil((settings.movesPerSecond * settings.intervalMs) / 1000));
    let beyondBytes = (this.#usedShare - usedMark) * settings.roomBytes;
    for (const tier of tiers.tiers) {
      tier.records.shrink();
      if (beyondBytes <= 0) continue;
      for (const { name, size } of tier.records.coldest(Place.row, most)) {
        if (beyondBytes <= 0) break;
        beyondBytes -= size;
        this.#plan(tier, name, this.#target, 'space', size, { usedShare: this.#usedShare });
      }
    }
  }

  /** Section 4.2.1: whoever asks for a file finds out whether it is still a small one. */
  #outgrown(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!this.#adapts || size <= this.#state.thresholdBytes) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    if (size <= fileThreshold(this.#state.thresholdBytes, moves, settings.parameters)) return;
    this.#plan(tier, name, this.#target, 'threshold', size, { moves });
  }

  #plan(
    tier: Tier,
    name: string,
    to: MoveTarget,
    reason: MoveReason,
    size: number,
    numbers: Readonly<Record<string, number>>,
  ): void {
    const thresholdBytes = Math.floor(this.#state.thresholdBytes);
    const move = { tier, name, to, reason, size, numbers: { ...numbers, thresholdBytes } };
    if (this.#isDryRun) this.#write(move, 'dry-run');
    else this.#mover.add(move);
  }

  #ended(move: PlannedMove, outcome: MoveOutcome | 'failed'): void {
    this.#moves[outcome] += 1;
    if (outcome === 'moved') this.#movedBytes += move.size;
    this.#write(move, outcome);
  }

  #write({ name, to, reason, size, numbers }: PlannedMove, outcome: string): void {
    const at = new Date(this.#parts.now()).toISOString();
    const where = typeof to === 'string' ? to : to.group;
    this.#parts.audit.write({ at, name, to: where, reason, size, ...numbers, outcome });
  }
}

function isThere({ servedBytes, waitingBytes }: ClassInterval): boolean {
  return servedBytes > 0 || waitingBytes > 0;
}

function noLoad(): ClassStatus {
  return {
    servedBytes: 0,
    waitingBytes: 0,
    servedRequests: 0,
    waitingRequests: 0,
    waitedMs: 0,
    ranMs: 0,
    busyAnswers: 0,
    forecastBytes: 0,
    meanErrorBytes: 0,
    busyAnswersTotal: 0,
  };
}
