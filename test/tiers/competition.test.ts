import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Competition } from '../../packages/storage/dist/scheduler/competition.js';
import { Scheduler } from '../../packages/storage/dist/scheduler/scheduler.js';

/** A second of it is all that there is of time: nothing here waits. */
describe('what metadata would take without small files', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function competitionOf(learns = true) {
    const busy = { share: 0 };
    const scheduler = new Scheduler({
      maxRunning: 64,
      maxBesideMetadata: 2,
      maxWaiting: 1000,
      maxWaitMs: 10_000,
      accessBytes: 1000,
      now: () => vi.getMockedSystemTime()!.getTime(),
    });
    const competition = new Competition({
      scheduler,
      intervalMs: 1000,
      diskBytes: 10_000_000,
      learns,
      busyShare: () => busy.share,
    });
    return { busy, scheduler, competition };
  }

  /** Two closed loops on one thread: a request takes 1 ms, and the other class as long. */
  async function loops(scheduler: Scheduler, ms: number): Promise<void> {
    let thread = Promise.resolve();
    const work = (): Promise<void> => {
      thread = thread.then(() => new Promise((resolve) => setTimeout(resolve, 1)));
      return thread;
    };
    let ended = false;
    const loop = async (kind: 'metadata' | 'smallFile'): Promise<void> => {
      while (!ended) await scheduler.run(kind, 0, work);
    };
    const both = [loop('metadata'), loop('smallFile')];
    await vi.advanceTimersByTimeAsync(ms);
    ended = true;
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(both);
  }

  it('is seen while small files are held back for a moment', async () => {
    const { scheduler, competition } = competitionOf();
    await loops(scheduler, 900);
    const first = scheduler.endInterval();
    // Each has half of the thread.
    expect(first.metadata.servedRequests).toBeGreaterThan(400);
    expect(first.metadata.servedRequests).toBeLessThan(560);
    competition.observe(first);
    expect(competition.metadataAloneBytes).toBeUndefined();
    await loops(scheduler, 900);
    // A thousand requests of 1000 bytes.
    expect(competition.metadataAloneBytes).toBeGreaterThan(900_000);
    expect(competition.metadataAloneBytes).toBeLessThan(1_100_000);
    const second = scheduler.endInterval();
    expect(second.smallFile.servedRequests).toBeLessThan(first.smallFile.servedRequests);
    competition.close();
  });

  it('is not asked for where only one of them is there', async () => {
    const { scheduler, competition } = competitionOf();
    const hold = vi.spyOn(scheduler, 'hold');
    await scheduler.run('metadata', 0, async () => {});
    competition.observe(scheduler.endInterval());
    await vi.advanceTimersByTimeAsync(1000);
    expect(hold).not.toHaveBeenCalled();
    competition.close();
  });

  it('leaves nobody held when it ends', async () => {
    const { scheduler, competition } = competitionOf();
    await loops(scheduler, 900);
    competition.observe(scheduler.endInterval());
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
    expect(competition.capacityBytes).toBe(10_000_000);
    busy.share = 0.8;
    competition.observe(half);
    expect(competition.capacityBytes).toBe(1_250_000);
    // Never below what has just been served.
    competition.observe({ ...half, smallFile: { ...interval, servedBytes: 5_000_000 } });
    expect(competition.capacityBytes).toBe(6_000_000);
    const given = competitionOf(false);
    given.busy.share = 1;
    given.competition.observe(half);
    expect(given.competition.capacityBytes).toBe(10_000_000);
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
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 1e9 })).toBe(10_000_000);
    expect(competition.smallFilesAlone({ ...ended, waitedMs: 30, ranMs: 0 })).toBe(1000);
  });
});
