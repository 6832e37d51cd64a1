import type { Disk } from '@stevedore/disk';
import { activeTest, type FileId } from '@stevedore/protocol';
import { asError, control, type Handler, handlerTable, nowSeconds } from '@stevedore/wire';
import { StorageCounters } from './counters.js';
import { forgetPath, storageCache } from './files/caches.js';
import { ChangingFiles } from './files/changing-files.js';
import type { FileBackend } from './files/file-backend.js';
import { FileStore } from './files/file-store.js';
import { filesOnDisk, SharedSyncs } from './files/files-on-disk.js';
import { MetadataStore } from './files/metadata-store.js';
import { OpenFiles } from './files/open-files.js';
import { SmallFiles } from './files/small-files.js';
import { FileLocks, type FileParts, StorePath, StorePaths } from './files/store-paths.js';
import { appenderHandlers } from './handlers/appender.js';
import { type DownloadBackend, downloadHandler } from './handlers/download.js';
import { metadataHandlers, queryInfoHandler } from './handlers/metadata.js';
import {
  deleteHandler,
  slaveHandler,
  type TakeOptions,
  takeFile,
  uploadHandlers,
} from './handlers/upload.js';
import { Identity } from './identity.js';
import { dataDirectory, logDirectory } from './layout.js';
import type { StorageSession } from './replication/members.js';
import { type OpenedLog, openLog } from './replication/open-log.js';
import { pathListHandler } from './replication/path-list.js';
import { receivingHandlers } from './replication/receiving.js';
import { openReplication, type Replication } from './replication/replication.js';
import type { StorageService } from './service.js';
import { SliceReader } from './slices/slice-reader.js';
import { Slices } from './slices/slices.js';
import {
  DirectoryRotation,
  type FirstCopyState,
  StateFile,
  type StorageState,
} from './state-file.js';
import type { StorageSettings } from './storage-options.js';

/** A file backend and what it adds to a storage. */
export interface StorageBackend extends DownloadBackend {
  readonly files: FileBackend;
  /** Returns the storage's handlers, adapted to this backend, and the backend's own. */
  handlers(handlers: readonly Handler<StorageSession>[]): Handler<StorageSession>[];
  /** From now on the backend may move content, and calls `forget` with its path. */
  start(forget: (path: string) => void): void;
  /** Call it when no request is in flight. */
  close(): Promise<void>;
}

/**
 * A storage without its sockets: store paths, the state of earlier starts, and a handler for
 * each command. Everything that touches the disk is in here.
 */
export interface OpenedStorage {
  readonly service: StorageService;
  readonly handlers: ReadonlyMap<number, Handler<StorageSession>>;
  readonly counters: StorageCounters;
  /** First start of this storage. */
  readonly joinedAtSeconds: number;
  /** Not done in a new storage, or in one that has lost files. */
  readonly firstCopy: FirstCopyState;
  /** Stores a file that this process writes; resolves with its name once it is durable. */
  take(options: TakeOptions): Promise<FileId>;
  saveState(): Promise<void>;
  /** Call it when no request is in flight. */
  close(): Promise<void>;
}

/**
 * Closes the backend with the storage, or if opening fails. Without a backend, all files are
 * on the disk. Rejects with StartError if a store path is unusable.
 */
export async function openStorage(
  settings: StorageSettings,
  backend?: StorageBackend,
): Promise<OpenedStorage> {
  try {
    return await openOn(settings, backend);
  } catch (error) {
    await backend?.close();
    throw error;
  }
}

async function openOn(
  settings: StorageSettings,
  backend: StorageBackend | undefined,
): Promise<OpenedStorage> {
  const { disk, environment, onError } = settings;
  const storePaths = new StorePaths(
    settings.storePaths.map((path) => new StorePath(path, disk, environment)),
  );
  const onDisk = (each: Disk): FileBackend =>
    backend?.files ?? filesOnDisk(each, (path) => storePaths.of(path).temporaryFile());
  const files = onDisk(disk);
  const stateFile = new StateFile(disk, dataDirectory(storePaths.at(0).path), onError);
  let saved: StorageState | undefined;
  let opened: OpenedLog;
  let replication: Replication;
  try {
    for (const storePath of storePaths.all) await storePath.prepare(files);
    saved = await stateFile.load();
    opened = await openLog(settings, storePaths.all, files);
    const directory = logDirectory(storePaths.at(0).path);
    replication = await openReplication(opened, directory, settings);
  } catch (error) {
    await storePaths.close().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
  const joinedAtSeconds = saved?.joinedAtSeconds ?? nowSeconds(environment);
  let complete = (saved?.complete ?? false) && !opened.lostFiles;
  const state = (): StorageState => ({ joinedAtSeconds, complete, ...rotation.state });
  const rotation = new DirectoryRotation(
    saved ?? { high: 0, low: 0, files: 0 },
    settings.subdirectoriesPerPath,
    () => void stateFile.save(state()),
  );
  const counters = new StorageCounters(() => nowSeconds(environment));
  const syncs = new SharedSyncs((path) => disk.syncDirectory(path));
  const syncDirectory = (path: string): Promise<void> => syncs.sync(path);
  const shared = counters.counting(disk, { syncDirectory });
  const counted = { ...settings, disk: shared };
  const service = assemble(
    { settings: counted, backend: onDisk(shared), storePaths, rotation },
    replication,
  );
  const plain = handlersOf(service, backend);
  const handlers = backend ? backend.handlers(plain) : plain;
  backend?.start((path) => service.files.forget(path));
  return {
    service,
    handlers: handlerTable(
      handlers.map((handler: Handler<StorageSession>) => counters.counted(handler)),
    ),
    counters,
    joinedAtSeconds,
    firstCopy: {
      get done() {
        return complete;
      },
      finish: () => {
        if (complete) return;
        complete = true;
        void stateFile.save(state());
      },
    },
    take: (options) => counters.uploaded(options.bytes, () => takeFile(service, options)),
    saveState: () => stateFile.save(state()),
    close: async () => {
      service.files.close();
      await replication.close();
      await stateFile.save(state());
      await storePaths.close();
      await backend?.close();
    },
  };
}

function handlersOf(
  service: StorageService,
  backend: DownloadBackend | undefined,
): Handler<StorageSession>[] {
  return [
    control(activeTest, () => undefined),
    ...uploadHandlers(service),
    ...appenderHandlers(service),
    slaveHandler(service),
    ...metadataHandlers(service),
    downloadHandler(service, backend),
    queryInfoHandler(service),
    deleteHandler(service),
    pathListHandler(service),
    ...receivingHandlers(service),
  ];
}

function assemble(
  given: Pick<FileParts, 'settings' | 'backend' | 'storePaths' | 'rotation'>,
  replication: Replication,
): StorageService {
  const { settings, backend, storePaths } = given;
  const cache = storageCache(settings);
  const files = new OpenFiles(backend, settings.maxIdleFiles, settings.onError, (path) =>
    forgetPath(cache, path),
  );
  const locks = new FileLocks(storePaths);
  const parts = { ...given, files, locks };
  const store = new FileStore(parts);
  const changing = new ChangingFiles(parts);
  const slices = new Slices({ ...parts, cache });
  const sliceReader = new SliceReader({ ...parts, cache, slices });
  const readNow = (path: string, bytes: number) => backend.readNow?.(path, bytes);
  return {
    ...parts,
    identity: new Identity(settings.address, settings.host),
    store,
    changing,
    replication,
    metadata: new MetadataStore(backend, locks),
    slices,
    cache,
    small: new SmallFiles({ cache, store, files, changing, slices: sliceReader, readNow }),
  };
}
