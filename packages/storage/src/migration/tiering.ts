import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileThreshold } from '@stevedore/balance';
import { CommandCode, downloadFile, type FileId, guestLease } from '@stevedore/protocol';
import { asError } from '../errors.js';
import { Departures } from '../guests/departures.js';
import { guestIdOf, withForwardedReads } from '../guests/forwarded-reads.js';
import { guestHandler } from '../guests/guest-handler.js';
import type { Guests } from '../guests/guests.js';
import type { Lending } from '../guests/lending.js';
import type { Neighbours } from '../guests/neighbours.js';
import { type GuestsPlaces, type OpenedGuests, openGuests } from '../guests/open-guests.js';
import { KnownServers } from '../io-tier/known-servers.js';
import { OnwardWrites } from '../io-tier/onward-writes.js';
import { ServerList } from '../io-tier/server-list.js';
import { control, type Handler } from '../net/handler.js';
import type { StorageSession } from '../replication/session.js';
import type { BusyMeter } from '../scheduler/alone-moments.js';
import { calibrate } from '../scheduler/calibration.js';
import { Competition } from '../scheduler/competition.js';
import { scheduled } from '../scheduler/scheduled-handlers.js';
import { Scheduler } from '../scheduler/scheduler.js';
import { onwardHandlers } from '../storage/handlers/onward.js';
import { dataDirectory } from '../storage/layout.js';
import type { StorageSettings } from '../storage/options.js';
import type { StorageService } from '../storage/service.js';
import { sizeOf } from '../storage/small-files.js';
import { Place } from '../tiers/constants.js';
import { type OpenedTiers, openTiers, type TierEvents } from '../tiers/open-tiers.js';
import type { FileRecord } from '../tiers/record-row.js';
import type { Tier } from '../tiers/tier.js';
import { Audit } from './audit.js';
import { Migration } from './migration.js';
import { migrationHandler } from './migration-handler.js';

/**
 * The two tiers of a storage with all that belongs to them, as the storage sees it: a
 * disk to work with, and handlers that take their turn.
 */

const CALIBRATION_FILE = '.stevedore-calibrating';

export class Tiering {
  readonly settings: StorageSettings;
  readonly #tiers: OpenedTiers;
  readonly #migration: Migration;
  readonly #scheduler: Scheduler;
  readonly #late: LateEvents;
  readonly #servers: KnownServers;
  readonly #list: ServerList;
  readonly #neighbours: Neighbours | undefined;
  readonly #departures: Departures | undefined;
  readonly #lending: Lending | undefined;
  readonly #onward: OnwardWrites;

