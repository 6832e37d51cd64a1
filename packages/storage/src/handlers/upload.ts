import { removeIfThere } from '@stevedore/disk';
import {
  ANY_STORE_PATH,
  deleteFile,
  type FileId,
  isExtension,
  isTrunkId,
  parseFileName,
  parseSliceId,
  slaveName,
  type UploadRequest,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { asError, control, type Handler, type Payload, receiving } from '@stevedore/wire';
import type { NewKind } from '../files/file-names.js';
import { isReservedName, METADATA_SUFFIX } from '../layout.js';
import { invalid, notFound } from '../refusals.js';
import type { Change } from '../replication/journal.js';
import { hasFile, requestedFile, type StorageService } from '../service.js';

/** UPLOAD_FILE, UPLOAD_APPENDER_FILE: answered once the file is durable under its name. */
export function uploadHandlers<Session>(service: StorageService): Handler<Session>[] {
  const { identity, store, storePaths } = service;
  const upload =
    (kind: NewKind) =>
    async ({ storePathIndex: asked, size, extension }: UploadRequest, payload: Payload) => {
      checkExtension(extension);
      const source = identity.source();
      return storePaths.holding(size, asked, (_, storePathIndex) =>
        created(service, (change) =>
          store.store({ kind, storePathIndex, extension, source }, payload, change),
        ),
      );
    };
  return [
    receiving(uploadFile, upload('normal')),
    receiving(uploadAppenderFile, upload('appender')),
  ];
}

export interface TakeOptions {
  readonly bytes: number;
  readonly extension: string;
  /** Bytes of the disk that stay free. */
  readonly spareBytes: number;
  /** Writes the file at this path, which is there and empty. */
  readonly write: (path: string) => Promise<void>;
}

/** As UPLOAD_FILE, of a file that this process writes to the storage's own disk. */
export function takeFile(
  service: StorageService,
  { bytes, extension, spareBytes, write }: TakeOptions,
): Promise<FileId> {
  checkExtension(extension);
  const { identity, store, storePaths, settings } = service;
  const source = identity.source();
  return storePaths.holding(bytes + spareBytes, ANY_STORE_PATH, async (storePath, index) => {
    const temporary = storePath.temporaryFile();
    try {
      await (await settings.disk.create(temporary)).close();
      await write(temporary);
      const file = { kind: 'normal' as const, storePathIndex: index, extension, source };
      return await created(service, (change) => store.take(file, temporary, bytes, change));
    } catch (error) {
      await removeIfThere(settings.disk, temporary).catch(() => {});
      throw error;
    }
  });
}

/**
 * Makes a new file. One that too few members got is removed again; if that fails, it stays as an
 * orphan.
 */
function created(
  service: StorageService,
  make: (change: Change) => Promise<FileId>,
): Promise<FileId> {
  return service.replication.run('new', make, (id, change) =>
    service.store
      .remove(id, change)
      .catch((error: unknown) => service.settings.onError(asError(error))),
  );
}

/** Status 22 for an extension that no file may have. */
function checkExtension(extension: string): void {
  if (!isExtension(extension) || extension.endsWith(METADATA_SUFFIX)) {
    throw invalid('a malformed extension');
  }
}

/** Removes a file, trunk or slice; status 2 if there is none. `keep`: as in `FileStore.remove`. */
export function removeFile(
  service: StorageService,
  id: FileId,
  change: Change,
  keep?: (path: string) => Promise<boolean>,
): Promise<void> {
  const { store, slices } = service;
  const slice = parseSliceId(id);
  if (slice) return slices.delete(id.name, slice, store.pathOf(slice.trunk), change);
  if (!isTrunkId(id)) return store.remove(id, change, keep);
  return slices.deleteTrunk(store.pathOf(id), () => store.remove(id, change));
}

/** DELETE_FILE: a file, a trunk with its list of deleted slices, or one slice. */
export function deleteHandler<Session>(service: StorageService): Handler<Session> {
  const { replication } = service;
  return control(deleteFile, async (request) => {
    const id = requestedFile(service, request);
    await replication.run('gone', (change) => removeFile(service, id, change));
    return undefined;
  });
}

/** UPLOAD_SLAVE_FILE: a file that depends on another one. */
export function slaveHandler<Session>(service: StorageService): Handler<Session> {
  const { store, settings, storePaths, replication } = service;
  const { group } = settings;

  /** Derives a slave's name; status 22 if it is impossible, 2 if there is no master. */
  const slaveOf = async (master: string, prefix: string, extension: string): Promise<FileId> => {
    if (prefix === '') throw invalid('a slave needs a prefix');
    if (!isPrefix(prefix)) throw invalid('a malformed prefix');
    checkExtension(extension);
    const masterId = requestedFile(service, { group, name: master });
    const id = parseFileName(group, slaveName(masterId.name, prefix, extension));
    // Such a name would look like one of the storage's own files or like a slice.
    if (!id || isReservedName(id.base) || parseSliceId(id)) {
      throw invalid('a slave cannot have such a name');
    }
    if (!(await hasFile(service, masterId))) throw notFound(master);
    return id;
  };

  return receiving(uploadSlaveFile, async ({ master, prefix, extension, size }, payload) => {
    const id = await slaveOf(master, prefix, extension);
    return storePaths.holding(size, id.storePathIndex, () => {
      const after = replication.tombstones.at(id.name) ?? 0;
      return created(service, (change) => store.storeAs(id, payload, change, after));
    });
  });
}

/** True for at most three extensions in a row: the same characters, but longer. */
function isPrefix(prefix: string): boolean {
  return (
    isExtension(prefix.slice(0, 6)) &&
    isExtension(prefix.slice(6, 12)) &&
    isExtension(prefix.slice(12))
  );
}
