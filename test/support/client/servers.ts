import { type FileStore, type OpenOptions, open } from '@stevedore/client';
import { onTestFinished } from 'vitest';
import { temporaryFolder } from '../temporary.js';

/** A server of a deployment that merges only on `flush()`. */
export async function server(options: OpenOptions): Promise<FileStore> {
  const directory = temporaryFolder();
  const store = await open({ idMaxAge: 0, directory, mergeMaxAge: '1h', ...options });
  store.on('error', () => {});
  onTestFinished(() => store.close());
  return store;
}

export const bytesOf = async (store: FileStore, id: string) =>
  (await (await store.get(id)).bytes()).toString();
