import { type DeploymentMap, originOf } from '@stevedore/map';

/**
 * Deletions that other servers made of files of this one, or of those that it has adopted. Nobody reads
 * such a file here once it is heard of; then its bytes are given up, and the map learns of that.
 */

export interface OwnRemovalsParts {
  readonly map: Pick<DeploymentMap, 'removalsFor' | 'remove'>;
  /** Of this server, and those that it has adopted. */
  readonly origins: () => readonly number[];
  /** Deletes a file of this server; false if there is none. */
  readonly deleteHere: (key: Buffer) => Promise<boolean>;
  readonly onHeard: (key: Buffer) => void;
  readonly onFailure: (error: Error) => void;
}

const MAX_DELETIONS = 500;
/** For what no removal in the map has announced. */
const INTERVAL_MS = 60_000;
/** While the FileMap is being rebuilt, or the disk is full, some cannot be deleted yet. */
const RETRY_MS = 2_000;

export class OwnRemovals {
  readonly #parts: OwnRemovalsParts;
  #lookAt = 0;
  #deleting: Promise<void> | undefined;

  constructor(parts: OwnRemovalsParts) {
    this.#parts = parts;
  }

  /** A removal in the map, of whichever server's file. */
  noteRemoved(key: Buffer): void {
    if (this.#parts.origins().includes(originOf(key))) this.lookSoon();
  }

  lookSoon(): void {
    this.#lookAt = 0;
  }

  /** Resolves when no deletion is under way. */
  get settled(): Promise<void> {
    return this.#deleting ?? Promise.resolve();
  }

  /** Files that others have deleted, and this server has not yet: no read here finds them now. */
  async hear(limit: number): Promise<readonly Buffer[]> {
    const { map, origins, onHeard } = this.#parts;
    const found = await map.removalsFor(origins(), limit);
    const keys = found.map((key) => Buffer.from(key));
    for (const key of keys) onHeard(key);
    return keys;
  }

  /**
   * Deletes here what others have deleted, if it is time to look. A partner that does not answer holds
   * up deletions here, but not what readers must hear.
   */
  async carryOut(): Promise<void> {
    const began = performance.now();
    if (began < this.#lookAt) return;
    const keys = await this.hear(MAX_DELETIONS);
    if (this.#deleting) return;
    this.#lookAt = keys.length < MAX_DELETIONS ? began + INTERVAL_MS : 0;
    this.#deleting = this.#delete(keys)
      .catch(this.#parts.onFailure)
      .finally(() => {
        this.#deleting = undefined;
      });
  }

  async #delete(keys: readonly Buffer[]): Promise<void> {
    const { map, deleteHere } = this.#parts;
    const settled = await Promise.allSettled(keys.map((key) => deleteHere(key)));
    const deleted = keys.filter((_, index) => settled[index]?.status === 'fulfilled');
    if (deleted.length < keys.length) this.#lookAt = performance.now() + RETRY_MS;
    const removed = deleted.map((key) => ({ key }));
    if (removed.length > 0) await map.remove(removed, true);
  }
}
