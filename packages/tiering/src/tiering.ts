import { type Costs, costOf } from '@stevedore/balance';
import { FastdfsClient } from '@stevedore/fastdfs';
import { OptionError } from '@stevedore/options';
import { isTrunkId, Status, StorageStatus } from '@stevedore/protocol';
import {
  type BackendDownload,
  dataDirectory,
  type FileBackend,
  type StorageBackend,
  type StorageSession,
  type StorageSettings,
} from '@stevedore/storage';
import {
  type Address,
  asError,
  type Handler,
  makeAddress,
  nowSeconds,
  type Reply,
  StatusError,
} from '@stevedore/wire';
import { migrationHandler, scheduled } from './handlers.js';
import { Migration } from './migration/migration.js';
import { Audit } from './migration/moves.js';
import { OtherRooms, OwnRoom, roomHandler } from './migration/rooms.js';
import type { MigrationStatus } from './migration/status.js';
import { Upkeep } from './migration/upkeep.js';
import { openCosts } from './scheduler/costs.js';
import { Scheduler } from './scheduler/scheduler.js';
import { type TierOptions, type TierSettings, tierSettings } from './tier-options.js';
import { Place } from './tiers/record-rows.js';
import { FastdfsRemoteFiles } from './tiers/remote-files.js';
import { TieredFiles } from './tiers/tiered-files.js';
import { Tiers } from './tiers/tiers.js';

/**
 * The metadata tiers of a storage with all that belongs to them: files of which the small ones
 * are rows, and handlers that take their turn.
 */

const CONNECT_TIMEOUT_MS = 2000;
const IDLE_TIMEOUT_MS = 10_000;

interface TieringParts {
  readonly settings: TierSettings;
  readonly tiers: Tiers;
  readonly files: TieredFiles;
  readonly scheduler: Scheduler;
  readonly costs: Costs;
  readonly migration: Migration;
  readonly ownRoom: OwnRoom;
  readonly otherGroups: OtherGroups | undefined;
  readonly upkeep: Upkeep | undefined;
}

export class Tiering implements StorageBackend {
  readonly #parts: TieringParts;

  private constructor(parts: TieringParts) {
    this.#parts = parts;
  }

  /** Rejects with OptionError or StartError. */
  static async open(given: StorageSettings, options: TierOptions): Promise<Tiering> {
    const settings = tierSettings(options, given.group);
    const otherGroups = openOtherGroups(given, settings);
    try {
      return new Tiering(await openWith(given, settings, otherGroups));
    } catch (error) {
      await otherGroups?.close();
      throw error;
    }
  }

  get files(): FileBackend {
    return this.#parts.files;
  }

  status(): MigrationStatus {
    return this.#parts.migration.status();
  }

