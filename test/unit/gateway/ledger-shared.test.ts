import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  LocalLedger,
  type ReserveInMap,
  UnfinishedCharges,
  UploadAccount,
} from '../../../gateway/dist/access/ledger.js';
import { Random } from '../../support/random.js';

/** Ledgers of several servers, and what unfinished uploads give back. */

const DAY_MS = 86_400_000;
const LIMIT_BYTES = 100_000;
const key = { id: 'k', bytesPerDay: LIMIT_BYTES };

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

/** Counts as a map does. */
class MemoryMap {
  readonly bytes = new Map<number, number>();
  isAway = false;
  servers = 1;

  readonly liveServers = async (): Promise<number> => {
    if (this.isAway) throw new Error('away');
    return this.servers;
  };

  readonly reserveUsage: ReserveInMap = async (day, asks) => {
    await Promise.resolve();
    if (this.isAway) throw new Error('away');
    return asks.map(({ id, usedBytes, wantedBytes, limitBytes }) => {
      const counted = Math.max(0, (this.bytes.get(day) ?? 0) + usedBytes);
      const grantedBytes = Math.max(0, Math.min(wantedBytes, limitBytes - counted));
      this.bytes.set(day, counted + grantedBytes);
      return { id, grantedBytes, bytes: counted + grantedBytes };
    });
  };
}

function ledgerOf(map: MemoryMap): LocalLedger {
  const ledger = new LocalLedger(Date.now);
  ledger.share(map);
  return ledger;
}

test.each([1, 2, 3, 4, 5])('servers never exceed a quota together: seed %i', async (seed) => {
  const random = new Random(seed);
  const map = new MemoryMap();
  const ledgers = [ledgerOf(map), ledgerOf(map), ledgerOf(map)];
  let stored = 0;
  let held = 0;
  const upload = async (ledger: LocalLedger) => {
    const account = new UploadAccount(ledger, key);
    let bytes = 0;
    try {
      for (let piece = random.below(5); piece >= 0; piece -= 1) {
        const more = random.below(3_000);
        await account.take(more);
        bytes += more;
        held += more;
        expect(stored + held).toBeLessThanOrEqual(LIMIT_BYTES);
        await vi.advanceTimersByTimeAsync(random.below(300));
      }
    } catch (error) {
      expect(error).toMatchObject({ code: 'quota_exceeded' });
      held -= bytes;
      return account.settle(0);
    }
    held -= bytes;
    stored += bytes;
    account.settle(bytes);
  };
  for (let round = 0; round < 40; round += 1) {
    await Promise.all(Array.from({ length: 4 }, () => upload(random.pick(ledgers))));
  }
  // Quiet servers return what they do not need.
  await vi.advanceTimersByTimeAsync(5_000);
  expect(map.bytes.get(0)).toBe(stored);
  expect(await ledgers[0]!.today()).toEqual([{ id: 'k', bytes: stored }]);
  const rest = LIMIT_BYTES - stored;
  if (rest > 0) expect(await ledgers[1]!.reserve(key, rest, rest)).toBe(rest);
  for (const ledger of ledgers) await ledger.close();
});

test('a server counts alone while the map is away, and reports it afterwards', async () => {
  const map = new MemoryMap();
  const [one, other] = [ledgerOf(map), ledgerOf(map)];
  map.isAway = true;
  expect(await one.reserve(key, 60_000, 60_000)).toBe(60_000);
  one.settle('k', 60_000, 50_000);
  map.isAway = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(map.bytes.get(0)).toBe(50_000);
  const refused = other.reserve(key, 60_000, 60_000);
  await expect(refused).rejects.toMatchObject({ code: 'quota_exceeded' });
  // An upload over midnight counts on the day on which it ends.
  expect(await other.reserve(key, 40_000, 40_000)).toBe(40_000);
  vi.setSystemTime(DAY_MS);
  other.settle('k', 40_000, 40_000);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(map.bytes.get(1)).toBe(40_000);
  for (const ledger of [one, other]) await ledger.close();
});

test('servers share the requests of a second, whoever is asked', async () => {
  const map = new MemoryMap();
  map.servers = 3;
  const ledgers = [ledgerOf(map), ledgerOf(map), ledgerOf(map)];
  await vi.advanceTimersByTimeAsync(1_000);
  const keys = {
    busy: { id: 'busy', requestsPerSecond: 30 },
    slow: { id: 'slow', requestsPerSecond: 1 },
  };
  const takenIn = async (seconds: number, limited: { id: string; requestsPerSecond: number }) => {
    let taken = 0;
    for (let tick = 0; tick < seconds * 20; tick += 1) {
      for (const ledger of ledgers) {
        for (let turn = 0; turn < 3; turn += 1) {
          try {
            ledger.request(limited);
            taken += 1;
          } catch (error) {
            expect(error).toMatchObject({ code: 'rate_limited' });
          }
        }
      }
      await vi.advanceTimersByTimeAsync(50);
    }
    return taken;
  };
  // The buckets are full in the beginning: a second's worth, and one request of each at least.
  const busy = await takenIn(10, keys.busy);
  expect(busy).toBeLessThanOrEqual(30 * 11);
  expect(busy).toBeGreaterThan(30 * 10);
  const slow = await takenIn(30, keys.slow);
  expect(slow).toBeLessThanOrEqual(30 + 3);
  expect(slow).toBeGreaterThan(27);
  // The map is away: as before. Then two are gone, and the third has it all.
  map.isAway = true;
  expect(await takenIn(10, keys.busy)).toBeLessThanOrEqual(30 * 11);
  map.isAway = false;
  map.servers = 1;
  for (const ledger of ledgers.splice(1)) await ledger.close();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await takenIn(10, keys.busy)).toBeGreaterThan(30 * 10);
  await ledgers[0]!.close();
});

test('a reservation that comes when its client has gone is given back', async () => {
  const map = new MemoryMap();
  const ledger = ledgerOf(map);
  const account = new UploadAccount(ledger, key);
  const taking = account.take(LIMIT_BYTES, LIMIT_BYTES);
  account.settle(0);
  await taking;
  expect(await ledger.reserve(key, LIMIT_BYTES, LIMIT_BYTES)).toBe(LIMIT_BYTES);
  await ledger.close();
});

test('an upload that got too old gives its bytes back, on the day on which they counted', async () => {
  const ledger = new LocalLedger(Date.now);
  const kept = new Set(['file', 'young']);
  const isKept = async (id: string) => kept.has(id);
  const charges = new UnfinishedCharges({ ledger, now: Date.now, isKept });
  charges.start();
  const store = async (id: string, bytes: number) => {
    ledger.settle('k', await ledger.reserve(key, bytes, bytes), bytes);
    charges.add(id, 'k', bytes);
  };
  const today = async () => (await ledger.today()).map(({ bytes }) => bytes);
  for (const id of ['old', 'file', 'young']) await store(id, 1_000);
  charges.keep(['file']);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await today()).toEqual([2_000]);
  vi.setSystemTime(DAY_MS);
  await store('young', 300);
  kept.clear();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await today()).toEqual([0]);
  charges.close();
});
