import { setTimeout as sleep } from 'node:timers/promises';
import { type DeploymentMap, type MappedFile, openMap } from '@stevedore/map';
import {
  Deployment,
  type DeploymentParts,
} from '../../../packages/client/dist/deployment/deployment.js';
import { MapCache } from '../../../packages/client/dist/deployment/map-cache.js';
import { FileMap } from '../../../packages/staging/dist/filemap/filemap.js';
import type { Zipf } from '../harness/zipf.js';

/** What gateways ask the map: counted at the product's own Deployment and MapCache. */

/** Statements a second of a gateway that has nothing to do. */
export async function measureIdleStatements(directory: string, seconds: number): Promise<number> {
  let statements = 0;
  const real = await openMap('sqlite::memory:');
  const map = new Proxy(real, {
    get: (target, name: keyof DeploymentMap) => {
      const method = target[name] as ((...args: unknown[]) => unknown) | boolean;
      if (typeof method === 'boolean') return method;
      return (...args: unknown[]) => {
        if (name !== 'listen') statements += 1;
        return method.apply(target, args);
      };
    },
  });
  const joining = { instance: '0'.repeat(32), origin: 1, url: undefined, place: 'here' };
  const joined = await real.join(joining);
  const fileMap = FileMap.open(`${directory}.sqlite`, 'changes');
  const troubles: Error[] = [];
  const deployment = new Deployment({
    ...{ map, joining, joined, hasCopies: false, outbox: fileMap.outbox! },
    ...{ lastRun: { secret: undefined, gateways: [] }, saveRun: async () => undefined },
    staged: () => ({ files: 0, bytes: 0 }),
    // There is nothing to adopt.
    adoption: {} as DeploymentParts['adoption'],
    deleteHere: async () => false,
    forget: () => undefined,
    report: (error) => troubles.push(error),
    now: Date.now,
    onRefused: (error) => troubles.push(error),
  });
  deployment.start();
  // The first round asks for more than the others.
  await sleep(FIRST_ROUND_MS);
  statements = 0;
  await sleep(seconds * 1000);
  const counted = statements / seconds;
  await deployment.close();
  await fileMap.close();
  for (const trouble of troubles) throw trouble;
  return counted;
}

const FIRST_ROUND_MS = 200;
/** `FOUND_MS` of MapCache, in seconds: the map's answers are good for so long. */
const KNOWN_SECONDS = 60;
const REQUESTS_PER_TURN = 100;

/**
 * Keys a second that a gateway asks the map for: all requests of the minute for which it keeps
 * answers, through its own memory of them.
 */
export async function lookupsPerSecond(
  /** Of keys of other gateways, at one gateway. */
  readsPerSecond: number,
  zipf: Zipf,
  /** No more are driven; the share of them that asks is taken for the rest. */
  maxRequests: number,
): Promise<number> {
  const requests = Math.min(maxRequests, Math.ceil(readsPerSecond * KNOWN_SECONDS));
  let asked = 0;
  const find = async (keys: readonly Uint8Array[]) => {
    asked += keys.length;
    return keys.map(() => FOUND);
  };
  const known = new MapCache({ find });
  for (let done = 0; done < requests; done += REQUESTS_PER_TURN) {
    const turn = Array.from({ length: Math.min(REQUESTS_PER_TURN, requests - done) }, async () => {
      const key = keyOf(zipf.next());
      if (!known.known(key)) await known.ask(key);
    });
    await Promise.all(turn);
  }
  return readsPerSecond * (asked / requests);
}

const FOUND: MappedFile = {
  ...{ trunkFileId: '', isThin: false, offset: 0, size: 0, crc32: 0, about: '', expiresAt: null },
};

function keyOf(rank: number): Buffer {
  const key = Buffer.alloc(16);
  key.writeDoubleBE(rank, 8);
  return key;
}
