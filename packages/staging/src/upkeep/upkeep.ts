import type { Acceptance } from '../accept/acceptance.js';
import type { LocalCopies } from '../accept/local-copies.js';
import type { TrunkRow } from '../filemap/filemap.js';
import { joinIntervalMs } from '../merge/joining.js';
import type { MergeTask } from '../merge/merge-task.js';
import { OrphanWatch } from '../repair/orphan-watch.js';
import { Rebuild } from '../repair/rebuild.js';
import { Repairs } from '../repair/repair.js';
import { ScrubWatch } from '../repair/scrub-watch.js';
import type { State } from '../state.js';
import { Cleanup, Compaction, Retirement } from './compaction.js';
import { Deletions } from './deletions.js';

/**
 * The last phase: deletes, repairs, checks and reclaims what the phases above have stored, in the
 * background.
 */

/** How long opening waits for a FileMap that was lost, before it continues in the background. */
const REBUILD_GRACE_MS = 3_000;
const REBUILD_FIRST_MS = 600_000;
const EXPIRY_INTERVAL_MS = 10_000;

export class UpkeepPhase {
  readonly rebuild: Rebuild;
  readonly deletions: Deletions;
  readonly orphans: OrphanWatch;
  readonly repairs: Repairs;
  readonly scrubs: ScrubWatch;
  readonly #state: State;
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #cleanup: Cleanup;

  /** `unread`: trunks whose directories must be read into a lost FileMap. */
  constructor(
    state: State,
    acceptance: Acceptance,
    local: LocalCopies,
    { inFlight }: MergeTask,
    unread: readonly TrunkRow[],
  ) {
    this.#state = state;
    this.rebuild = new Rebuild(state, unread);
    this.deletions = new Deletions(state, this.rebuild);
    this.orphans = new OrphanWatch(state, { inFlight, rebuild: this.rebuild });
    this.repairs = new Repairs(state, acceptance);
    this.scrubs = new ScrubWatch(state, this.repairs);
    this.#retirement = new Retirement(state);
    this.#compaction = new Compaction(state, acceptance, local);
    this.#cleanup = new Cleanup(state, this.#retirement, this.#compaction, this.rebuild);
    state.changes.on('released', ({ kind, rows: [row] }) => {
      // The large file may have been deleted while it was in flight.
      if (kind !== 'whole' || !row || state.fileMap.find(row.key)) return;
      state.changes.run(state.spool.remove(row.key));
    });
  }

  /** Waits a moment for a lost FileMap, or as long as the options say. */
  async begin(): Promise<void> {
    const { rebuildsFirst = false } = this.#state.options;
    await this.rebuild.begin(rebuildsFirst ? REBUILD_FIRST_MS : REBUILD_GRACE_MS);
  }

  start(): void {
    const { changes, quarantine, unfinished, options, now } = this.#state;
    const { idMaxAge = 0, unfinishedAge = Number.POSITIVE_INFINITY } = options;
    if (options.findsOrphans ?? true) this.orphans.start();
    this.scrubs.start();
    this.#cleanup.want();
    for (const { key, was } of quarantine.onlyCopies()) if (was.length > 0) this.repairs.want(key);
    if (idMaxAge > 0) {
      changes.every(joinIntervalMs(idMaxAge), async () => this.#cleanup.want());
    }
    changes.every(options.expiryIntervalMs ?? EXPIRY_INTERVAL_MS, async () => {
      await this.deletions.deleteExpired();
      await unfinished.removeOlder(now() - unfinishedAge);
    });
  }

  /** Compacts sparse trunks. Resolves with the number of files moved. */
  async compact(): Promise<number> {
    const moved = await this.#compaction.run();
    await this.#retirement.run();
    return moved;
  }

  async stop(): Promise<void> {
    await this.rebuild.stop();
    await Promise.all([this.scrubs.stop(), this.repairs.stop()]);
    await this.#compaction.stop();
    await this.orphans.stop();
    await this.#retirement.stop();
  }
}
