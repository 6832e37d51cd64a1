import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { deleteFile } from '@stevedore/protocol';
import { systemEnvironment } from '@stevedore/wire';
import { expect, test } from 'vitest';
import { groupOf, pathExists, sameEverywhere } from './group.js';
import { append, appender } from './group-requests.js';
import { until } from './support.js';

/**
 * A member lacks an appender that it has had, as a C storage does whose client has deleted it there
 * and which has not sent the deletion yet. If the file came back, it would never send it.
 */
async function withLackingMember(beatIntervalMs: number) {
  let shiftMs = 0;
  const now = (): number => systemEnvironment.now() + shiftMs;
  const environment = { ...systemEnvironment, now };
  const { members } = await groupOf(2, { environment, beatIntervalMs });
  const [source, other] = members as [(typeof members)[0], (typeof members)[0]];
  const client = await source.connect();
  const grown = await appender(client, 'first');
  await sameEverywhere(members);
  await other.stop();
  await rm(join(other.folder, 'data', grown.name.slice(4)));
  // Its creation is long past when the next change is made.
  shiftMs = 10_000;
  await other.start();
  expect(await append(client, grown, ' second')).toBe(0);
  const isSent = () => source.storage!.replicationStatus().members[0]?.lagBytes === 0;
  return { members, source, other, client, grown, isSent };
}

test('a file that a member has had and lacks is not sent again while its deletion may come', async () => {
  const { members, other, client, grown, isSent } = await withLackingMember(60_000);
  await until(isSent);
  expect(await pathExists(other, grown)).toBe(false);
  expect((await client.ask(deleteFile, grown)).status).toBe(0);
  await until(isSent);
  await sameEverywhere(members);
  expect(await pathExists(other, grown)).toBe(false);
});

test('a file that a member has lost is sent again once no deletion has come', async () => {
  const { members, other, grown } = await withLackingMember(200);
  await sameEverywhere(members);
  expect(await pathExists(other, grown)).toBe(true);
});
