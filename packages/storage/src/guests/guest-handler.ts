import { crc32 } from 'node:zlib';
import { guestStore, parseFileName, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { type Handler, receiving } from '../net/handler.js';
import { Payload } from '../net/payload.js';
import { inMemory } from '../scheduler/scheduled-handlers.js';
import type { StorageService } from '../storage/service.js';
import type { GuestGuard } from './guest-guard.js';
import { isGuestBase } from './guest-name.js';

/**
 * GUEST_STORE: the bytes of another group's small file become a file of this one, under
 * the name that the other has given them. From then on they are read and deleted as any
 * file is. Status 16 where they may not come in now, 22 for a name or a size that no
 * guest has, 5 for bytes with another checksum than they were sent with.
 */

const MEMORY_TIMEOUT_MS = 1000;

export function guestHandler<Session>(
  service: StorageService,
  guard: GuestGuard,
  maxBytes: () => number,
): Handler<Session> {
  const { store, replication, settings } = service;
  return receiving(guestStore, async (request, payload) => {
    const { name, size, loadBytes } = request;
    const id = parseFileName(settings.group, name);
    if (id?.storePathIndex !== 0 || !isGuestBase(id.base)) {
      throw new StatusError(Status.invalid, 'not the name of a guest');
    }
    if (size > maxBytes()) throw new StatusError(Status.invalid, `a guest of ${size} bytes`);
    const home = `${request.homeGroup}/${request.homeId}`;
    if (!guard.admit(home, loadBytes)) throw new StatusError(Status.busy, `a guest of ${home}`);
    const { storePath } = await service.roomFor(size, 0);
    const chunks: Buffer[] = [];
    while (payload.remaining > 0) chunks.push(...(await payload.next()));
    const checksum = chunks.reduce((sum, chunk) => crc32(chunk, sum), 0);
    if (checksum !== request.crc32) {
      throw new StatusError(Status.ioError, 'a guest that has changed on its way');
    }
    const done = storePath.announce(size);
    try {
      const memory = new Payload(inMemory(chunks), size, MEMORY_TIMEOUT_MS);
      await replication.run('new', (change) => store.storeAs(id, memory, change));
    } finally {
      done();
    }
    return undefined;
  });
}
