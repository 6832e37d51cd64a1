import { crc32 } from 'node:zlib';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Upkeep } from '../../../packages/tiering/dist/migration/upkeep.js';
import { tagOf } from '../../../packages/tiering/dist/tiers/remote-files.js';
import { until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';
import {
  NAME,
  OTHER_GROUP,
  OtherGroup,
  openIn,
  store,
  tierOf,
} from '../../support/tiering/harness.js';

/** What moves left in other groups is deleted there, and looked for. */

const SECONDS = 1_700_000_000;
const CONTENT = Buffer.alloc(3000, 5);

/** Groups of which some can be away, and which count what they are asked. */
class Groups extends OtherGroup {
  readonly away = new Set<string>();
  readonly removals: string[] = [];
  readonly lists: string[] = [];
  /** Called for each id that a list has given. */
  onListed: () => Promise<void> | void = () => {};

  override async remove(id: string): Promise<void> {
    this.removals.push(id);
    this.#check(id.split('/')[0]!);
    await super.remove(id);
  }

  override async *list(group: string, tag: string): AsyncGenerator<string> {
    this.lists.push(group);
    for await (const id of super.list(group, tag)) {
      yield id;
      await this.onListed();
    }
    this.#check(group);
  }

  #check(group: string): void {
    if (this.away.has(group)) throw new Error(`${group} is away`);
  }
}

async function upkeepOf(graceMs = 0) {
  const folder = temporaryFolder();
  const remote = new Groups();
  const opened = await openIn(folder, { remote });
  const tier = tierOf(opened);
  const { records } = tier;
  const clock = { ms: SECONDS * 1000 };
  const errors: unknown[] = [];
  const upkeep = new Upkeep({
    ...{ tiers: opened.tiers.all, remote, graceMs },
    now: () => clock.ms,
    onError: (error) => errors.push(error),
  });
  onTestFinished(async () => {
    await upkeep.close();
    await opened.close();
  });
  const about = { size: CONTENT.length, crc32: crc32(CONTENT) };
  return {
    ...{ folder, remote, opened, tier, records, clock, errors, upkeep },
    /** A copy there. */
    storeIn: (group: string, content = CONTENT) =>
      remote.store(group, tagOf(records.owner), {
        size: content.length,
        async *chunks() {
          yield content;
        },
      }),
    /** A copy whose outcome is unknown. */
    begin: (target: string, sinceSeconds = SECONDS - 3600) =>
      records.beginCopy({ ...about, target, sinceSeconds }),
  };
}

it('an unwanted copy is deleted after the time that its readers have', async () => {
  const { records, remote, clock, upkeep } = await upkeepOf(5_000);
  records.addUnwanted('group2/copy', SECONDS);
  clock.ms += 4_999;
  await upkeep.work();
  expect([remote.removals, records.unwantedCopies]).toEqual([[], 1]);
  clock.ms += 1;
  await upkeep.work();
  expect([remote.removals, records.unwantedCopies]).toEqual([['group2/copy'], 0]);
});

it('a group that is away is asked once in a round, and holds up no other', async () => {
  const { records, remote, upkeep, errors } = await upkeepOf();
  for (const id of ['group2/a', 'group2/b', 'group3/a', 'group3/b']) records.addUnwanted(id, 0);
  remote.away.add('group2');
  await upkeep.work();
  expect(remote.removals.filter((id) => id.startsWith('group2'))).toHaveLength(1);
  expect(remote.removals.filter((id) => id.startsWith('group3'))).toHaveLength(2);
  expect(records.unwantedCopies).toBe(2);
  remote.away.clear();
  await upkeep.work();
  expect([records.unwantedCopies, errors]).toEqual([0, []]);
});

it('of one store path 500 are deleted in a round', async () => {
  const { records, remote, upkeep } = await upkeepOf();
  for (let n = 0; n < 501; n += 1) records.addUnwanted(`group2/${n}`, 0);
  await upkeep.work();
  expect([remote.removals.length, records.unwantedCopies]).toEqual([500, 1]);
});

it('what may be an orphan is looked for after two minutes, and deleted in the next round', async () => {
  const { records, remote, clock, upkeep, storeIn, begin } = await upkeepOf(3_600_000);
  const [id] = [await storeIn('group2'), await storeIn('group3')];
  begin('group2', SECONDS);
  clock.ms += 119_999;
  await upkeep.work();
  expect([remote.lists, upkeep.orphans, records.openCopies().length]).toEqual([[], 0, 1]);
  clock.ms += 1;
  await upkeep.work();
  expect([remote.lists, upkeep.orphans, records.openCopies()]).toEqual([['group2'], 1, []]);
  expect(records.unwantedCopies).toBe(1);
  await upkeep.work();
  expect(remote.removals).toEqual([id]);
  expect(remote.lists).toHaveLength(1);
});

