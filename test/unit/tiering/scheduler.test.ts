import { Status } from '@stevedore/protocol';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Scheduler } from '../../../packages/tiering/dist/scheduler/scheduler.js';

/** What a request costs beside its bytes. */
const ACCESS_BYTES = 100;

function schedulerOf(options: Partial<ConstructorParameters<typeof Scheduler>[0]> = {}) {
  const clock = { ms: 0 };
  const scheduler = new Scheduler({
    maxRunning: 1,
    maxBesideMetadata: 100,
    maxWaitMs: 1000,
    now: () => clock.ms,
    ...options,
  });
  const order: string[] = [];
  /** A request that runs until it is ended. */
  const request = (kind: 'metadata' | 'smallFile', name: string, bytes = 0) => {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const done = scheduler.run(kind, ACCESS_BYTES + bytes, async () => {
      order.push(name);
      await ended;
    });
    done.catch(() => {});
    return { end, done };
  };
  return { scheduler, order, request, clock };
}

describe('the scheduler', () => {
  it('serves metadata before small files, each in the order of arrival', async () => {
    const { order, request } = schedulerOf();
    const first = request('smallFile', 's1');
    const rest = [
      request('smallFile', 's2'),
      request('metadata', 'm1'),
      request('smallFile', 's3'),
      request('metadata', 'm2'),
    ];
    for (const { end } of rest) end();
    first.end();
    await Promise.all([first.done, ...rest.map(({ done }) => done)]);
    expect(order).toEqual(['s1', 'm1', 'm2', 's2', 's3']);
  });

  it('counts what it served and what waits, per class, with what an access costs', async () => {
    const { scheduler, request } = schedulerOf();
    const first = request('metadata', 'm', 24);
    const second = request('smallFile', 's', 400);
    expect(scheduler.endInterval()).toMatchObject({
      metadata: { servedBytes: 0, waitingBytes: 0 },
      smallFile: { servedBytes: 0, waitingBytes: 500, waitingRequests: 1 },
    });
    first.end();
    second.end();
    await Promise.all([first.done, second.done]);
    expect(scheduler.endInterval()).toMatchObject({
      metadata: { servedBytes: 124, servedRequests: 1, waitingBytes: 0 },
      smallFile: { servedBytes: 500, servedRequests: 1, waitingBytes: 0 },
    });
    expect(scheduler.endInterval().smallFile.servedBytes).toBe(0);
  });

  it('lets small files beyond their rate wait, and metadata go on', async () => {
    const { scheduler, order, request, clock } = schedulerOf({ maxRunning: 10 });
    scheduler.allow(15);
    clock.ms = 10;
    const small = [1, 2, 3].map((n) => request('smallFile', `s${n}`));
    const metadata = request('metadata', 'm');
    for (const each of [...small, metadata]) each.end();
    await metadata.done;
    // The second began while some was left: the rate may be passed by one request, and
    // those after it wait the longer.
    expect(order).toEqual(['s1', 's2', 'm']);
    clock.ms = 14;
    await small[2]!.done;
    expect(order.at(-1)).toBe('s3');
  });

  it('keeps what small files do not use of their rate for a moment only', async () => {
    const { scheduler, order, request, clock } = schedulerOf({ maxRunning: 10 });
    scheduler.allow(10);
    clock.ms = 60_000;
    const small = [1, 2, 3].map((n) => request('smallFile', `s${n}`));
    expect(order).toEqual(['s1']);
    scheduler.allow(undefined);
    for (const each of small) each.end();
    await Promise.all(small.map(({ done }) => done));
    expect(order).toEqual(['s1', 's2', 's3']);
  });

  it('serves small files in their order also when one comes just as there is credit again', async () => {
    const { scheduler, order, request, clock } = schedulerOf({ maxRunning: 10 });
    scheduler.allow(10);
    clock.ms = 10;
    const first = [1, 2].map((n) => request('smallFile', `s${n}`));
    clock.ms = 30;
    const all = [...first, request('smallFile', 's3')];
    scheduler.allow(undefined);
    for (const { end } of all) end();
    await Promise.all(all.map(({ done }) => done));
    expect(order).toEqual(['s1', 's2', 's3']);
  });

  it('counts as debt only what began under a rate', () => {
    const { scheduler, order, request, clock } = schedulerOf({ maxRunning: 10 });
    request('smallFile', 'large', 1e9);
    scheduler.allow(10);
    clock.ms = 1;
    request('smallFile', 'next');
    expect(order).toEqual(['large', 'next']);
  });

  it('looks once at what waits, when the debt is paid, and never where no rate holds it', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const now = (): number => vi.getMockedSystemTime()!.getTime();
    const { scheduler, order, request } = schedulerOf({ maxRunning: 2, now });
    const begunAt = now();
    scheduler.allow(10);
    // No credit yet, and no debt.
    const first = request('smallFile', 's1');
    await vi.advanceTimersToNextTimerAsync();
    expect([order, now() - begunAt]).toEqual([['s1'], 1]);
    request('smallFile', 's2');
    // 90 of the debt are left: a moment longer, as there must be some credit.
    await vi.advanceTimersToNextTimerAsync();
    await vi.advanceTimersToNextTimerAsync();
    expect([order, now() - begunAt]).toEqual([['s1', 's2'], 11]);
    // It waits for a place, with credit or without a rate.
    request('smallFile', 's3');
    await vi.advanceTimersByTimeAsync(100);
    expect(vi.getTimerCount()).toBe(0);
    scheduler.allow(undefined);
    request('smallFile', 's4');
    expect(vi.getTimerCount()).toBe(0);
    scheduler.allow(0);
    expect(vi.getTimerCount()).toBe(0);
    first.end();
    await first.done;
    expect(order).toEqual(['s1', 's2']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('tells how long requests waited for their turn, and how long they took', async () => {
    const { scheduler, request, clock } = schedulerOf();
    const first = request('metadata', 'm');
    const second = request('smallFile', 's');
    clock.ms = 25;
    first.end();
    await first.done;
    clock.ms = 30;
    second.end();
    await second.done;
    const { metadata, smallFile } = scheduler.endInterval();
    expect(metadata).toMatchObject({ waitedMs: 0, ranMs: 25 });
    expect(smallFile).toMatchObject({ waitedMs: 25, ranMs: 5 });
    expect(scheduler.endInterval().metadata).toMatchObject({ waitedMs: 0, ranMs: 0 });
  });

  it('lets few small files beside metadata, and all of them without', async () => {
    const { scheduler, order, request } = schedulerOf({ maxRunning: 10, maxBesideMetadata: 1 });
    const metadata = request('metadata', 'm');
    const small = [1, 2, 3].map((n) => request('smallFile', `s${n}`));
    expect(order).toEqual(['m', 's1']);
    expect(scheduler.running).toBe(2);
    metadata.end();
    await metadata.done;
    await Promise.resolve();
    expect(scheduler.running).toBe(3);
    for (const each of small) each.end();
    await Promise.all(small.map(({ done }) => done));
    expect(order).toEqual(['m', 's1', 's2', 's3']);
  });

  it('says busy when a queue is full, and to those who have waited too long', async () => {
    const { scheduler, request, clock } = schedulerOf();
    const first = request('metadata', 'first');
    const waiting = Array.from({ length: 4096 }, (_, index) => request('smallFile', `s${index}`));
    await expect(request('smallFile', 'more').done).rejects.toMatchObject({
      status: Status.tryAgain,
    });
    clock.ms = 999;
    scheduler.endInterval();
    clock.ms = 1001;
    expect(scheduler.endInterval().smallFile).toMatchObject({
      busyAnswers: 4096,
      waitingRequests: 0,
    });
    for (const { done } of waiting) {
      await expect(done).rejects.toMatchObject({ status: Status.tryAgain });
    }
    first.end();
    await first.done;
    const next = request('smallFile', 'next');
    next.end();
    await next.done;
    expect(scheduler.running).toBe(0);
  });

  it('frees the place of a request that failed', async () => {
    const { scheduler } = schedulerOf();
    const failed = scheduler.run('metadata', 0, () => Promise.reject(new Error('disk')));
    await expect(failed).rejects.toThrow('disk');
    expect(await scheduler.run('smallFile', 0, async () => 7)).toBe(7);
  });
});
