import type { DeploymentMap, RemovedFile } from '@stevedore/map';
import type { Outbox, OutboxEntry } from '@stevedore/staging';

/**
 * Publishes the outbox of this server's FileMap to the map, in order. An entry leaves the outbox
 * once the map has it; after a crash in between, it is published again.
 */

const MAX_ENTRIES = 5_000;
/** Maximum files per statement of the map, so that none holds up the event loop for long. */
const MAX_FILES = 2_000;

export class Publisher {
  readonly #map: Pick<DeploymentMap, 'place' | 'remove' | 'retire'>;
  readonly #outbox: Outbox;

  constructor(map: Pick<DeploymentMap, 'place' | 'remove' | 'retire'>, outbox: Outbox) {
    this.#map = map;
    this.#outbox = outbox;
  }

  /** Number of waiting entries. */
  get pending(): number {
    return this.#outbox.pending;
  }

  /** Publishes for about `ms`; true if there is more. */
  async publish(ms: number, onPublished: (entries: number) => void = () => {}): Promise<boolean> {
    const end = performance.now() + ms;
    for (;;) {
      const entries = this.#outbox.read(MAX_ENTRIES);
      if (entries.length === 0) return false;
      for (let at = 0; at < entries.length; ) {
        const { id, count } = await this.#publishSome(entries, at);
        this.#outbox.forget(id);
        onPublished(count);
        at += count;
        if (performance.now() > end) return true;
      }
    }
  }

  /** Publishes a run of deletions, or one trunk. Returns the last entry's id and their number. */
  async #publishSome(
    entries: readonly OutboxEntry[],
    at: number,
  ): Promise<{ readonly id: number; readonly count: number }> {
    const first = entries[at]!;
    if (first.what === 'trunk') {
      const { taskId, state, fileId, thin } = first.trunk;
      if (state === 'retired') await this.#map.retire(taskId);
      if (state === 'confirmed') {
        const trunk = { id: taskId, fileId, isThin: thin > 0 };
        for (let files = first.files(-1, MAX_FILES); ; ) {
          await this.#map.place(trunk, files);
          if (files.length < MAX_FILES) break;
          files = first.files(files.at(-1)!.offset, MAX_FILES);
        }
      }
      return { id: first.id, count: 1 };
    }
    const removed: RemovedFile[] = [];
    let last = first.id;
    for (const entry of entries.slice(at)) {
      if (entry.what !== 'deletion') break;
      removed.push({ key: entry.key, trunk: entry.taskId });
      last = entry.id;
    }
    await this.#map.remove(removed, true);
    return { id: last, count: removed.length };
  }
}