  private constructor(
    given: StorageSettings,
    tiers: OpenedTiers,
    migration: Migration,
    scheduler: Scheduler,
    servers: KnownServers,
    onward: OnwardWrites,
    guests: OpenedGuests | undefined,
    late: LateEvents,
  ) {
    const { trackers, tiers: settings, limits } = given;
    this.#servers = servers;
    this.#onward = onward;
    this.#list = new ServerList({
      trackers,
      access: given.access,
      timeoutMs: limits.requestTimeoutMs,
      intervalMs: settings.ioListIntervalMs,
      onList: (list) => servers.learn(list),
    });
    const isHere = (path: string): boolean => !this.isWhole(path);
    const disk = settings.slowed?.(tiers.disk, isHere) ?? tiers.disk;
    this.settings = Object.freeze({ ...given, disk });
    this.#tiers = tiers;
    this.#migration = migration;
    this.#scheduler = scheduler;
    this.#late = late;
    this.#neighbours = guests?.neighbours;
    this.#lending = guests?.lending;
    this.#departures =
      guests &&
      new Departures({
        tiers: tiers.tiers,
        guests: guests.guests,
        graceMs: settings.guestGraceMs,
        intervalMs: settings.intervalMs,
      });
  }

  /** Undefined if the tiers are off and there are no records of earlier starts. */
  static async open(given: StorageSettings): Promise<Tiering | undefined> {
    const { environment, disk, tiers: settings } = given;
    const late: LateEvents = {
      migration: undefined,
      service: undefined,
      tiers: undefined,
      guests: undefined,
      port: undefined,
    };
    const guests = openGuests({
      settings: given,
      self: () => selfOf(given, late),
      tiers: () => late.tiers?.tiers ?? [],
      identity: () => late.service?.identity,
    });
    late.guests = guests?.guests;
    const servers = new KnownServers({
      access: given.access,
      maxConnectionsPerServer: settings.ioConnections,
      connectTimeoutMs: settings.ioConnectTimeoutMs,
      timeoutMs: settings.ioTimeoutMs,
      onLearned: (moved) => late.tiers?.tiers[0]?.records.setIoServers(moved),
    });
    const places = {
      disk,
      environment,
      storePaths: given.storePaths,
      servers,
      guests: guests?.guests,
    };
    const noGuests = async (): Promise<void> => {
      await guests?.lending.close();
      await guests?.neighbours.close();
    };
    let tiers: Awaited<ReturnType<typeof openTiers>>;
    try {
      tiers = await openTiers(places, settings, eventsOf(late, given));
    } catch (error) {
      await noGuests();
      throw error;
    }
    if (!tiers) {
      await noGuests();
      return undefined;
    }
    late.tiers = tiers;
    try {
      const data = dataDirectory(given.storePaths[0]!);
      const probe = join(data, CALIBRATION_FILE);
      const clock = (): number => performance.now();
      const { bytesPerSecond, accessBytes } =
        settings.bytesPerSecond > 0 ? settings : await calibrate(disk, data, probe, clock);
      const scheduler = new Scheduler({ ...settings, accessBytes, now: clock });
      const onError = (error: unknown): void => given.onError(asError(error));
      const onward = new OnwardWrites({
        servers,
        environment: environment,
        maxMs: settings.onwardMs,
        fileThresholdBytes: (moves) =>
          settings.enabled
            ? fileThreshold(tiers.thresholdBytes, moves, settings.parameters)
            : Number.POSITIVE_INFINITY,
      });
      const migration = new Migration({
        settings,
        tiers,
        scheduler,
        competition: new Competition({
          scheduler,
          intervalMs: settings.intervalMs,
          diskBytes: (bytesPerSecond * settings.intervalMs) / 1000,
          learns: settings.bytesPerSecond === 0,
          efficiencyMark: settings.parameters.efficiencyMark,
          smallFileShare: settings.smallFileShare,
          busyMeter,
          now: clock,
        }),
        audit: new Audit(disk, data, onError),
        bytesPerSecond,
        usedShare: () => usedShare(given),
        ioServers: () => servers.status(),
        neighbours: guests?.neighbours,
        forwarding: () => guests?.lending.status() ?? { given: 0, taken: 0, passedOn: 0 },
        writtenOnward: () => onward.written,
        now: () => environment.now(),
        onError,
      });
      late.migration = migration;
      return new Tiering(given, tiers, migration, scheduler, servers, onward, guests, late);
    } catch (error) {
      await tiers.close();
      await noGuests();
      throw error;
    }
  }

  get migration(): Migration {
    return this.#migration;
  }

  /** The storage's handlers, each in its turn, and those of migration itself. */
  handlers(
    service: StorageService,
    handlers: readonly Handler<StorageSession>[],
  ): Handler<StorageSession>[] {
    this.#late.service = service;
    const maxSmallBytes = (): number => this.#maxSmallBytes;
    const bytesOf = (code: number, body: Buffer): number | undefined =>
      code === CommandCode.downloadFile ? this.#downloaded(service, body) : body.length;
    const all = [...this.#withForwarded(service, handlers), ...this.#guestHandlers(service)];
    return [
      ...all.map((each) => scheduled(each, this.#scheduler, maxSmallBytes, bytesOf)),
      migrationHandler(this.#migration),
      ...onwardHandlers(service, this.#onward, (path) => this.#tierOf(path)),
    ];
  }

  start(): void {
    this.#migration.start();
    this.#departures?.start();
    this.#lending?.leases.start();
  }

  /** Trackers know this storage by its port, among other things. */
  listensOn(port: number): void {
    this.#late.port = port;
  }

  /** True for a file at other servers: its record is switched when all of a change is there. */
  isWhole(path: string): boolean {
    const place = this.#recordOf(path)?.place;
    return place === Place.servers || place === Place.guest;
  }

  #tierOf(path: string): Tier | undefined {
    return this.#tiers.tiers.find(({ data }) => path.startsWith(data));
  }

  async close(): Promise<void> {
    await this.#lending?.close();
    await this.#neighbours?.close();
    await this.#departures?.close();
    this.#onward.close();
    await this.#migration.close();
    await this.#list.close();
    // What waits for a server ends now; deletions under way are in the records.
    this.#servers.close();
    await this.#tiers.close();
  }

  /** As if the process had been killed. */
  abandon(): void {
    this.#onward.close();
    void this.#list.close();
    void this.#lending?.close();
    void this.#neighbours?.close();
    void this.#departures?.close();
    this.#servers.close();
    this.#tiers.abandon();
  }

  #guestHandlers(service: StorageService): Handler<StorageSession>[] {
    const lending = this.#lending;
    const guard = this.#neighbours?.guard;
    if (!guard || !lending) return [];
    return [
      guestHandler(service, guard, () => this.#tiers.thresholdBytes),
      control(guestLease, (request) => lending.leased.take(request)),
    ];
  }

  #withForwarded(
    service: StorageService,
    handlers: readonly Handler<StorageSession>[],
  ): readonly Handler<StorageSession>[] {
    const neighbours = this.#neighbours;
    if (!this.#lending || !neighbours) return handlers;
    const { leased, passOn } = this.#lending;
    const isKnownGroup = (group: string): boolean => neighbours.mayHave(group);
    return withForwardedReads(service, { leased, passOn, isKnownGroup }, handlers);
  }

  /**
   * The largest file that takes its turn: where the threshold has shrunk, files that were
   * small before are in the way of metadata as they were.
   */
  get #maxSmallBytes(): number {
    return Math.max(this.settings.tiers.thresholdBytes, this.#tiers.thresholdBytes);
  }

  #recordOf(path: string): FileRecord | undefined {
    const tier = this.#tiers.tiers.find(({ data }) => path.startsWith(data));
    return tier?.records.find(path.slice(tier.data.length));
  }

  /** The file that a download reads here, if that is one. */
  #requested(service: StorageService, body: Buffer): FileId | undefined {
    const request = downloadFile.request.decode(body);
    const { group } = service.settings;
    if (request.group === group) return service.requested(request);
    const leased = this.#lending?.leased.find(request.group, request.name);
    return leased && guestIdOf(group, leased);
  }

  /** What a download reads from the disk, if that is little. */
  #downloaded(service: StorageService, body: Buffer): number | undefined {
    try {
      const id = this.#requested(service, body);
      if (!id) return undefined;
      const path = service.store.pathOf(id);
      if (service.cache.has(path)) return undefined;
      const record = this.#recordOf(path);
      if (record?.place === Place.row) {
        this.#migration.accessed(path, record.size, record.size, false);
        return record.size;
      }
      // What other servers have goes through here all the same.
      const isElsewhere = record?.place === Place.servers || record?.place === Place.guest;
      const bytes = isElsewhere ? record.size : sizeOf(id);
      return bytes !== undefined && bytes <= this.#maxSmallBytes ? bytes : undefined;
    } catch {
      // The handler says what is wrong with the request.
      return undefined;
    }
  }
}

