import { deleteFile, type FileId, isTrunkId, parseSliceId } from '@stevedore/protocol';
import { control, type Handler } from '@stevedore/wire';
import type { Change } from '../replication/change.js';
import type { StorageService } from '../service.js';

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
    const id = service.requested(request);
    await replication.run('gone', (change) => removeFile(service, id, change));
    return undefined;
  });
}
