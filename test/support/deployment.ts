import { join } from 'node:path';
import type { Gateway, GatewayInput } from '@stevedore/gateway';
import { freePort } from './free-port.js';
import { plainGateway } from './store.js';
import { ofTest, temporaryFolder } from './temporary.js';

/** In-process gateways of one deployment. They merge only when flushed. */

export async function deployedGateway(input: GatewayInput, atTheEnd = ofTest): Promise<Gateway> {
  const port = await freePort();
  const own = { port, peerUrl: `http://127.0.0.1:${port}`, idMaxAge: 0, mergeMaxAge: '1h' };
  return await plainGateway({ ...own, ...input }, atTheEnd);
}

/** Two that know each other; the first has the FastDFS. */
export async function deployedPair(
  options: GatewayInput = {},
  ofSecond: GatewayInput = {},
  atTheEnd = ofTest,
) {
  const map = options.map ?? `sqlite:${join(temporaryFolder(atTheEnd), 'map.db')}`;
  const first = await deployedGateway({ ...options, map }, atTheEnd);
  const trackers = first.store.trackers.join(',');
  const second = await deployedGateway({ ...options, map, trackers, ...ofSecond }, atTheEnd);
  return { map, first, second, trackers };
}
