import { activeTest, type DiskUsage, encodeStatistics, reportServerId } from '@stevedore/protocol';
import { deferred } from '../deferred.js';
import { nowSeconds } from '../environment.js';
import { type ConnectionEnds, FrameServer } from '../net/frame-server.js';
import { control, type Handler, handlerTable } from '../net/handler.js';
import { ChangingFiles } from './changing-files.js';
import { StorageCounters } from './counters.js';
import { DirectoryRotation } from './directory-rotation.js';
import { FileStore } from './file-store.js';
import { appenderHandlers } from './handlers/appender.js';
import { deleteHandler } from './handlers/delete.js';
import { downloadHandler } from './handlers/download.js';
import { metadataHandlers } from './handlers/metadata.js';
import { queryInfoHandler } from './handlers/query-info.js';
import { slaveHandlers } from './handlers/slave.js';
import { uploadHandlers } from './handlers/upload.js';
import { Identity } from './identity.js';
import { KeyedLock } from './keyed-lock.js';
import { dataDirectory } from './layout.js';
import { MetadataStore } from './metadata-store.js';
import { OpenFiles } from './open-files.js';
import { type StorageOptions, type StorageSettings, storageSettings } from './options.js';
import { StorageService } from './service.js';
import { Slices } from './slices.js';
import { StateFile, type StorageState } from './state-file.js';
import { StorePath } from './store-path.js';
import { type FirstSync, TrackerLink } from './tracker-link.js';

/** A running storage daemon. */
export interface Storage extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly group: string;
  /** Resolves once a tracker counts it as active, so that uploads are sent to it. */
  active(): Promise<void>;
  /** Stops listening, lets requests under way finish for a moment, closes everything. */
  close(): Promise<void>;
}

import { PROTOCOL_VERSION } from '../options.js';

const UPLOAD_PRIORITY = 10;
const MIB = 1024 * 1024;

/**
 * Starts a storage; resolves when it listens, whether or not a tracker is there
 * (see `active`). Rejects with StartError or OptionError.
 */
export async function startStorage(options: StorageOptions): Promise<Storage> {
  const settings = storageSettings(options);
  const { disk, environment, onError, host, group } = settings;
  const storePaths = settings.storePaths.map((path) => new StorePath(path, disk, environment));
  for (const storePath of storePaths) await storePath.prepare();

  const stateFile = new StateFile(disk, dataDirectory(storePaths[0]!.path), onError);
  const saved = await stateFile.load();
  const joinedAtSeconds = saved?.joinedAtSeconds ?? nowSeconds(environment);
  const state = (): StorageState => ({ joinedAtSeconds, ...rotation.state });
  const rotation = new DirectoryRotation(
    saved ?? { high: 0, low: 0, files: 0 },
    settings.subdirectoriesPerPath,
    settings.filesPerDirectory,
    () => void stateFile.save(state()),
  );
  const service = assemble(settings, storePaths, rotation);
  const counters = new StorageCounters(() => nowSeconds(environment));
  const server = new FrameServer<undefined>({
    role: 'storage',
    host,
    port: settings.port,
    limits: settings.limits,
    handlers: handlerTable(
      [
        control(activeTest, () => undefined),
        control(reportServerId, () => undefined),
        ...uploadHandlers(service),
        ...appenderHandlers(service),
        ...slaveHandlers(service),
        ...metadataHandlers(service),
        downloadHandler(service),
        queryInfoHandler(service),
        deleteHandler(service),
      ].map((handler: Handler<undefined>) => counters.counted(handler)),
    ),
    closesAfterInvalid: true,
    onError,
    openSession: (_: ConnectionEnds) => undefined,
    closeSession: () => {},
  });
  await server.listen();
  await stateFile.save(state());

  const { port } = server;
  const membership = join(service, port, {
    firstSync: { done: saved !== undefined },
    joinedAtSeconds,
    statistics: () => encodeStatistics(counters.statistics(server.counts)),
  });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= (async () => {
      await membership.close();
      await server.close();
      service.files.close();
      await stateFile.save(state());
    })();
    return closed;
  };
  return {
    host,
    port,
    group,
    active: () => membership.active,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function assemble(
  settings: StorageSettings,
  storePaths: readonly StorePath[],
  rotation: DirectoryRotation,
): StorageService {
  const { disk, environment, group, onError } = settings;
  const files = new OpenFiles(disk, settings.maxIdleFiles, onError);
  const locks = new KeyedLock();
  const store = new FileStore({
    group,
    disk,
    environment,
    storePaths,
    rotation,
    files,
    locks,
    onError,
  });
  const temporaryFile = (path: string): string => store.temporaryFile(path);
  return new StorageService({
    settings,
    identity: new Identity(settings.address, settings.host),
    storePaths,
    files,
    store,
    changing: new ChangingFiles({ disk, files, environment, locks, temporaryFile, onError }),
    metadata: new MetadataStore(disk, locks, temporaryFile),
    slices: new Slices(disk, files, settings, environment, onError),
  });
}

/** Joins every tracker and stays joined. */
function join(
  service: StorageService,
  port: number,
  about: {
    readonly firstSync: FirstSync;
    readonly joinedAtSeconds: number;
    readonly statistics: () => Buffer;
  },
): { readonly active: Promise<void>; close(): Promise<void> } {
  const { settings, identity, storePaths } = service;
  const active = deferred<void>();
  const usage = (): Promise<DiskUsage[]> =>
    Promise.all(
      storePaths.map(async (path) => {
        const { totalBytes, freeBytes } = await path.space();
        return {
          totalMegabytes: Math.floor(totalBytes / MIB),
          freeMegabytes: Math.floor(freeBytes / MIB),
        };
      }),
    );
  const links = settings.trackers.map(
    (tracker) =>
      new TrackerLink({
        tracker,
        host: settings.host,
        port,
        identity,
        timeoutMs: settings.limits.requestTimeoutMs,
        beatIntervalMs: settings.beatIntervalMs,
        diskReportIntervalMs: settings.diskReportIntervalMs,
        reconnectDelayMs: settings.reconnectDelayMs,
        joinRequest: {
          group: settings.group,
          port,
          storePathCount: storePaths.length,
          subdirectoriesPerPath: settings.subdirectoriesPerPath,
          uploadPriority: UPLOAD_PRIORITY,
          joinedAtSeconds: about.joinedAtSeconds,
          startedAtSeconds: nowSeconds(settings.environment),
          version: PROTOCOL_VERSION,
          trackers: settings.trackers.map((each) => `${each.host}:${each.port}`),
        },
        firstSync: about.firstSync,
        statistics: about.statistics,
        usage,
        onActive: active.resolve,
        onError: settings.onError,
      }),
  );
  return {
    active: active.promise,
    close: async () => {
      await Promise.all(links.map((link) => link.close()));
    },
  };
}
