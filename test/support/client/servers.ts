import type { FileStore, OpenOptions } from '@stevedore/client';
import { plainStore } from '../store.js';

/** A server of a deployment that merges only on `flush()`. */
export async function server(options: OpenOptions): Promise<FileStore> {
  const store = await plainStore({ idMaxAge: 0, mergeMaxAge: '1h', ...options });
  store.on('error', () => {});
  return store;
}

export const bytesOf = async (store: FileStore, id: string) =>
  (await (await store.get(id)).bytes()).toString();
