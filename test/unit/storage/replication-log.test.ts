import { Wakeup } from '@stevedore/async';
import { localDisk } from '@stevedore/disk';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Binlog } from '../../../packages/storage/dist/replication/binlog.js';
import {
  BinlogFollower,
  SendWindow,
} from '../../../packages/storage/dist/replication/binlog-follower.js';
import { Journal } from '../../../packages/storage/dist/replication/journal.js';
import type { LogRecord } from '../../../packages/storage/dist/replication/log-record.js';
import { MarkKeeper } from '../../../packages/storage/dist/replication/progress.js';
import type { Sending } from '../../../packages/storage/dist/replication/sending.js';
import { Tombstones } from '../../../packages/storage/dist/replication/tombstones.js';
import { until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

const NAME = 'M00/00/00/fwARA2sBHQOAYxl7AAAAAckDSvY514.txt';
const OTHER = 'M00/00/00/fwARA2sBHQOAYxl7AAAAAckDSvY515.txt';

async function openLog(clock = { seconds: 1000 }, maxDeletions?: number) {
  const directory = temporaryFolder();
  const errors: Error[] = [];
  const onError = (error: Error): void => void errors.push(error);
  const log = new Binlog({ disk: localDisk, directory, onError });
  await log.open();
  onTestFinished(() => log.close());
  const tombstones = new Tombstones(localDisk, directory, onError, maxDeletions);
  const environment = {
    now: () => clock.seconds * 1000,
    uptimeMs: () => performance.now(),
    random: () => 0,
  };
  const journal = new Journal(log, tombstones, environment);
  return { directory, log, tombstones, journal, errors, clock };
}

async function secondsOf(log: Binlog): Promise<number[]> {
  return (await log.read(0)).entries.map(({ record }) => record.atSeconds);
}

describe('the log of changes', () => {
  it('has own records in the order of their times', async () => {
    const { log, journal, clock } = await openLog();
    const early = journal.begin();
    expect(early.seconds()).toBe(1000);
    clock.seconds = 1001;
    const late = journal.begin();
    const noted = late.note('C', OTHER);
    // Of another member: it waits for nobody, and for whatever was queued before.
    await journal.received(5).note('C', NAME);
    expect(await secondsOf(log)).toEqual([5]);
    await early.note('C', NAME);
    await noted;
    expect(await secondsOf(log)).toEqual([5, 1000, 1001]);
    // A clock that is set back gives no earlier time.
    clock.seconds = 900;
    const next = journal.begin();
    await next.note('D', NAME);
    expect(await secondsOf(log)).toEqual([5, 1000, 1001, 1001]);
  });

  it('does not wait for a change that has failed', async () => {
    const { log, journal, clock } = await openLog();
    const failed = journal.begin();
    failed.seconds();
    clock.seconds = 1001;
    const noted = journal.begin().note('C', OTHER);
    failed.end();
    await noted;
    expect(await secondsOf(log)).toEqual([1001]);
  });
});

describe('tombstones', () => {
  it('are remembered until all members have them, over a start too', async () => {
    const { directory, log, tombstones, journal } = await openLog();
    const first = journal.begin();
    await first.note('D', NAME);
    await journal.begin().note('D', OTHER);
    expect([tombstones.at(NAME), tombstones.at(OTHER)]).toEqual([1000, 1000]);
    tombstones.forget(first.position);
    expect([tombstones.at(NAME), tombstones.at(OTHER)]).toEqual([undefined, 1000]);
    await tombstones.close(log.end);
    const again = new Tombstones(localDisk, directory, () => {});
    await again.load(log);
    expect([again.at(NAME), again.at(OTHER)]).toEqual([undefined, 1000]);
    again.forget(log.end);
    expect(again.size).toBe(0);
  });

  it('beyond their bound forget the oldest, and say so', async () => {
    const { tombstones, journal, errors } = await openLog(undefined, 1);
    await journal.begin().note('D', NAME);
    await journal.begin().note('D', OTHER);
    expect([tombstones.at(NAME), tombstones.at(OTHER)]).toEqual([undefined, 1000]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/more than 1 del/),
    ]);
  });
});

describe('what a member is sent', () => {
  it('is of one second at a time, side by side', async () => {
    const { directory, log, errors } = await openLog();
    const record = { operation: 'C', own: true, extra: '' } as const;
    for (const [index, atSeconds] of [10, 10, 11].entries()) {
      await log.append({ ...record, atSeconds, name: NAME.replace('514', `51${index}`) });
    }
    const keeper = new MarkKeeper(localDisk, directory, 'a', () => {});
    const wakeup = new Wakeup();
    const sent: { record: LogRecord; land: (isThere: boolean) => void }[] = [];
    const passage = new BinlogFollower({
      ...{ log, keeper, wakeup, maxInFlight: 8 },
      sending: { keyOf: ({ name }: LogRecord) => name } as unknown as Sending,
      deliver: (each) =>
        new Promise((land) => {
          sent.push({ record: each, land });
        }),
      check: () => {},
      progressed: () => {},
      report: (error) => errors.push(error as Error),
    });
    const stepped = passage.step();
    await until(() => sent.length === 2);
    sent[1]!.land(true);
    await new Promise(setImmediate);
    expect(sent.length).toBe(2);
    expect(keeper.acknowledged).toBe(0);
    sent[0]!.land(true);
    await until(() => sent.length === 3);
    await stepped;
    sent[2]!.land(true);
    await until(() => keeper.acknowledged === log.end);
    expect(sent.map((each) => each.record.atSeconds)).toEqual([10, 10, 11]);
  });

  it('keeps the order of changes of one file', () => {
    const window = new SendWindow(8);
    window.add(10, 'file', async () => {});
    expect([window.blocks('file'), window.blocks('other'), window.blocks(undefined)]).toEqual([
      true,
      false,
      true,
    ]);
  });
});