  /** The storage's handlers, each in its turn, and those of migration itself. */
  handlers(handlers: readonly Handler<StorageSession>[]): Handler<StorageSession>[] {
    const { scheduler, costs, migration, ownRoom } = this.#parts;
    return [
      ...handlers.map((each) => scheduled(each, scheduler, costs, () => this.#maxSmallBytes)),
      migrationHandler(migration),
      roomHandler(ownRoom),
    ];
  }

  /**
   * Reads little in its turn, and what is in memory, in another group or large at once. A client
   * that asks for the place of bytes in another group reads there; for any other one, this storage
   * fetches them.
   */
  async download(download: BackendDownload, read: () => Promise<Reply>): Promise<Reply> {
    const { tiers, migration, scheduler, costs } = this.#parts;
    const { id, path, size, length, isInMemory, isPlaceWanted } = download;
    if (isInMemory) {
      // No load, but asked for.
      if (size !== undefined) migration.accessed(path, 0, size, false);
      return read();
    }
    const record = tiers.placeOf(path);
    if (record?.place === Place.remote) {
      const remote = isPlaceWanted && size !== undefined ? tiers.remoteIdOf(path) : undefined;
      // A file that may change is read here.
      if (remote !== undefined) throw new StatusError(Status.redirect, remote, Buffer.from(remote));
      return read();
    }
    // A small part of a trunk is most often a slice of it, as a gateway asks for one.
    let bytes = isTrunkId(id) && length > 0 ? length : size;
    if (record?.place === Place.row) {
      bytes = record.size;
      migration.accessed(path, costOf(costs, 'read', bytes), bytes, false);
    } else if (bytes === undefined || bytes > this.#maxSmallBytes) {
      return read();
    }
    return scheduler.run('smallFile', costOf(costs, 'read', bytes), read);
  }

  start(forget: (path: string) => void): void {
    const { tiers, migration, upkeep } = this.#parts;
    for (const tier of tiers.all) tier.onMoved(forget);
    migration.start();
    upkeep?.start();
  }

  async close(): Promise<void> {
    const { migration, upkeep, otherGroups, tiers } = this.#parts;
    // Moves and reads that wait for another group end now.
    await otherGroups?.close();
    await upkeep?.close();
    await migration.close();
    await tiers.close();
  }

  /**
   * The largest file that takes its turn: where the threshold has shrunk, files that were
   * small before are in the way of metadata as they were.
   */
  get #maxSmallBytes(): number {
    const { settings, tiers } = this.#parts;
    return Math.max(settings.thresholdBytes, tiers.thresholdBytes);
  }
}

async function openWith(
  given: StorageSettings,
  settings: TierSettings,
  otherGroups: OtherGroups | undefined,
): Promise<TieringParts> {
  const { disk, environment, storePaths } = given;
  const now = (): number => environment.now();
  const onError = (error: unknown): void => given.onError(asError(error));
  const remote = otherGroups?.remote;
  const { intervalMs, graceMs, bytesPerSecond } = settings;
  const clock = (): number => environment.uptimeMs();
  const tiers = await Tiers.open({ disk, environment, storePaths, remote }, settings);
  const directory = dataDirectory(storePaths[0]);
  const costs = await openCosts(disk, directory, clock, bytesPerSecond).catch(
    async (error: unknown) => {
      await tiers.close();
      throw error;
    },
  );
  const scheduler = new Scheduler({ ...settings, now: clock });
  const upkeep = remote && new Upkeep({ tiers: tiers.all, remote, graceMs, now, onError });
  const ownRoom = new OwnRoom();
  const migration = new Migration({
    settings,
    tiers,
    scheduler,
    audit: new Audit(disk, directory, onError),
    costs,
    ownRoom,
    findRoom: async (bytes) => otherGroups?.rooms.find(bytes, intervalMs),
    orphans: () => upkeep?.orphans ?? 0,
    now,
    onError,
  });
  const files = new TieredFiles({
    disk,
    tiers,
    nowSeconds: () => nowSeconds(environment),
    onAccess: (path, bytes, size, isNew) =>
      migration.accessed(path, costOf(costs, 'write', bytes), size, isNew),
    onCut: (tier, name, size) => migration.cut(tier, name, size),
    onGrown: (tier, name, size) => migration.grown(tier, name, size),
  });
  return { settings, tiers, files, scheduler, costs, migration, ownRoom, otherGroups, upkeep };
}

/** Other groups, through the trackers that the storage joins. */
interface OtherGroups {
  readonly remote: FastdfsRemoteFiles;
  readonly rooms: OtherRooms;
  close(): Promise<void>;
}

function openOtherGroups(
  { trackers, access }: StorageSettings,
  { moveTo, shareWith }: TierSettings,
): OtherGroups | undefined {
  if (trackers.length === 0) {
    if (moveTo === undefined && shareWith.length === 0) return undefined;
    throw new OptionError(
      'files move to another storage group through trackers, and there are none',
    );
  }
  const client = new FastdfsClient({
    trackers: trackers.map(({ text }) => text),
    secret: access.secret,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
  });
  const storagesOf = async (group: string): Promise<Address[]> =>
    (await client.listStorages(group))
      .filter(({ status }) => status === StorageStatus.active)
      .map(({ address, storagePort }) => makeAddress(address, storagePort))
      .filter((address) => address !== undefined);
  const rooms = new OtherRooms({ groups: shareWith, storagesOf, access });
  return {
    remote: new FastdfsRemoteFiles(client),
    rooms,
    close: async () => {
      rooms.close();
      await client.close();
    },
  };
}
