import {
  type FileName,
  getMetadata,
  NORMAL_NAME_CHARS,
  parseSliceId,
  Status,
  setMetadata,
} from '@stevedore/protocol';
import { StatusError } from '../../errors.js';
import { control, type Handler } from '../../net/handler.js';
import type { StorageService } from '../service.js';

/**
 * SET_METADATA, GET_METADATA. Slices have none: they would lose it when their
 * trunk is written anew.
 */
export function metadataHandlers<Session>(service: StorageService): Handler<Session>[] {
  const pathOf = (request: FileName): string => {
    const id = service.requested(request);
    if (parseSliceId(id)) throw new StatusError(Status.notFound, 'slices have no metadata');
    return service.store.pathOf(id);
  };
  return [
    control(setMetadata, async (request) => {
      if (request.name.length < NORMAL_NAME_CHARS - 10) {
        throw new StatusError(Status.invalid, 'a name too short');
      }
      await service.metadata.set(pathOf(request), request.metadata, request.mode);
      return undefined;
    }),
    control(getMetadata, (request) => service.metadata.get(pathOf(request))),
  ];
}
