import {
  type FileId,
  type FileName,
  getMetadata,
  NORMAL_NAME_CHARS,
  parseSliceId,
  Status,
  setMetadata,
} from '@stevedore/protocol';
import { control, type Handler, StatusError } from '@stevedore/wire';
import type { StorageService } from '../service.js';

/**
 * SET_METADATA, GET_METADATA. Slices have none: they would lose it when their
 * trunk is written anew.
 */
export function metadataHandlers<Session>(service: StorageService): Handler<Session>[] {
  const described = (request: FileName): FileId => {
    const id = service.requested(request);
    if (parseSliceId(id)) throw new StatusError(Status.notFound, 'slices have no metadata');
    return id;
  };
  const pathOf = (id: FileId): string => service.store.pathOf(id);
  return [
    control(setMetadata, async (request) => {
      if (request.name.length < NORMAL_NAME_CHARS - 10) {
        throw new StatusError(Status.invalid, 'a name too short');
      }
      const id = described(request);
      const file = { path: pathOf(id), name: id.name };
      if (!(await service.backend.exists(file.path))) {
        throw new StatusError(Status.notFound, request.name);
      }
      await service.replication.run({ changed: id }, (change) =>
        service.metadata.set(file, request, change),
      );
      return undefined;
    }),
    control(getMetadata, (request) => service.metadata.get(pathOf(described(request)))),
  ];
}
