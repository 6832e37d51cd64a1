import { GrowingPause, Wakeup } from '@stevedore/async';
import { StoreError } from '../errors.js';
import type { TrunkRow } from '../filemap/filemap.js';
import type { State } from '../state.js';

/**
 * Keeps the copies on this disk until enough storages are known to have the trunk, with its size
 * and CRC-32. Checks a trunk whose copies are late again with growing pauses, for as long as it
 * takes; reads and merging do not wait for it.
 */
const PAGE_TRUNKS = 100;
const PAUSES = { firstMs: 250, lastMs: 30_000 };
const ASK_TIMEOUT_MS = 10_000;

export class Confirmations {
  readonly #state: State;
  readonly #pause = new GrowingPause(PAUSES);
  readonly #wakeup = new Wakeup();
  #running: Promise<void> | undefined;
  /** It was reported that the group has too few storages for the required copies. */
  #isReported = false;

  constructor(state: State) {
    this.#state = state;
    state.changes.on('stored', () => {
      this.#pause.reset();
      this.#wakeup.wake();
    });
  }

  start(): void {
    this.#running = this.#run();
  }

  async ended(): Promise<void> {
    this.#wakeup.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { changes, fileMap } = this.#state;
    while (!changes.isOver) {
      await this.#check();
      if (changes.isOver) return;
      const isLeft = fileMap.countUncopied() > 0;
      await this.#wakeup.next(isLeft ? this.#pause.next() : PAUSES.lastMs);
    }
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    const { fileMap, now, changes } = this.#state;
    let confirmed = 0;
    let failure: Error | undefined;
    const silent = new Set<string>();
    for (let after = 0; ; ) {
      const page = fileMap.uncopiedTrunks(after, PAGE_TRUNKS);
      for (const trunk of page) {
        if (changes.isOver) return;
        const group = trunk.fileId.slice(0, trunk.fileId.indexOf('/'));
        if (silent.has(group)) continue;
        try {
          if (!(await this.#hasEnough(trunk))) continue;
          fileMap.setCopied(now(), trunk.id);
          confirmed += 1;
        } catch (error) {
          // It must not hold up the trunks of other groups, nor be asked for each of its own.
          silent.add(group);
          failure ??= error as Error;
        }
      }
      if (page.length < PAGE_TRUNKS) break;
      after = page.at(-1)!.id;
    }
    if (failure && !changes.isOver) changes.report(failure);
    if (confirmed > 0) changes.emit('removable');
  }

  async #hasEnough(trunk: TrunkRow): Promise<boolean> {
    const { trunkStore, options, changes } = this.#state;
    const wanted = options.confirmCopies ?? 0;
    // Storing it, with the right size and CRC-32, is the first confirmation.
    if (wanted === 1) return true;
    const timeout = AbortSignal.timeout(ASK_TIMEOUT_MS);
    const signal = AbortSignal.any([timeout, changes.stopped]);
    const { holders, members } = await trunkStore.replicas(trunk.fileId, signal);
    if (wanted > members && !this.#isReported) {
      this.#isReported = true;
      const why = `${wanted} storages are to have ${trunk.fileId}, its storage group has ${members} active`;
      changes.report(
        new StoreError(
          'storage_unavailable',
          `${why}; staged copies stay until then: add storages, or lower confirmCopies`,
        ),
      );
    }
    return holders.length >= (wanted || Math.min(2, Math.max(members, 1)));
  }
}
