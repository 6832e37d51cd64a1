import { Child } from './child.js';
import type { StorageHandlers } from './storage-process.js';

/** The parent's end of a tracker and a storage in a process of their own. */
export class StorageNode implements AsyncDisposable {
  readonly #child = new Child<StorageHandlers>(
    'storage',
    new URL('./storage-process.js', import.meta.url),
  );

  /** The result is the tracker's address. */
  start(directory: string, count = 1): Promise<string> {
    return this.#child.call('start', { directory, count });
  }

  cpuSeconds(): Promise<number> {
    return this.#child.cpuSeconds();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }
}
