import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Probe, Probes } from '../../../packages/tiering/dist/scheduler/probes.js';
import {
  type RequestClass,
  Scheduler,
} from '../../../packages/tiering/dist/scheduler/scheduler.js';

const INTERVAL_MS = 1000;
const LOOK_MS = 50;

/** Both classes have requests, or no longer have. */
interface Change {
  readonly isThere: boolean;
  readonly atMs: number;
}

/** Made-up time: nothing here waits. */
describe('probes', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function probesOf({ isClockStill = false } = {}) {
    const startedAtMs = vi.getMockedSystemTime()!.getTime();
    const passed = (): number => vi.getMockedSystemTime()!.getTime() - startedAtMs;
    // A clock that is far on: nothing may take its zero for a beginning.
    const now = (): number => 1e9 + (isClockStill ? 0 : passed());
    const limits = { maxRunning: 64, maxBesideMetadata: 4, maxWaitMs: 10_000 };
    const scheduler = new Scheduler({ ...limits, now });
    /** When small files were held back, and let go. */
    const holds: { readonly fromMs: number; toMs: number }[] = [];
    const [hold, release] = [scheduler.hold.bind(scheduler), scheduler.release.bind(scheduler)];
    vi.spyOn(scheduler, 'hold').mockImplementation((onAlone) => {
      holds.push({ fromMs: passed(), toMs: Number.NaN });
      hold(onAlone);
    });
    vi.spyOn(scheduler, 'release').mockImplementation(() => {
      const last = holds.at(-1);
      if (last) last.toMs = passed();
      release();
    });
    const seen: Probe[] = [];
    const competition: Change[] = [];
    const probes = new Probes({
      scheduler,
      intervalMs: INTERVAL_MS,
      busyMeter: () => () => 0,
      now,
      onCompetition: (isThere) => competition.push({ isThere, atMs: passed() }),
      onProbe: (probe) => seen.push(probe),
    });
    probes.start();
    const request = (kind: RequestClass, ms: number) =>
      scheduler.run(kind, 1000, () => new Promise<void>((resolve) => setTimeout(resolve, ms)));
    /** A client that asks again as soon as it is answered. */
    const client = async (kind: RequestClass, ms: number): Promise<void> => {
      for (;;) await request(kind, ms);
    };
    return { probes, scheduler, holds, seen, competition, request, client };
  }

  it('take a class to be there until an interval after its last request', async () => {
    const { competition, request, probes } = probesOf();
    await vi.advanceTimersByTimeAsync(5);
    void request('smallFile', 10);
    void request('metadata', 10);
    await vi.advanceTimersByTimeAsync(3 * INTERVAL_MS);
    expect(competition).toEqual([
      { isThere: true, atMs: LOOK_MS },
      { isThere: false, atMs: expect.any(Number) },
    ]);
    const [{ atMs: fromMs }, { atMs: toMs }] = competition as [Change, Change];
    expect(toMs - fromMs).toBeGreaterThanOrEqual(INTERVAL_MS);
    // A probe that has begun ends first.
    expect(toMs - fromMs).toBeLessThan(3 * INTERVAL_MS);
    probes.close();
  });

  it('begin one request after small files stop, last for three, and leave varying pauses', async () => {
    const { holds, seen, client, probes } = probesOf();
    void client('metadata', 10);
    void client('smallFile', 5);
    await vi.advanceTimersByTimeAsync(15 * INTERVAL_MS);
    probes.close();
    const ended = holds.slice();
    await vi.advanceTimersByTimeAsync(2 * INTERVAL_MS);
    expect(holds).toEqual(ended);
    // Closing ended the last of them.
    ended.pop();
    expect(ended.length).toBeGreaterThan(15);
    for (const { fromMs, toMs } of ended) {
      expect(toMs - fromMs).toBeGreaterThanOrEqual(40);
      expect(toMs - fromMs).toBeLessThanOrEqual(47);
    }
    const pauses = ended.slice(1).map(({ fromMs }, at) => fromMs - ended[at]!.toMs);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(15 * 30);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(23 * 30 + LOOK_MS);
    expect(Math.max(...pauses) - Math.min(...pauses)).toBeGreaterThan(4 * 30);
    for (const [at, pause] of pauses.slice(1).entries()) expect(pause).not.toBe(pauses[at]);
    // Each request is of 1000 bytes.
    expect(seen[0]!.beside).toBeUndefined();
    for (const { alone, beside } of seen.slice(1)) {
      expect(alone.ms).toBe(30);
      for (const { bytes, requests, ms } of [alone, beside!]) {
        expect(bytes).toBe(1000 * requests);
        expect(Math.abs(requests - ms / 10)).toBeLessThanOrEqual(1);
      }
    }
  });

  it('are given up where a small file does not leave the disk, and begin again later', async () => {
    const { holds, seen, client, request, probes } = probesOf();
    void client('metadata', 1);
    void client('smallFile', 1);
    void request('smallFile', 2 * INTERVAL_MS);
    await vi.advanceTimersByTimeAsync(2 * INTERVAL_MS - 100);
    expect(seen).toEqual([]);
    expect(holds.length).toBeGreaterThan(2);
    // Four times what the probe itself would have taken.
    for (const { fromMs, toMs } of holds.slice(0, -1)) expect(toMs - fromMs).toBe(50);
    await vi.advanceTimersByTimeAsync(INTERVAL_MS);
    expect(seen.length).toBeGreaterThan(1);
    probes.close();
  });

  it('hold small files back for no more than two intervals where metadata is slow', async () => {
    const { holds, client, request, probes } = probesOf();
    void client('smallFile', 5);
    void request('metadata', 10);
    await vi.advanceTimersByTimeAsync(LOOK_MS);
    // It does not end between two probes: it may take as long as that has been.
    void request('metadata', 25 * INTERVAL_MS);
    await vi.advanceTimersByTimeAsync(28 * INTERVAL_MS);
    const lengths = holds.map(({ fromMs, toMs }) => toMs - fromMs);
    const sinceMs = holds[1]!.fromMs - holds[0]!.toMs;
    expect(sinceMs).toBeLessThan(INTERVAL_MS);
    expect(Math.abs(lengths[1]! - (sinceMs + INTERVAL_MS))).toBeLessThanOrEqual(5);
    expect(lengths.length).toBeGreaterThan(2);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(2 * INTERVAL_MS + 5);
    probes.close();
  });

  it('say nothing where the clock stands still', async () => {
    const { holds, seen, client, probes } = probesOf({ isClockStill: true });
    void client('metadata', 1);
    void client('smallFile', 1);
    await vi.advanceTimersByTimeAsync(INTERVAL_MS);
    expect(holds).toHaveLength(1);
    expect(seen).toEqual([]);
    probes.close();
  });
});
