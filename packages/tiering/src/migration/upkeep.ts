import type { OpenCopy } from '../tiers/record-rows.js';
import { groupOf, isCopy, type RemoteFiles, tagOf } from '../tiers/remote-files.js';
import type { Tier } from '../tiers/tier.js';

/**
 * Deletes what moves left in other groups: unwanted copies, after a grace period for their readers,
 * and orphans. An orphan is a copy that was stored although this storage never learned of it,
 * because of a crash or a lost reply. It has the extension of these records and the size and CRC-32
 * of a copy without a known result, but no record.
 */

export interface UpkeepParts {
  readonly tiers: readonly Tier[];
  readonly remote: RemoteFiles;
  readonly graceMs: number;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const INTERVAL_MS = 1000;
/** Of one store path, in one round. */
const MAX_DELETIONS = 500;
/** Stock storages buffer their binlog: a listing can lack the last minute. */
const LIST_AFTER_MS = 120_000;
/** Pause after a group could not be listed. */
const LIST_PAUSE_MS = 60_000;

export class Upkeep {
  readonly #parts: UpkeepParts;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #isClosed = false;
  #listAfterMs = 0;
  #orphans = 0;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /** Orphans found since the start. */
  get orphans(): number {
    return this.#orphans;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#working ??= this.work().finally(() => {
        this.#working = undefined;
      });
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#working;
  }

  /** One round; what fails is retried in a later one. */
  async work(): Promise<void> {
    const { tiers, now, onError } = this.#parts;
    for (const tier of tiers) await this.#deleteDeparted(tier);
    if (now() < this.#listAfterMs) return;
    try {
      for (const tier of tiers) await this.#findOrphans(tier);
    } catch (error) {
      this.#listAfterMs = now() + LIST_PAUSE_MS;
      if (!this.#isClosed) onError(error);
    }
  }

  async #deleteDeparted({ records }: Tier): Promise<void> {
    const { remote, graceMs, now } = this.#parts;
    const since = Math.floor((now() - graceMs) / 1000);
    const lost = new Set<string>();
    for (const id of records.unwanted(since, MAX_DELETIONS)) {
      const group = groupOf(id);
      if (this.#isClosed || lost.has(group)) continue;
      try {
        await remote.remove(id);
        records.removeUnwanted(id);
      } catch {
        // The group is away.
        lost.add(group);
      }
    }
  }

  async #findOrphans(tier: Tier): Promise<void> {
    const { remote, now } = this.#parts;
    const { records } = tier;
    const before = Math.floor((now() - LIST_AFTER_MS) / 1000);
    const isOver = ({ id, sinceSeconds }: OpenCopy): boolean =>
      sinceSeconds <= before && !tier.moves.isCopying(id);
    const over = records.openCopies().filter(isOver);
    for (const target of new Set(over.map((each) => each.target))) {
      const copies = over.filter((each) => each.target === target);
      const unsure = new Set<number>();
      for await (const id of remote.list(target, tagOf(records.owner))) {
        if (this.#isClosed) return;
        const mayBe = records.openCopies().filter((each) => isCopy(id, each.size, each.crc32));
        if (mayBe.length === 0 || records.hasRemote(id)) continue;
        if (!mayBe.every(isOver)) {
          // It may be in progress: its record follows.
          for (const each of mayBe) unsure.add(each.id);
          continue;
        }
        this.#orphans += 1;
        records.addUnwanted(id, 0);
      }
      for (const { id } of copies) {
        if (!unsure.has(id)) records.endCopy(id);
      }
    }
    if (over.length > 0) await records.commit();
  }
}
