import { smallFileAllowance } from '@stevedore/balance';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Competition } from '../../../packages/tiering/dist/scheduler/competition.js';
import { NO_COUNTS, Scheduler } from '../../../packages/tiering/dist/scheduler/scheduler.js';

const PARAMETERS = { efficiencyMark: 0.8, smallFileShare: 0.05 };

/** Made-up time: nothing here waits. */
describe('metadata beside small files', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function competitionOf(learns = true, parameters = PARAMETERS) {
    const busy = { share: 0 };
    const now = (): number => vi.getMockedSystemTime()!.getTime();
    const scheduler = new Scheduler({
      maxRunning: 64,
      maxBesideMetadata: 2,
      maxWaitMs: 10_000,
      now,
    });
    const competition = new Competition({
      scheduler,
      intervalMs: 1000,
      diskBytes: () => 2_000_000,
      learns,
      parameters,
      busyMeter: () => () => busy.share,
      now,
    });
    /** What small files may have, as it was each time that something was learned. */
    const allowed: (number | undefined)[] = [];
    competition.start(() => {
      const { isThere: hasMetadata, sustainableBytes } = competition;
      const allowance = { metadataBytes: 0, hasMetadata, sustainableBytes };
      const bytes = smallFileAllowance(allowance, competition.capacityBytes, parameters);
      allowed.push(bytes);
      scheduler.allow(bytes === undefined ? undefined : bytes / 1000);
    });
    return { busy, scheduler, competition, allowed };
  }

  type Setting = ReturnType<typeof competitionOf>;
  type Loops = Readonly<Partial<Record<'metadata' | 'smallFile', number>>>;

  /**
   * Clients on one thread that has 1 ms of work for a request of metadata, and 4 ms for a
   * small file; `thinkMs` is how long a metadata client waits before it asks again. Gives
   * the requests that were served.
   */
  async function run(
    { scheduler, competition, busy }: Pick<Setting, 'scheduler' | 'competition' | 'busy'>,
    ms: number,
    loops: Loops,
    thinkMs = 0,
  ) {
    let thread = Promise.resolve();
    let busyMs = 0;
    const sleep = (of: number) => new Promise<void>((resolve) => setTimeout(resolve, of));
    let ended = false;
    const loop = async (kind: 'metadata' | 'smallFile'): Promise<void> => {
      while (!ended) {
        await scheduler.run(kind, 1000, () => {
          const workMs = kind === 'metadata' ? 1 : 4;
          busyMs += workMs;
          thread = thread.then(() => sleep(workMs));
          return thread;
        });
        if (kind === 'metadata' && thinkMs > 0) await sleep(thinkMs);
      }
    };
    const all = Object.entries(loops).flatMap(([kind, count]) =>
      Array.from({ length: count }, () => loop(kind as 'metadata' | 'smallFile')),
    );
    const served = { metadata: 0, smallFile: 0 };
    for (let second = 0; second < ms / 1000; second += 1) {
      await vi.advanceTimersByTimeAsync(1000);
      const interval = scheduler.endInterval();
      served.metadata += interval.metadata.servedRequests;
      served.smallFile += interval.smallFile.servedRequests;
      busy.share = Math.min(1, busyMs / 1000);
      busyMs = 0;
      competition.observe(interval);
    }
    ended = true;
    scheduler.allow(undefined);
    await vi.advanceTimersByTimeAsync(1000);
    await Promise.all(all);
    scheduler.endInterval();
    return served;
  }

  it('metadata has as much beside 16 clients as beside 1, and small files their share', async () => {
    const rates = [];
    for (const clients of [1, 16]) {
      const setting = competitionOf();
      const { metadata, smallFile } = await run(setting, 8000, { metadata: 4, smallFile: clients });
      rates.push(metadata);
      expect(smallFile).toBeGreaterThan(50);
      setting.competition.close();
    }
    expect(rates[1]! / rates[0]!).toBeGreaterThan(0.95);
    expect(rates[0]).toBeGreaterThan(6000);
  });

  it('is held to what is assured before anything is known, and learns what metadata bears', async () => {
    const setting = competitionOf();
    const { allowed, competition } = setting;
    await run(setting, 3000, { metadata: 4, smallFile: 16 });
    expect(allowed[0]).toBe(0.05 * 2_000_000);
    // The thread does a thousand requests of metadata in a second, and no more.
    expect(competition.metadataAloneBytes).toBeGreaterThanOrEqual(900_000);
    expect(allowed.at(-2)).toBeLessThan(60_000);
    competition.close();
  });

  it('one client that describes files again and again leaves small files most of theirs', async () => {
    const alone = await run(competitionOf(), 4000, { smallFile: 16 });
    const share = { ...PARAMETERS, smallFileShare: 0.2 };
    const setting = competitionOf(true, share);
    // An answer every 4 ms: always one request is there, and a quarter of the thread is taken.
    const both = await run(setting, 4000, { metadata: 1, smallFile: 16 }, 3);
    expect(both.smallFile / alone.smallFile).toBeGreaterThan(0.2);
    setting.competition.close();
  });

  it('gives small files the room that light metadata leaves', async () => {
    const setting = competitionOf();
    const { competition } = setting;
    // A request every 10 ms, of 1 ms.
    const { metadata, smallFile } = await run(setting, 3000, { metadata: 1, smallFile: 2 }, 9);
    expect(metadata).toBeGreaterThan(150);
    expect(smallFile).toBeGreaterThan(250);
    competition.close();
  });

  it('holds nobody back where only one of them is there', async () => {
    const setting = competitionOf();
    const { scheduler, competition, allowed } = setting;
    const hold = vi.spyOn(scheduler, 'hold');
    await run(setting, 2000, { metadata: 4 });
    await run(setting, 2000, { smallFile: 4 });
    expect(hold).not.toHaveBeenCalled();
    expect(allowed.filter((each) => each !== undefined)).toEqual([]);
    expect(competition).toMatchObject({ isThere: false, sustainableBytes: undefined });
    expect(competition.metadataAloneBytes).toBeUndefined();
    competition.close();
  });

  it('forgets what it saw when one of them has gone', async () => {
    const setting = competitionOf();
    const { competition, allowed } = setting;
    await run(setting, 1000, { metadata: 1, smallFile: 1 });
    await vi.advanceTimersByTimeAsync(2000);
    expect(competition.metadataAloneBytes).toBeUndefined();
    expect(competition.metadataKeptShare).toBeUndefined();
    expect(allowed.at(-1)).toBeUndefined();
    competition.close();
  });

  interface Pace {
    readonly aloneMs: number;
    readonly besideMs: number;
    readonly clients?: number;
  }

  /** Clients of metadata whose requests take so long alone, and so long beside small files. */
  async function contend({ scheduler, competition }: Setting, ms: number, pace: Pace) {
    let ended = false;
    let small = 0;
    const sleep = (of: number) => new Promise<void>((resolve) => setTimeout(resolve, of));
    const metadata = () => sleep(small > 0 ? pace.besideMs : pace.aloneMs);
    const smallFile = async () => {
      small += 1;
      await sleep(10);
      small -= 1;
    };
    const client = async (kind: 'metadata' | 'smallFile', cost: number) => {
      const act = kind === 'metadata' ? metadata : smallFile;
      while (!ended) await scheduler.run(kind, cost, act);
    };
    for (let left = pace.clients ?? 1; left > 0; left -= 1) void client('metadata', 1000);
    void client('smallFile', 1);
    await vi.advanceTimersByTimeAsync(ms);
    ended = true;
    const { metadataAloneBytes: aloneBytes = 0, metadataKeptShare: keptShare } = competition;
    return { aloneBytes, keptShare, sustainableBytes: competition.sustainableBytes };
  }

  it('knows which share metadata keeps, and holds small files to what is assured if it is little', async () => {
    const setting = competitionOf();
    expect(setting.competition.metadataKeptShare).toBeUndefined();
    const little = await contend(setting, 4000, { aloneMs: 4, besideMs: 16 });
    expect(little.keptShare).toBeCloseTo(0.25, 1);
    expect(little.sustainableBytes).toBe(0.05 * 2_000_000);
    // Of other lengths, so that bytes and time are forgotten alike.
    const all = await contend(setting, 40_000, { aloneMs: 30, besideMs: 30 });
    expect(all.keptShare).toBeCloseTo(1, 1);
    setting.competition.close();
  });

  it('takes a small shortfall of few requests for chance, and one of many for what it is', async () => {
    const few = competitionOf();
    const ofFew = await contend(few, 20_000, { aloneMs: 10, besideMs: 12 });
    const many = competitionOf();
    const ofMany = await contend(many, 20_000, { clients: 8, aloneMs: 10, besideMs: 12 });
    for (const { keptShare } of [ofFew, ofMany]) {
      expect(keptShare).toBeGreaterThan(0.8);
      expect(keptShare).toBeLessThan(0.9);
    }
    expect(ofFew.sustainableBytes).toBeGreaterThan(1_000_000);
    expect(ofMany.sustainableBytes).toBeLessThan(300_000);
    few.competition.close();
    many.competition.close();
  });

  it('believes that metadata wants more at once, and that it wants less slowly', async () => {
    const setting = competitionOf();
    const rates = [];
    for (const ms of [4, 1, 4]) {
      rates.push((await contend(setting, 700, { aloneMs: ms, besideMs: ms })).aloneBytes);
    }
    const [light, heavy, after] = rates;
    expect(light).toBeLessThan(300_000);
    expect(heavy).toBeGreaterThan(700_000);
    expect(after).toBeGreaterThan(700_000);
    expect(after).toBeLessThan(heavy!);
    setting.competition.close();
  });

  it('counts as load of metadata the share of the thread that it takes alone', async () => {
    const setting = competitionOf();
    setting.busy.share = 0.6;
    await contend(setting, 500, { aloneMs: 4, besideMs: 4 });
    const none = { ...NO_COUNTS, waitingBytes: 0, waitingRequests: 0 };
    const { metadataBytes } = setting.competition.alone({ metadata: none, smallFile: none });
    expect(metadataBytes).toBe(0.6 * 2_000_000);
    setting.competition.close();
  });

  it('leaves nobody held when it ends', async () => {
    const { scheduler, competition } = competitionOf();
    scheduler.hold(() => {});
    const held = scheduler.run('smallFile', 1000, async () => 'done');
    competition.close();
    expect(await held).toBe('done');
  });

  it('takes the thread for the bottleneck where it is, and what was given for the truth', () => {
    const interval = {
      waitingBytes: 0,
      waitingRequests: 0,
      waitedMs: 0,
      ranMs: 10,
      busyAnswers: 0,
      servedRequests: 0,
    };
    const none = { ...interval, servedBytes: 0 };
    const half = { metadata: { ...interval, servedBytes: 1_000_000 }, smallFile: none };
    const { busy, competition } = competitionOf();
    busy.share = 0.1;
    competition.observe(half);
    expect(competition.capacityBytes).toBe(2_000_000);
    busy.share = 0.8;
    competition.observe(half);
    expect(competition.capacityBytes).toBe(1_250_000);
    // One interval says little.
    busy.share = 1;
    competition.observe(half);
    expect(competition.capacityBytes).toBeLessThan(1_250_000);
    expect(competition.capacityBytes).toBeGreaterThan(1_150_000);
    // Never below what has just been served.
    competition.observe({ ...half, smallFile: { ...interval, servedBytes: 5_000_000 } });
    expect(competition.capacityBytes).toBe(6_000_000);
    const given = competitionOf(false);
    given.busy.share = 1;
    given.competition.observe(half);
    expect(given.competition.capacityBytes).toBe(2_000_000);
  });

  it('counts what small files waited for as what they would have asked for', () => {
    const { competition } = competitionOf();
    const none = {
      servedBytes: 0,
      servedRequests: 0,
      waitingBytes: 0,
      waitingRequests: 0,
      waitedMs: 0,
      ranMs: 0,
      busyAnswers: 0,
    };
    const alone = (ended: { servedBytes?: number; waitedMs: number; ranMs: number }) =>
      competition.alone({ metadata: none, smallFile: { ...none, servedBytes: 1000, ...ended } })
        .smallFileBytes;
    expect(alone({ waitedMs: 0, ranMs: 10 })).toBe(1000);
    expect(alone({ waitedMs: 30, ranMs: 10 })).toBe(4000);
    expect(alone({ waitedMs: 1e9, ranMs: 10 })).toBe(2_000_000);
    expect(alone({ waitedMs: 30, ranMs: 0 })).toBe(1000);
  });
});
