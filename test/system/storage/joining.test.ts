import type { StorageOptions } from '@stevedore/node';
import { StorageStatus } from '@stevedore/protocol';
import { expect, test } from 'vitest';
import { freePort } from '../../support/free-port.js';
import { groupOf } from '../../support/storage/group.js';
import { until } from '../../support/storage/support.js';

/** What the storages of a group must have in common, and what a tracker's refusal ends. */

async function groupWithMember(options: Partial<StorageOptions> = {}) {
  const group = await groupOf(1, options);
  const [first] = group.members;
  await first!.storage!.active();
  return group;
}

test.each<[string, () => Promise<Partial<StorageOptions>>, string]>([
  [
    'directories',
    async () => ({ subdirectoriesPerPath: 256 }),
    'subdirectoriesPerPath must be 4, not 256',
  ],
  ['a port', async () => ({ port: await freePort() }), 'port must be '],
])(
  'a storage with %s other than the group does not start, and says what to set',
  async (_, options, text) => {
    const group = await groupWithMember();
    const other = group.add();
    const start = other.start(await options());
    await expect(start).rejects.toMatchObject({ name: 'OptionError', code: 'invalid_option' });
    await expect(start).rejects.toThrow(text);
    await expect(start).rejects.toThrow('group1');
    // Its port and directory are free again.
    await other.start();
    await other.storage!.active();
  },
);

test('a storage with fewer store paths than the group does not start', async () => {
  const group = await groupOf(0);
  const [first, other] = [group.add(), group.add()];
  await first.start({ storePaths: [first.folder, `${first.folder}/more`] });
  await first.storage!.active();
  await expect(other.start()).rejects.toThrow('storePaths must name 2 directories, not 1');
});

test('a storage that the tracker has no id for does not start', async () => {
  const group = await groupOf(0, {}, { storageIds: ['100001 group1 127.9.9.9:23000'] });
  await expect(group.add().start()).rejects.toMatchObject({ code: 'join_refused' });
});

test('heartbeats come more often where the tracker does not wait that long for them', async () => {
  const group = await groupOf(1, { beatIntervalMs: 2500 }, { checkActiveIntervalMs: 1100 });
  const [member] = group.members;
  await until(() => member!.errors.length === 2);
  const texts = member!.errors.map(({ message }) => /every ([\d.]+) s/.exec(message)?.[1]);
  expect(texts).toEqual(['1.25', '1']);
  await until(async () => (await group.statusOf(member!)) === StorageStatus.active);
});
