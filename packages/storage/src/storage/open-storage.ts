import { sep } from 'node:path';
import { activeTest } from '@stevedore/protocol';
import { asError, control, type Handler, handlerTable } from '@stevedore/wire';
import { nowSeconds } from '../environment.js';
import type { Tiering } from '../migration/tiering.js';
import { type OpenedLog, openLog } from '../replication/open-log.js';
import { pathListHandler } from '../replication/path-list.js';
import { receivingHandlers } from '../replication/receiving.js';
import { openReplication, type Replication } from '../replication/replication.js';
import type { StorageSession } from '../replication/session.js';
import type { SliceRows } from '../tiers/slice-rows.js';
import { ChangeJournals, FileLocks } from './change-journals.js';
import { ChangingFiles } from './changing-files.js';
import { StorageCounters } from './counters.js';
import { DirectoryRotation } from './directory-rotation.js';
import { forgetPath, storageCache } from './file-cache.js';
import { FileStore } from './file-store.js';
import type { FirstSync } from './first-sync.js';
import { appenderHandlers } from './handlers/appender.js';
import { deleteHandler } from './handlers/delete.js';
import { downloadHandler } from './handlers/download.js';
import { metadataHandlers } from './handlers/metadata.js';
import { queryInfoHandler } from './handlers/query-info.js';
import { slaveHandlers } from './handlers/slave.js';
import { uploadHandlers } from './handlers/upload.js';
import { Identity } from './identity.js';
import { dataDirectory, hasRecords, logDirectory } from './layout.js';
import { MetadataStore } from './metadata-store.js';
import { OpenFiles } from './open-files.js';
import type { StorageSettings } from './options.js';
import { StorageService } from './service.js';
import { SharedSyncs } from './shared-syncs.js';
import { SliceReader } from './slice-reader.js';
import { Slices } from './slices.js';
import { SmallFiles } from './small-files.js';
import { StateFile, type StorageState } from './state-file.js';
import { StorePath } from './store-path.js';

/**
 * A storage without its sockets: store paths that are ready, what it remembers of
 * earlier starts, and a handler for each command. All that a disk can do to a
 * storage it does to this.
 */
export interface OpenedStorage {
  readonly service: StorageService;
  readonly handlers: ReadonlyMap<number, Handler<StorageSession>>;
  readonly counters: StorageCounters;
  /** First start of this storage. */
  readonly joinedAtSeconds: number;
  /** Not done where nothing was there of an earlier start, or some of it has been lost. */
  readonly firstSync: FirstSync;
  /** Where small files are rows. */
  readonly tiering: Tiering | undefined;
  saveState(): Promise<void>;
  /** To be called when no request is under way any more. */
  close(): Promise<void>;
}

/** Rejects with StartError where a store path cannot be used. */
export async function openStorage(given: StorageSettings): Promise<OpenedStorage> {
  const tiering = await openTiering(given);
  try {
    return await openOn(tiering?.settings ?? given, tiering);
  } catch (error) {
    await tiering?.close();
    throw error;
  }
}

/** Undefined if there is no metadata tier, and no records of earlier starts. */
async function openTiering(given: StorageSettings): Promise<Tiering | undefined> {
  const { disk, storePaths, tiers } = given;
  const have = await Promise.all(storePaths.map((path) => hasRecords(disk, path)));
  if (!tiers.enabled && !have.includes(true)) return undefined;
  const { Tiering } = await import('../migration/tiering.js');
  return Tiering.open(given);
}

