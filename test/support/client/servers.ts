import type { OpenOptions } from '@stevedore/client';
import type { GatewayStore } from '@stevedore/client/internal';
import { plainStore } from '../store.js';

/** A server of a deployment that merges only on `flush()`. */
export async function server(options: OpenOptions): Promise<GatewayStore> {
  const store = await plainStore({ idMaxAge: 0, mergeMaxAge: '1h', ...options });
  store.on('error', () => {});
  return store;
}

export const bytesOf = async (store: GatewayStore, id: string) =>
  (await (await store.get(id)).bytes()).toString();
