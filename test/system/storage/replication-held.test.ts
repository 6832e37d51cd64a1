import { queryFileInfo, Status, syncAppendFile, syncUpdateFile } from '@stevedore/protocol';
import { systemEnvironment } from '@stevedore/wire';
import { expect, test } from 'vitest';
import { groupOf, sameEverywhere } from '../../support/storage/group.js';
import { stockServer } from '../../support/storage/stock-server.js';
import { until } from '../../support/storage/support.js';

/**
 * A C storage lacks an appender that it has had: a client has deleted it there, and the deletion has
 * yet to come. If the file came back, it never would.
 */
async function withLackingMember(beatIntervalMs: number) {
  let shiftMs = 0;
  const now = (): number => systemEnvironment.now() + shiftMs;
  const environment = { ...systemEnvironment, now };
  const { members } = await groupOf(2, { environment, beatIntervalMs });
  const [source, other] = members as [(typeof members)[0], (typeof members)[0]];
  const client = await source.connect();
  const grown = await client.appender('first');
  await sameEverywhere(members);
  await other.stop();
  // Its creation is long past when the next change is made.
  shiftMs = 10_000;
  const none = { status: Status.notFound };
  const requests = await stockServer(
    other.host,
    source.storage!.port,
    new Map([
      [queryFileInfo.code, none],
      [syncAppendFile.code, none],
    ]),
  );
  expect(await client.append(grown, ' second')).toBe(0);
  const asked = (code: number) => requests.some((request) => request.code === code);
  await until(() => asked(queryFileInfo.code));
  return { asked, isSent: () => source.storage!.replicationStatus().members[0]?.lagBytes === 0 };
}

test('a file that a C storage has had and lacks is not sent while its deletion may come', async () => {
  const { asked, isSent } = await withLackingMember(60_000);
  await until(isSent);
  expect(asked(syncUpdateFile.code)).toBe(false);
});

test('a file that a C storage has lost is sent once no deletion has come', async () => {
  const { asked } = await withLackingMember(200);
  await until(() => asked(syncUpdateFile.code));
});