it('each group is listed once for all its copies, and the outcome is durable', async () => {
  const { records, remote, upkeep, storeIn, begin } = await upkeepOf();
  await storeIn('group2');
  // It has the extension of an orphan, but is none.
  await storeIn('group2', Buffer.from('older'));
  for (const group of ['group2', 'group2', 'group3']) begin(group);
  const commit = vi.spyOn(records, 'commit');
  await upkeep.work();
  expect(remote.lists).toEqual(['group2', 'group3']);
  expect([upkeep.orphans, records.openCopies()]).toEqual([1, []]);
  expect(records.unwantedCopies).toBe(1);
  expect(commit).toHaveBeenCalledOnce();
  await upkeep.work();
  expect(commit).toHaveBeenCalledOnce();
});

it('a group that cannot be listed is listed again after a minute; deletions go on', async () => {
  const { records, remote, clock, upkeep, errors, begin } = await upkeepOf();
  for (const group of ['group3', 'group2']) begin(group);
  remote.away.add('group2');
  await upkeep.work();
  expect(errors).toMatchObject([{ message: 'group2 is away' }]);
  expect(records.openCopies()).toMatchObject([{ target: 'group2' }]);
  expect(remote.lists.splice(0)).toEqual(['group3', 'group2']);
  remote.away.clear();
  records.addUnwanted('group2/a', 0);
  clock.ms += 59_999;
  await upkeep.work();
  expect([remote.removals.length, remote.lists.length]).toEqual([1, 0]);
  clock.ms += 1;
  await upkeep.work();
  expect([remote.lists, records.openCopies()]).toEqual([['group2'], []]);
  expect(errors).toHaveLength(1);
});

it('a copy that is being made is looked for by nobody, however long it takes', async () => {
  const { records, remote, clock, upkeep, folder, opened, tier, begin } = await upkeepOf();
  await store(opened, folder, NAME, CONTENT);
  let answer: (() => void) | undefined;
  remote.onCall = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const moving = tier.moves.toGroup(NAME, OTHER_GROUP);
  await until(() => answer !== undefined);
  clock.ms = Date.now() + 3_600_000;
  expect(records.openCopies()).toHaveLength(1);
  await upkeep.work();
  expect(remote.lists).toEqual([]);
  // That of another one is.
  begin('group3');
  remote.onCall = () => {};
  await upkeep.work();
  expect(remote.lists).toEqual(['group3']);
  expect(records.openCopies()).toMatchObject([{ target: OTHER_GROUP }]);
  answer!();
  expect(await moving).toBe('moved');
});

it('nothing is decided by a list that the end of the storage cuts short', async () => {
  const { records, remote, upkeep, errors, storeIn, begin } = await upkeepOf();
  for (let n = 0; n < 3; n += 1) await storeIn('group2');
  begin('group2');
  let closing: Promise<void> | undefined;
  remote.onListed = () => {
    closing ??= upkeep.close();
  };
  await upkeep.work();
  await closing;
  expect([upkeep.orphans, records.openCopies().length, errors]).toEqual([1, 1, []]);
});

it('what fails because the storage closes is not told', async () => {
  const { remote, upkeep, errors, storeIn, begin } = await upkeepOf();
  await storeIn('group2');
  begin('group2');
  remote.onListed = () => {
    void upkeep.close();
    throw new Error('closed');
  };
  await upkeep.work();
  expect(errors).toEqual([]);
});

it('rounds follow each second, one at a time; the end waits for the last one, which is short', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { records, remote, upkeep } = await upkeepOf();
  const answers: (() => void)[] = [];
  remote.onCall = () => new Promise((resolve) => answers.push(resolve));
  const asked = async (count: number) => {
    await until(() => answers.length === count);
    expect(remote.removals).toHaveLength(count);
  };
  records.addUnwanted('group2/a', 0);
  upkeep.start();
  vi.advanceTimersByTime(999);
  expect(remote.removals).toEqual([]);
  vi.advanceTimersByTime(1);
  await asked(1);
  vi.advanceTimersByTime(3_000);
  await asked(1);
  answers[0]!();
  await until(() => records.unwantedCopies === 0);
  for (const id of ['group2/b', 'group2/c']) records.addUnwanted(id, 0);
  // The round before may be ending yet.
  await until(() => {
    vi.advanceTimersByTime(1_000);
    return answers.length === 2;
  });
  let isClosed = false;
  const closing = upkeep.close().then(() => {
    isClosed = true;
  });
  await new Promise(setImmediate);
  expect(isClosed).toBe(false);
  answers[1]!();
  await closing;
  vi.advanceTimersByTime(3_000);
  await new Promise(setImmediate);
  expect([remote.removals.length, records.unwantedCopies]).toEqual([2, 1]);
});
