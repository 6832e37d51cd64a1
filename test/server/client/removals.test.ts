import { join } from 'node:path';
import { deferred } from '@stevedore/async';
import { openMap } from '@stevedore/map';
import type { Outbox } from '@stevedore/staging';
import { expect, it, onTestFinished } from 'vitest';
import { Deployment } from '../../../packages/client/dist/deployment/deployment.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What other servers delete, at one whose own deletions take long. */

function keyOf(origin: number, last: number): Buffer {
  const key = Buffer.alloc(16, last);
  key.writeUInt16BE(origin, 6);
  return key;
}

it('hears what others delete while a deletion here waits for its partner', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'map.db')}`;
  const [map, other] = [await openMap(url), await openMap(url)];
  onTestFinished(() => other.close());
  const joining = { instance: 'a'.repeat(32), origin: undefined, url: undefined, place: 'here' };
  const joined = await map.join(joining);
  const { origin } = joined;
  const partner = deferred<boolean>();
  const asked: Buffer[] = [];
  const forgotten: Buffer[] = [];
  const errors: Error[] = [];
  const deployment = new Deployment({
    ...{ map, joining: { ...joining, origin }, joined, hasCopies: false },
    lastRun: { secret: undefined, gateways: [] },
    saveRun: async () => {},
    outbox: { pending: 0, read: () => [] } as unknown as Outbox,
    staged: () => ({ files: 0, bytes: 0 }),
    adoption: { held: undefined } as never,
    deleteHere: (key) => {
      asked.push(key);
      return partner.promise;
    },
    forget: (key) => void forgotten.push(key),
    report: (error) => void errors.push(error),
    now: Date.now,
    onRefused: (error) => void errors.push(error),
  });
  await deployment.start();
  onTestFinished(() => deployment.close());
  const [own, foreign] = [keyOf(origin, 1), keyOf(origin ^ 1, 2)];
  await other.remove([{ key: own }], false);
  await soon(async () => expect(asked).toContainEqual(own));
  expect(deployment.isKnownRemoved(own)).toBe(true);
  await other.remove([{ key: foreign }], false);
  await soon(async () => expect(forgotten).toContainEqual(foreign));
  expect(deployment.isKnownRemoved(foreign)).toBe(true);
  expect(await other.removalsFor([origin], 10)).toEqual([own]);
  partner.resolve(true);
  await soon(async () => expect(await other.removalsFor([origin], 10)).toEqual([]));
  expect(errors).toEqual([]);
});
