import {
  type AccessedFile,
  decideInterval,
  type Forecaster,
  fileThreshold,
  type IntervalDecision,
  migrationProfit,
  type PanelState,
  type PolicyState,
  panel,
  spareLoad,
  splitByRoom,
  startPolicy,
} from '@stevedore/balance';
import type { HomeId } from '../guests/guest-hosts.js';
import type { Neighbours } from '../guests/neighbours.js';
import type { IoServerStatus } from '../io-tier/known-servers.js';
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
import type { RecordCounts } from '../tiers/records.js';
import type { Tier } from '../tiers/tier.js';
import type { TierSettings } from '../tiers/tier-options.js';
import type { Audit } from './audit.js';
import { type MoveReason, Mover, type PlannedMove } from './mover.js';
import type { ClassStatus, ForwardingStatus, MigrationStatus } from './status.js';

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
  readonly usedShare: () => Promise<number>;
  readonly ioServers: () => readonly IoServerStatus[];
  /** Metadata servers of other groups; undefined: none is ever given anything. */
  readonly neighbours: Neighbours | undefined;
  readonly forwarding: () => ForwardingStatus;
  readonly writtenOnward: () => number;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** Files whose load is remembered for one interval. */
const MAX_ACCESSED = 10_000;
const MAX_QUEUED = 1024;

interface Accessed {
  readonly tier: Tier;
  readonly name: string;
  size: number;
  loadBytes: number;
  /** It was stored in this interval. */
  isNew: boolean;
}

export class Migration {
  readonly #parts: MigrationParts;
  readonly #forecaster: Forecaster<PanelState>;
  readonly #mover: Mover;
  #state: PolicyState<PanelState>;
  #decision: IntervalDecision<PanelState> | undefined;
  #accessed = new Map<string, Accessed>();
  #isDryRun = false;
  #isRecalling = false;
  #timer: NodeJS.Timeout | undefined;
  #ending: Promise<void> | undefined;
  #intervals = 0;
  #usedShare = 0;
  #roomBytes: number | undefined;
  #classes: Record<RequestClass, ClassStatus>;
  readonly #errors = { metadata: 0, smallFile: 0 };
  readonly #moves = { moved: 0, revoked: 0, refused: 0, failed: 0 };
  #movedBytes = 0;

