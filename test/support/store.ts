import { type FileStore, type OpenOptions, open } from '@stevedore/client';
import { onTestFinished } from 'vitest';
import { temporaryFolder } from './temporary.js';

/** A store with small sizes over an embedded node, closed when the test ends. */

export const SMALL = { trunkSize: '1MiB', smallFileLimit: '256KiB', maxFileSize: '8MiB' } as const;

export async function openStore(options: OpenOptions = {}): Promise<FileStore> {
  const store = await open({ directory: temporaryFolder(), ...SMALL, ...options });
  onTestFinished(() => store.close());
  return store;
}
