import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { afterAll, onTestFinished } from 'vitest';
import { freePort } from './free-port.js';

/** Gateways of one deployment, in this process, that merge when they are told. */

type AtTheEnd = (work: () => Promise<void>) => void;

const ofTest: AtTheEnd = (work) => void onTestFinished(work);
/** For fixtures of a whole file. */
export const ofFile: AtTheEnd = (work) => void afterAll(work);

export function newFolder(atTheEnd = ofTest): string {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  atTheEnd(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function deployedGateway(input: GatewayInput, atTheEnd = ofTest): Promise<Gateway> {
  const port = await freePort();
  const gateway = await startGateway({
    ...{ directory: newFolder(atTheEnd), port, peerUrl: `http://127.0.0.1:${port}`, idMaxAge: 0 },
    ...{ trackerPort: 0, storagePort: 0, mergeMaxAge: '1h', logLevel: 'silent' },
    ...input,
  });
  atTheEnd(() => gateway.close());
  return gateway;
}

/** Two that know each other; the first has the embedded FastDFS. */
export async function deployedPair(
  options: GatewayInput = {},
  ofSecond: GatewayInput = {},
  atTheEnd = ofTest,
) {
  const map = options.map ?? `sqlite:${join(newFolder(atTheEnd), 'map.db')}`;
  const first = await deployedGateway({ ...options, map }, atTheEnd);
  const trackers = first.store.trackers.join(',');
  const second = await deployedGateway({ ...options, map, trackers, ...ofSecond }, atTheEnd);
  return { map, first, second, trackers };
}