  constructor(parts: MigrationParts) {
    this.#parts = parts;
    const { settings, bytesPerSecond } = parts;
    const capacityBytes = (bytesPerSecond * settings.intervalMs) / 1000;
    this.#forecaster = panel({ capacityBytes });
    this.#state = startPolicy(this.#forecaster, settings.thresholdBytes);
    this.#classes = { metadata: noLoad(), smallFile: noLoad() };
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
    if (settings.enabled && settings.migrates) competition.start(() => this.#limitSmallFiles());
    this.#timer = setInterval(() => {
      this.#ending ??= this.endInterval()
        .catch(this.#parts.onError)
        .finally(() => {
          this.#ending = undefined;
        });
    }, settings.intervalMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#parts.competition.close();
    this.#parts.scheduler.close();
    await this.#ending;
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

  /** No file goes to another metadata server, and those that did come home, until `resume`. */
  recall(): void {
    this.#isRecalling = true;
  }

  /** Bytes of a row were read or written. */
  accessed(path: string, bytes: number, size: number, isNew: boolean): void {
    const loadBytes = this.#parts.scheduler.cost(bytes);
    const known = this.#accessed.get(path);
    if (known) {
      known.loadBytes += loadBytes;
      known.size = size;
      known.isNew ||= isNew;
    } else if (this.#accessed.size < MAX_ACCESSED) {
      const tier = this.#parts.tiers.tiers.find(({ data }) => path.startsWith(data));
      if (!tier) return;
      const name = path.slice(tier.data.length);
      this.#accessed.set(path, { tier, name, size, loadBytes, isNew });
      this.#outgrown(tier, name, size);
    }
  }

  /** A data file has become smaller. */
  cut(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!settings.enabled) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    // A file that has moved often has the larger threshold to grow to, and to come back
    // the global one, so that it does not go to and fro.
    if (size > this.#state.thresholdBytes) return;
    this.#plan(tier, name, 'row', 'shrunk', size, { moves });
  }

  /** Ends an interval and carries out what is decided. */
  async endInterval(): Promise<void> {
    const { settings, scheduler, competition, tiers } = this.#parts;
    this.#usedShare = await this.#parts.usedShare();
    const served = scheduler.endInterval();
    if (settings.enabled && settings.migrates) competition.observe(served);
    const ended = this.#asIfAlone(served);
    const accessed = this.#accessed;
    this.#accessed = new Map();
    const before = this.#decision?.forecast;
    const decision = decideInterval(
      this.#state,
      {
        metadata: ended.metadata,
        smallFile: ended.smallFile,
        usedShare: this.#usedShare,
        accessed: this.#movable(accessed),
      },
      this.#forecaster,
      this.#parts.competition.capacityBytes,
      settings.parameters,
    );
    this.#intervals += 1;
    for (const kind of REQUEST_CLASSES) {
      const forecast = (of: { metadataBytes: number; smallFileBytes: number }): number =>
        kind === 'metadata' ? of.metadataBytes : of.smallFileBytes;
      if (before) this.#errors[kind] += Math.abs(forecast(before) - ended[kind].servedBytes);
      this.#classes[kind] = {
        ...served[kind],
        forecastBytes: forecast(decision.forecast),
        meanErrorBytes: this.#errors[kind] / Math.max(1, this.#intervals - 1),
        busyAnswersTotal: this.#classes[kind].busyAnswersTotal + ended[kind].busyAnswers,
      };
    }
    this.#decision = decision;
    if (!settings.enabled || !settings.migrates) {
      this.#state = { ...decision.state, thresholdBytes: settings.thresholdBytes };
      void this.#onlyLearn();
      return;
    }
    this.#state = decision.state;
    tiers.thresholdBytes = Math.floor(decision.state.thresholdBytes);
    this.#limitSmallFiles();
    this.#relieve(accessed, decision);
    this.#makeRoom();
    if (this.#isRecalling) this.#recall();
  }

  status(): MigrationStatus {
    const { settings, tiers } = this.#parts;
    const { ioServers, writtenOnward } = this.#parts;
    const counted = (place: Place): RecordCounts => {
      const all = tiers.tiers.map(({ records }) => records.counts(place));
      const sum = (of: keyof RecordCounts): number =>
        all.reduce((before, each) => before + each[of], 0);
      return { files: sum('files'), bytes: sum('bytes') };
    };
    return {
      migrates: settings.migrates,
      isPaused: this.#mover.isPaused,
      isDryRun: this.#isDryRun,
      intervalMs: settings.intervalMs,
      capacityBytes: this.#parts.competition.capacityBytes,
      thresholdBytes: Math.floor(this.#state.thresholdBytes),
      usedShare: this.#usedShare,
      rows: counted(Place.row),
      ioServers: ioServers(),
      writtenOnward: writtenOnward(),
      ioFiles: counted(Place.servers),
      isRecalling: this.#isRecalling,
      neighbours: this.#parts.neighbours?.others ?? [],
      guestFiles: counted(Place.guest),
      forwarding: this.#parts.forwarding(),
      waitingDepartures: tiers.tiers.reduce(
        (sum, { records }) => sum + records.waitingDepartures,
        0,
      ),
      waitingDeletions: tiers.tiers.reduce((sum, { records }) => sum + records.waitingDeletions, 0),
      orphans: tiers.tiers.reduce((sum, { dataFiles }) => sum + (dataFiles?.orphans ?? 0), 0),
      intervals: this.#intervals,
      load: { ...this.#classes },
      metadataAloneBytes: this.#parts.competition.metadataAloneBytes ?? 0,
      metadataKeptShare: this.#parts.competition.metadataKeptShare ?? 1,
      smallFileRoomBytes: this.#roomBytes ?? 0,
      loadToMoveBytes: this.#decision?.loadToMoveBytes ?? 0,
      moves: { ...this.#moves },
      movedBytes: this.#movedBytes,
      revokes: tiers.tiers.reduce((sum, { revokes }) => sum + revokes, 0),
      queued: this.#mover.queued,
    };
  }

  /** What has to go goes to one other metadata server with room, the rest into data files. */
  #relieve(
    accessed: ReadonlyMap<string, Accessed>,
    { forecast, selection }: IntervalDecision<PanelState>,
  ): void {
    const { settings, competition, neighbours } = this.#parts;
    const { capacityBytes } = competition;
    const { efficiencyMark } = settings.parameters;
    const toFiles = (files: readonly AccessedFile[]): void => {
      for (const file of files) this.#planForLoad(accessed, file, 'file');
    };
    if (!neighbours) {
      toFiles(selection.files);
      return;
    }
    const toMoveBytes = Math.ceil(selection.totalLoadBytes);
    const spareBytes = spareLoad(forecast, capacityBytes, efficiencyMark);
    neighbours.guard.begin(toMoveBytes > 0 || this.#isRecalling ? 0 : spareBytes);
    const load = {
      intervalMs: settings.intervalMs,
      capacityBytes: Math.ceil(capacityBytes),
      metadataBytes: Math.round(forecast.metadataBytes),
      smallFileBytes: Math.round(forecast.smallFileBytes),
      markPerMille: Math.round(efficiencyMark * 1000),
      toMoveBytes: this.#isRecalling ? 0 : toMoveBytes,
    };
    neighbours
      .report(load)
      .then((lease) => {
        const split = splitByRoom(selection.files, lease?.roomBytes ?? 0);
        for (const file of split.toTarget) this.#planForLoad(accessed, file, lease!);
        toFiles(split.toIoServers);
      })
      .catch(this.#parts.onError);
  }

  /** Takes nobody's files and gives none, but must know where those are that it once gave. */
  async #onlyLearn(): Promise<void> {
    const { settings, competition, neighbours } = this.#parts;
    const capacityBytes = Math.ceil(competition.capacityBytes);
    await neighbours?.report({
      intervalMs: settings.intervalMs,
      capacityBytes,
      metadataBytes: capacityBytes,
      smallFileBytes: 0,
      markPerMille: 0,
      toMoveBytes: 0,
    });
  }

  /** Everything that other servers have of this one comes home. */
  #recall(): void {
    for (const tier of this.#parts.tiers.tiers) {
      for (const { name, size } of tier.records.guests(this.#parts.settings.movesPerSecond)) {
        this.#plan(tier, name, 'row', 'recall', size, {});
      }
    }
  }

  #planForLoad(
    accessed: ReadonlyMap<string, Accessed>,
    file: AccessedFile,
    to: 'file' | HomeId,
  ): void {
    const { tier, name } = accessed.get(file.id)!;
    this.#plan(tier, name, to, 'load', file.sizeBytes, {
      loadBytes: file.loadBytes,
      profit: migrationProfit(file),
      loadToMoveBytes: this.#decision!.loadToMoveBytes,
      forecastMetadataBytes: this.#decision!.forecast.metadataBytes,
      forecastSmallFileBytes: this.#decision!.forecast.smallFileBytes,
      capacityBytes: this.#parts.competition.capacityBytes,
    });
  }

  /** What was stored just now is left out: most of it will hardly be asked for again. */
  #movable(accessed: ReadonlyMap<string, Accessed>): AccessedFile[] {
    return [...accessed]
      .filter(([, { isNew }]) => !isNew)
      .map(([id, { size: sizeBytes, loadBytes }]) => ({ id, sizeBytes, loadBytes }));
  }

  /** Forecasts are of what either class needs, not of what the other has left it. */
  #asIfAlone(served: Record<RequestClass, ClassInterval>): Record<RequestClass, ClassInterval> {
    const { competition } = this.#parts;
    const { metadata, smallFile } = served;
    const metadataBytes = Math.max(metadata.servedBytes, competition.metadataAloneBytes ?? 0);
    return {
      metadata: { ...metadata, servedBytes: metadataBytes },
      smallFile: { ...smallFile, servedBytes: competition.smallFilesAlone(smallFile) },
    };
  }

