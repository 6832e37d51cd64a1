import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Competition } from '../../packages/storage/dist/scheduler/competition.js';
import { Scheduler } from '../../packages/storage/dist/scheduler/scheduler.js';

/** Made-up time: nothing here waits. */
describe('metadata beside small files', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function competitionOf(learns = true) {
    const busy = { share: 0 };
    const now = (): number => vi.getMockedSystemTime()!.getTime();
    const scheduler = new Scheduler({
      maxRunning: 64,
      maxBesideMetadata: 2,
      maxWaiting: 1000,
      maxWaitMs: 10_000,
      accessBytes: 1000,
      now,
    });
    const competition = new Competition({
      scheduler,
      intervalMs: 1000,
      diskBytes: 2_000_000,
      learns,
      efficiencyMark: 0.8,
      smallFileShare: 0.05,
      busyMeter: () => () => busy.share,
      now,
    });
    /** What small files may have, as it was each time that something was learned. */
    const allowed: (number | undefined)[] = [];
    competition.start(() => {
      const bytes = competition.allowedSmallFileBytes(0);
      allowed.push(bytes);
      scheduler.allow(bytes === undefined ? undefined : bytes / 1000);
    });
    return { busy, scheduler, competition, allowed };
  }

  type Loops = Readonly<Partial<Record<'metadata' | 'smallFile', number>>>;

  /**
   * Clients on one thread that has 1 ms of work for a request of metadata, and 4 ms for a
   * small file; `thinkMs` is how long a metadata client waits before it asks again.
   */
  async function run(scheduler: Scheduler, ms: number, loops: Loops, thinkMs = 0) {
    let thread = Promise.resolve();
    const sleep = (of: number) => new Promise<void>((resolve) => setTimeout(resolve, of));
    let ended = false;
    const loop = async (kind: 'metadata' | 'smallFile'): Promise<void> => {
      while (!ended) {
        await scheduler.run(kind, 0, () => {
          thread = thread.then(() => sleep(kind === 'metadata' ? 1 : 4));
          return thread;
        });
        if (kind === 'metadata' && thinkMs > 0) await sleep(thinkMs);
      }
    };
    const all = Object.entries(loops).flatMap(([kind, count]) =>
      Array.from({ length: count }, () => loop(kind as 'metadata' | 'smallFile')),
    );
    await vi.advanceTimersByTimeAsync(ms);
    const served = scheduler.endInterval();
    ended = true;
    scheduler.allow(undefined);
    await vi.advanceTimersByTimeAsync(1000);
    await Promise.all(all);
    scheduler.endInterval();
    return served;
  }

  it('metadata has as much beside 16 clients as beside 1, and small files their share', async () => {
    const rates = [];
    for (const smallFile of [1, 16]) {
      const { scheduler, competition } = competitionOf();
      const { metadata, smallFile: small } = await run(scheduler, 4000, { metadata: 4, smallFile });
      rates.push(metadata.servedRequests);
      expect(small.servedRequests).toBeGreaterThan(50);
      competition.close();
    }
    expect(rates[1]! / rates[0]!).toBeGreaterThan(0.95);
    expect(rates[0]).toBeGreaterThan(2500);
  });

  it('is held to what is assured before anything is known, and sees what metadata takes alone', async () => {
    const { scheduler, competition, allowed } = competitionOf();
    await run(scheduler, 1000, { metadata: 4, smallFile: 16 });
    expect(allowed[0]).toBe(0.05 * 2_000_000);
    expect(allowed.length).toBeGreaterThan(2);
    // A thousand requests of 1000 bytes, and no moment without one of them.
    expect(Math.max(...allowed.slice(1).map(Number))).toBeLessThan(60_000);
    competition.close();
  });

  it('gives small files the room that light metadata leaves', async () => {
    const { scheduler, competition, allowed } = competitionOf();
    // A request every 10 ms, of 1 ms.
    const { metadata, smallFile } = await run(scheduler, 3000, { metadata: 1, smallFile: 2 }, 9);
    expect(metadata.servedRequests).toBeGreaterThan(150);
    expect(smallFile.servedRequests).toBeGreaterThan(300);
    expect(Number(allowed.at(-2))).toBeGreaterThan(300_000);
    competition.close();
  });

  it('holds nobody back where only one of them is there', async () => {
    const { scheduler, competition, allowed } = competitionOf();
    const hold = vi.spyOn(scheduler, 'hold');
    await run(scheduler, 2000, { metadata: 4 });
    await run(scheduler, 2000, { smallFile: 4 });
    expect(hold).not.toHaveBeenCalled();
    expect(allowed.filter((each) => each !== undefined)).toEqual([]);
    expect(competition.metadataAloneBytes).toBeUndefined();
    competition.close();
  });

  it('forgets what it saw when one of them has gone', async () => {
    const { scheduler, competition, allowed } = competitionOf();
    await run(scheduler, 1000, { metadata: 1, smallFile: 1 });
    await vi.advanceTimersByTimeAsync(2000);
    expect(competition.metadataAloneBytes).toBeUndefined();
    expect(competition.metadataKeptShare).toBeUndefined();
    expect(allowed.at(-1)).toBeUndefined();
    competition.close();
  });

  it('leaves nobody held when it ends', async () => {
    const { scheduler, competition } = competitionOf();
    scheduler.hold();
    const held = scheduler.run('smallFile', 0, async () => 'done');
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
    const ended = {
      servedBytes: 1000,
      servedRequests: 1,
      waitingBytes: 0,
      waitingRequests: 0,
      busyAnswers: 0,
      ranMs: 10,
    };
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 0 })).toBe(1000);
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 30 })).toBe(4000);
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 1e9 })).toBe(2_000_000);
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 30, ranMs: 0 })).toBe(1000);
  });
});