/** Undefined until a tracker has told, and the port is there. */
function selfOf(
  { group }: StorageSettings,
  { service, port }: LateEvents,
): ReturnType<GuestsPlaces['self']> {
  const id = service?.replication.members.ownId;
  return id === undefined || port === undefined ? undefined : { group, id, port };
}

/** What is there only once the storage has been put together. */
interface LateEvents {
  migration: Migration | undefined;
  service: StorageService | undefined;
  tiers: OpenedTiers | undefined;
  guests: Guests | undefined;
  port: number | undefined;
}

function eventsOf(late: LateEvents, { onError, tiers }: StorageSettings): TierEvents {
  const { onStep } = tiers;
  return {
    onError,
    onAccess: (path, bytes, size, isNew) => late.migration?.accessed(path, bytes, size, isNew),
    onCut: (tier, name, size) => late.migration?.cut(tier, name, size),
    onMoved: (path) => {
      late.service?.files.forget(path);
      late.guests?.offer(path);
    },
    ...(onStep && { onStep }),
  };
}

/** Of this thread. */
function busyMeter(): BusyMeter {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}

/** Of the fullest store path. */
async function usedShare({ disk, storePaths }: StorageSettings): Promise<number> {
  let most = 0;
  for (const path of storePaths) {
    const { totalBytes, freeBytes } = await disk.space(path);
    if (totalBytes > 0) most = Math.max(most, 1 - freeBytes / totalBytes);
  }
  return most;
}
