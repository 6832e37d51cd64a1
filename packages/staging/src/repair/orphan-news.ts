import { StoreError } from '../errors.js';
import type { OrphanReport } from './orphans.js';

/**
 * Reports of files in FastDFS that no record names: those of this store that
 * are left, each time, and those that may be another program's, once each.
 */
export class OrphanNews {
  readonly #told = new Set<string>();

  errors({ orphans, possible }: OrphanReport): StoreError[] {
    const errors: StoreError[] = [];
    for (const { fileId, bytes, fate, detail } of orphans) {
      if (fate !== 'left') continue;
      const text = `${fileId} (${bytes} bytes) is in FastDFS and in no record: ${detail}`;
      errors.push(new StoreError('storage_unavailable', text, { retryable: true }));
    }
    for (const { fileId, bytes, key } of possible) {
      if (this.#told.has(fileId)) continue;
      this.#told.add(fileId);
      const text = `${fileId} (${bytes} bytes) may be a second copy of ${key ?? 'a large file that was deleted'}; it is left, for it may be another program's`;
      errors.push(new StoreError('storage_unavailable', text));
    }
    return errors;
  }
}
