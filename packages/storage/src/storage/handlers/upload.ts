import { isExtension, Status, uploadFile } from '@stevedore/protocol';
import { StatusError } from '../../errors.js';
import { type Handler, receiving } from '../../net/handler.js';
import type { StorageService } from '../service.js';

/** UPLOAD_FILE: answered once the file is durable under its name. */
export function uploadHandler<Session>(service: StorageService): Handler<Session> {
  return receiving(uploadFile, async ({ storePathIndex, size, extension }, payload) => {
    if (!isExtension(extension)) throw new StatusError(Status.invalid, 'a malformed extension');
    const source = service.identity.address();
    const { index, storePath } = await service.roomFor(size, storePathIndex);
    const done = storePath.announce(size);
    try {
      const { group, name } = await service.store.store(
        { storePathIndex: index, extension, source },
        payload,
      );
      return { group, name };
    } finally {
      done();
    }
  });
}