async function openOn(
  settings: StorageSettings,
  tiering: Tiering | undefined,
): Promise<OpenedStorage> {
  const { disk, environment, onError } = settings;
  const storePaths = settings.storePaths.map(
    (path) => new StorePath(path, disk, environment, (file) => tiering?.isWhole(file) ?? false),
  );
  const stateFile = new StateFile(disk, dataDirectory(storePaths[0]!.path), onError);
  const closePaths = async (): Promise<void> => {
    await Promise.all(storePaths.map((storePath) => storePath.close()));
  };
  let saved: StorageState | undefined;
  let opened: OpenedLog;
  let replication: Replication;
  try {
    for (const storePath of storePaths) await storePath.prepare();
    saved = await stateFile.load();
    opened = await openLog(settings, storePaths);
    const directory = logDirectory(storePaths[0]!.path);
    replication = await openReplication(opened, directory, settings);
  } catch (error) {
    await closePaths().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
  const joinedAtSeconds = saved?.joinedAtSeconds ?? nowSeconds(environment);
  let complete = (saved?.complete ?? false) && !opened.lostFiles;
  const state = (): StorageState => ({ joinedAtSeconds, complete, ...rotation.state });
  const rotation = new DirectoryRotation(
    saved ?? { high: 0, low: 0, files: 0 },
    settings.subdirectoriesPerPath,
    settings.filesPerDirectory,
    () => void stateFile.save(state()),
  );
  const counters = new StorageCounters(() => nowSeconds(environment));
  const syncs = new SharedSyncs((path) => disk.syncDirectory(path));
  const shared = { ...counters.counting(disk), syncDirectory: (path: string) => syncs.sync(path) };
  const counted = { ...settings, disk: shared };
  const service = assemble(counted, storePaths, rotation, replication, tiering?.sliceRows);
  const plain = handlersOf(service);
  const handlers = tiering ? tiering.handlers(service, plain) : plain;
  tiering?.start();
  return {
    service,
    handlers: handlerTable(
      handlers.map((handler: Handler<StorageSession>) => counters.counted(handler)),
    ),
    counters,
    joinedAtSeconds,
    firstSync: {
      get done() {
        return complete;
      },
      finish: () => {
        if (complete) return;
        complete = true;
        void stateFile.save(state());
      },
    },
    tiering,
    saveState: () => stateFile.save(state()),
    close: async () => {
      service.files.close();
      await replication.close();
      await stateFile.save(state());
      await closePaths();
      await tiering?.close();
    },
  };
}

function handlersOf(service: StorageService): Handler<StorageSession>[] {
  return [
    control(activeTest, () => undefined),
    ...uploadHandlers(service),
    ...appenderHandlers(service),
    ...slaveHandlers(service),
    ...metadataHandlers(service),
    downloadHandler(service),
    queryInfoHandler(service),
    deleteHandler(service),
    pathListHandler(service),
    ...receivingHandlers(service),
  ];
}

function assemble(
  settings: StorageSettings,
  storePaths: readonly StorePath[],
  rotation: DirectoryRotation,
  replication: Replication,
  rows: SliceRows | undefined,
): StorageService {
  const { disk, environment, group, onError, readAheadBytes } = settings;
  const cache = storageCache(settings);
  const files = new OpenFiles(disk, settings.maxIdleFiles, onError, (path) =>
    forgetPath(cache, path),
  );
  const journals = new ChangeJournals(storePaths);
  const locks = new FileLocks(journals);
  const store = new FileStore({
    group,
    disk,
    environment,
    storePaths,
    rotation,
    files,
    locks,
    journals,
    onError,
  });
  const changing = new ChangingFiles({
    disk,
    files,
    locks,
    journals,
    temporaryFile: (path) => store.temporaryFile(path),
    onError,
  });
  const slices = new Slices(disk, files, settings, onError, cache, rows);
  const hasRoom = async (path: string, bytes: number): Promise<boolean> => {
    const storePath = storePaths.find((each) => path.startsWith(dataDirectory(each.path) + sep))!;
    const { freeBytes } = await storePath.space();
    return freeBytes - bytes >= settings.reservedSpaceMegabytes * 1024 * 1024;
  };
  const sliceReader = new SliceReader({ slices, cache, readAheadBytes, rows, hasRoom, onError });
  const temporaryFile = (path: string): string => store.temporaryFile(path);
  return new StorageService({
    settings,
    identity: new Identity(settings.address, settings.host),
    storePaths,
    files,
    store,
    changing,
    replication,
    metadata: new MetadataStore(disk, locks, temporaryFile),
    slices,
    cache,
    locks,
    small: new SmallFiles({ cache, store, files, changing, slices: sliceReader }),
  });
}
