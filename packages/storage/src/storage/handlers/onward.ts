import {
  type OnwardGrant,
  onwardDone,
  parseFileName,
  Status,
  writeOnward,
} from '@stevedore/protocol';
import { StatusError } from '../../errors.js';
import type { OnwardReady, OnwardWrites } from '../../io-tier/onward-writes.js';
import { control, type Handler } from '../../net/handler.js';
import type { Tier } from '../../tiers/tier.js';
import type { StorageService } from '../service.js';
import { appender } from './appender.js';

/** WRITE_ONWARD, ONWARD_DONE: an append that the client writes to I/O servers itself. */
export function onwardHandlers<Session>(
  service: StorageService,
  onward: OnwardWrites,
  tierOf: (path: string) => Tier | undefined,
): Handler<Session>[] {
  const { store, changing, replication } = service;

  const begin = async (name: string, size: number): Promise<OnwardGrant | undefined> => {
    const id = await appender(service, name);
    const path = store.pathOf(id);
    const tier = tierOf(path);
    // What the disk has not let come to its end must be settled first.
    if (!tier || size === 0 || service.locks.isUnsettled(path)) return undefined;
    return onward.begin(tier, { path, name: id.name }, size);
  };

  const end = async ({ tier, file, move, offset, bytes, checks }: OnwardReady): Promise<void> => {
    try {
      // The name of a file that is there.
      const id = parseFileName(service.settings.group, file.name)!;
      await replication.run({ changed: id }, (change) =>
        changing.switchTo(file, change, ['A', `${offset} ${bytes}`], {
          isPossible: () => !move.isRevoked,
          make: async (seconds) => {
            if (!move.finish(offset + bytes, checks, seconds)) throw gone();
            await tier.records.commit();
            onward.switched();
          },
        }),
      );
    } finally {
      move.giveUp();
    }
  };

  return [
    control(writeOnward, ({ name, size }) => begin(name, size)),
    control(onwardDone, async ({ id, checks }) => {
      await end(await onward.end(id, checks));
      return undefined;
    }),
  ];
}

function gone(): StatusError {
  return new StatusError(Status.busy, 'the file has changed meanwhile');
}
