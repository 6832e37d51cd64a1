import { type FileStore, type OpenOptions, open } from '@stevedore/client';
import { onTestFinished } from 'vitest';
import { until } from './staging.js';
import { temporaryFolder } from './temporary.js';

/** A store with small sizes over an embedded node, closed when the test ends. */

export const SMALL = { trunkSize: '1MiB', smallFileLimit: '256KiB', maxFileSize: '8MiB' } as const;

export async function openStore(options: OpenOptions = {}): Promise<FileStore> {
  const store = await open({ directory: temporaryFolder(), ...SMALL, ...options });
  onTestFinished(() => store.close());
  return store;
}

/**
 * With no bytes of its files on this disk, if it retains none: the newest segment stays in any
 * case, and is one of another file then.
 */
export async function emptied(store: FileStore): Promise<FileStore> {
  await store.put('something else');
  await store.flush();
  await until(() => store.stats().containerBytes < 5000);
  return store;
}