  /** Eq. 4: small files have what metadata leaves and bears, and never less than their assured share. */
  #limitSmallFiles(): void {
    const { settings, scheduler, competition } = this.#parts;
    const metadataBytes = this.#decision?.forecast.metadataBytes ?? 0;
    const allowed = competition.allowedSmallFileBytes(metadataBytes);
    this.#roomBytes = allowed;
    scheduler.allow(allowed === undefined ? undefined : allowed / settings.intervalMs);
  }

  /** The store is too full: the largest rows beyond the threshold, which shrinks, go first. */
  #makeRoom(): void {
    const { settings, tiers } = this.#parts;
    if (this.#usedShare < settings.parameters.usedMark) return;
    const thresholdBytes = Math.floor(this.#state.thresholdBytes);
    for (const tier of tiers.tiers) {
      const beyond = tier.records.beyond(thresholdBytes, settings.movesPerSecond);
      for (const { name, size } of beyond) {
        this.#plan(tier, name, 'file', 'space', size, { usedShare: this.#usedShare });
      }
    }
  }

  /** Section 4.2.1: whoever asks for a file finds out whether it is still a small one. */
  #outgrown(tier: Tier, name: string, size: number): void {
    const { settings } = this.#parts;
    if (!settings.enabled || !settings.migrates || size <= this.#state.thresholdBytes) return;
    const moves = tier.records.find(name)?.moves ?? 0;
    if (size <= fileThreshold(this.#state.thresholdBytes, moves, settings.parameters)) return;
    this.#plan(tier, name, 'file', 'threshold', size, { moves });
  }

  #plan(
    tier: Tier,
    name: string,
    to: PlannedMove['to'],
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
    const where = typeof to === 'string' ? to : `${to.group} ${to.id}`;
    this.#parts.audit.write({ at, name, to: where, reason, size, ...numbers, outcome });
  }
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
