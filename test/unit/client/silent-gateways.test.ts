import type { Gateway } from '@stevedore/map';
import { expect, it } from 'vitest';
import { adoptable } from '../../../packages/client/dist/adoption/silent-gateways.js';
import { Gateways, type GatewaysParts } from '../../../packages/client/dist/deployment/gateways.js';

/** Which gateways one adopts by itself, and when. */

const AFTER_MS = 300_000;
const NOW = 1_000_000_000;
const OWN = { origin: 1, afterMs: AFTER_MS, steadyMs: AFTER_MS };

const gateway = (origin: number, more: Partial<Gateway> = {}): Gateway => ({
  ...{ origin, instance: `${origin}`, url: `http://10.0.0.${origin}`, place: `h${origin}:/data#x` },
  ...{ seenAt: NOW, staged: { files: 0, bytes: 0 }, holder: undefined, adoption: undefined },
  ...more,
});
const silent = (origin: number, more: Partial<Gateway> = {}) =>
  gateway(origin, { seenAt: NOW - AFTER_MS, ...more });
const adoptionBy = (by: number, isDone = true) => ({ by, isDone, trunks: 0, adopted: 0 });

const chosen = (others: readonly Gateway[], own: Partial<typeof OWN> = {}) =>
  adoptable([gateway(1), ...others], { ...OWN, ...own }, NOW).map(({ origin }) => origin);

it('adopts who is silent for long enough, the longest silent one first', () => {
  expect(chosen([silent(2), silent(3, { seenAt: 0 })])).toEqual([3, 2]);
  expect(chosen([gateway(2), gateway(3, { seenAt: NOW - AFTER_MS + 1 })])).toEqual([]);
  expect(chosen([silent(2)], { afterMs: 0 })).toEqual([]);
});

it('leaves a gateway to the one that holds its copies, unless that one is adopted itself', () => {
  expect(chosen([silent(2, { holder: 3 }), gateway(3)])).toEqual([]);
  expect(chosen([silent(2, { holder: 1 }), gateway(3)])).toEqual([2]);
  expect(chosen([silent(2, { holder: 3 }), silent(3)])).toEqual([3]);
  expect(chosen([silent(2, { holder: 3 }), silent(3, { adoption: adoptionBy(4) })])).toEqual([2]);
});

it('adopts one after the other, and none that is adopted, its own worker, or left nothing', () => {
  const underWay = silent(2, { adoption: adoptionBy(1, false) });
  expect(chosen([underWay, silent(3)])).toEqual([]);
  expect(chosen([silent(2, { adoption: adoptionBy(1) }), silent(3)])).toEqual([3]);
  expect(chosen([silent(2, { place: 'h1:/data/workers/2#y' })])).toEqual([]);
  expect(chosen([silent(2, { place: '' })])).toEqual([]);
  expect(chosen([silent(2, { place: '', staged: { files: 1, bytes: 1 } })])).toEqual([2]);
  const own = gateway(1, { adoption: adoptionBy(3) });
  expect(adoptable([own, silent(2)], OWN, NOW)).toEqual([]);
});

it('an outage of the map adopts nobody: those that come back later have their time', async () => {
  let now = NOW;
  const list = () => [gateway(1, { seenAt: now }), gateway(2)];
  const map = { heartbeat: async () => ({ isOurs: true, gateways: list() }) };
  const lastRun = { secret: undefined, gateways: [] };
  const gateways = new Gateways({
    ...{ map, joining: { origin: 1, place: 'h1:/data#x' }, joined: { origin: 1, secret: '' } },
    ...{ lastRun, saveRun: async () => undefined, staged: () => ({ files: 0, bytes: 0 }) },
    now: () => now,
  } as unknown as GatewaysParts);
  const adopted = () => {
    const own = { ...OWN, steadyMs: gateways.steadyMs };
    return adoptable(gateways.list, own, gateways.mapNow()).map(({ origin }) => origin);
  };
  const beatFor = async (ms: number) => {
    for (const end = now + ms; now < end; now += 10_000) await gateways.heartbeat();
  };
  expect(adopted()).toEqual([]);
  await beatFor(60_000);
  now += 2 * AFTER_MS;
  await beatFor(AFTER_MS);
  expect(adopted()).toEqual([]);
  await beatFor(10_001);
  expect(adopted()).toEqual([2]);
});
