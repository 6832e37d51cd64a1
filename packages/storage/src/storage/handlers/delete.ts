import { deleteFile, isTrunkId, parseSliceId } from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { StorageService } from '../service.js';

/** DELETE_FILE: a file, a trunk with all that is known of its slices, or one slice. */
export function deleteHandler<Session>(service: StorageService): Handler<Session> {
  const { store, slices } = service;
  return control(deleteFile, async (request) => {
    const id = service.requested(request);
    const slice = parseSliceId(id);
    if (slice) await slices.delete(slice, store.pathOf(slice.trunk));
    else if (isTrunkId(id))
      await slices.deleteTrunk(store.pathOf(id), (path) => store.remove(path));
    else await store.remove(store.pathOf(id));
    return undefined;
  });
}
