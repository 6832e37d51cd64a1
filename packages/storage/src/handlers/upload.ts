import {
  deleteFile,
  type FileId,
  isExtension,
  isTrunkId,
  parseSliceId,
  Status,
  type UploadRequest,
  uploadAppenderFile,
  uploadFile,
} from '@stevedore/protocol';
import {
  asError,
  control,
  type Handler,
  type Payload,
  receiving,
  StatusError,
} from '@stevedore/wire';
import type { NewKind } from '../files/file-names.js';
import { METADATA_SUFFIX } from '../layout.js';
import type { Change } from '../replication/journal.js';
import { requestedFile, type StorageService } from '../service.js';

/** UPLOAD_FILE, UPLOAD_APPENDER_FILE: answered once the file is durable under its name. */
export function uploadHandlers<Session>(service: StorageService): Handler<Session>[] {
  const upload =
    (kind: NewKind) =>
    async ({ storePathIndex, size, extension }: UploadRequest, payload: Payload) => {
      checkExtension(extension);
      const source = service.identity.source();
      const { index, storePath } = await service.storePaths.roomFor(size, storePathIndex);
      const done = storePath.announce(size);
      try {
        const file = { kind, storePathIndex: index, extension, source };
        const { group, name } = await service.replication.run(
          'new',
          (change) => service.store.store(file, payload, change),
          (id, change) => forget(service, id, change),
        );
        return { group, name };
      } finally {
        done();
      }
    };
  return [
    receiving(uploadFile, upload('normal')),
    receiving(uploadAppenderFile, upload('appender')),
  ];
}

/** Removes a file that too few members have got; what remains of it is an orphan. */
export async function forget(service: StorageService, id: FileId, change: Change): Promise<void> {
  try {
    await service.store.remove(id, change);
  } catch (error) {
    service.settings.onError(asError(error));
  }
}

/** Status 22 for an extension that no file may have. */
export function checkExtension(extension: string): void {
  if (!isExtension(extension) || extension.endsWith(METADATA_SUFFIX)) {
    throw new StatusError(Status.invalid, 'a malformed extension');
  }
}

/** Removes what a name stands for; status 2 if it is not there. `keep`: as in `FileStore.remove`. */
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

/** DELETE_FILE: a file, a trunk with all that is known of its slices, or one slice. */
export function deleteHandler<Session>(service: StorageService): Handler<Session> {
  const { replication } = service;
  return control(deleteFile, async (request) => {
    const id = requestedFile(service, request);
    await replication.run('gone', (change) => removeFile(service, id, change));
    return undefined;
  });
}
