import { tracingChannel } from 'node:diagnostics_channel';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GrowingPause, Listeners } from '@stevedore/async';
import { isError } from '@stevedore/protocol';
import { type FileRow, localDamage } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { LocalBytes } from '../repair/local-bytes.js';
import type { State } from '../state.js';
import { sliceIdOf, type TrunkPlan } from './trunk-plan.js';
import { DamagedMembers, type SentTrunk, TrunkSender } from './trunk-sender.js';

/**
 * Plans in flight. Each keeps its files out of other plans until its trunk is confirmed. While
 * FastDFS does not answer, plans are retried with growing pauses; the first success ends all
 * pauses. A plan with a damaged file is abandoned, and its other files wait again.
 */
/** An attempt to store a trunk, for `node:diagnostics_channel`. */
interface MergeMessage {
  readonly taskId: string;
  /** `whole` for a large file, which is stored by itself. */
  readonly kind: TrunkPlan['kind'];
  readonly files: number;
  readonly bytes: number;
}

const mergeChannel = tracingChannel<unknown, MergeMessage>('stevedore.merge');

export const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 10_000;

export class PlansInFlight {
  readonly #state: State;
  readonly #local: LocalBytes;
  readonly #sender: TrunkSender;
  readonly #underWay = new Map<Promise<void>, TrunkPlan['kind']>();
  /** Plans that wait before a retry. */
  readonly #pauses = new Listeners();
  /** Sends that failed and were retried. */
  retries = 0;
  #failure: Error | undefined;

  constructor(state: State, local: LocalBytes) {
    this.#state = state;
    this.#local = local;
    this.#sender = new TrunkSender(state);
  }

  count(kind: TrunkPlan['kind']): number {
    let count = 0;
    for (const each of this.#underWay.values()) if (each === kind) count += 1;
    return count;
  }

  /** Why the last attempt to send failed, while a plan waits for the next. */
  get failure(): Error | undefined {
    return this.#underWay.size > 0 ? this.#failure : undefined;
  }

  /** Promises that resolve when a plan in flight ends. They never reject. */
  ends(): Promise<void>[] {
    return [...this.#underWay.keys()];
  }

  /** Resolves when the plans in flight are abandoned; their files stay staged. */
  async ended(): Promise<void> {
    this.#pauses.wake();
    await Promise.allSettled(this.#underWay.keys());
  }

  /** Resolves when the plan is durable, and starts to send it. */
  async begin(plan: TrunkPlan): Promise<void> {
    const release = this.#state.files.hold(plan);
    try {
      await nextTurn();
      await this.#sender.announce(plan);
    } catch (error) {
      release(false);
      throw error;
    }
    const sending = this.#sendUntilDone(plan).then((isStored) => {
      release(isStored);
      this.#underWay.delete(sending);
      this.#state.changes.emit('released', plan);
    });
    this.#underWay.set(sending, plan.kind);
  }

  /**
   * Adopts a stored trunk whose record was lost in a crash, instead of sending its files again.
   * False if one of them has since joined another plan, or the trunk does not match the plan.
   */
  async adopt(plan: TrunkPlan, fileId: string): Promise<boolean> {
    const { files, changes } = this.#state;
    if (changes.isOver || !plan.rows.every((row) => files.isFree(row))) return false;
    const release = files.hold(plan);
    const adopting = this.#sender.adopt(plan, fileId, changes.stopped);
    const settled = adopting.then(
      () => undefined,
      () => undefined,
    );
    this.#underWay.set(settled, plan.kind);
    let isAdopted = false;
    try {
      isAdopted = await adopting;
      if (isAdopted) this.#tell({ plan, fileId }, 0);
      return isAdopted;
    } catch (error) {
      if (damagedMembers(error).length > 0) return false;
      throw error;
    } finally {
      release(isAdopted);
      this.#underWay.delete(settled);
      changes.emit('released', plan);
    }
  }

  /**
   * Never rejects: failures are reported and retried until `stop`. False if the plan was given up.
   */
  async #sendUntilDone(plan: TrunkPlan): Promise<boolean> {
    const { changes, now } = this.#state;
    const signal = changes.stopped;
    const startedAt = now();
    const pause = new GrowingPause({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
    for (;;) {
      try {
        const sent = await this.#send(plan, signal);
        this.#failure = undefined;
        // FastDFS has accepted a trunk, so all plans can retry.
        this.#pauses.wake();
        this.#tell(sent, Math.max(0, now() - startedAt));
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        changes.report(error as Error);
        const damaged = damagedMembers(error);
        if (damaged.length > 0 && this.#abandon(plan, damaged)) return false;
        this.#failure = error as Error;
        this.retries += 1;
        await this.#pauses.next(pause.next());
        if (signal.aborted) return false;
      }
    }
  }

  /** False if the FileMap could not be changed: it may be on the same disk. */
  #abandon(plan: TrunkPlan, damaged: readonly FileRow[]): boolean {
    const { files, fileMap, now, changes } = this.#state;
    try {
      for (const row of damaged) {
        files.exclude(row.key);
        this.#local.noteDamage(row, localDamage(row));
      }
      fileMap.abandonTrunk(now(), fileMap.trunkByTask(plan.taskId)!.id);
      return true;
    } catch (error) {
      changes.report(error as Error);
      return false;
    }
  }

  #send(plan: TrunkPlan, signal: AbortSignal): Promise<SentTrunk> {
    const sender = this.#sender;
    if (!mergeChannel.hasSubscribers) return sender.send(plan, signal);
    const { taskId, kind, rows, size } = plan;
    const message = { taskId: formatKey(taskId), kind, files: rows.length, bytes: size };
    return mergeChannel.tracePromise(() => sender.send(plan, signal), message);
  }

  /** A listener that throws must not cause a retry. */
  #tell({ plan, fileId }: SentTrunk, durationMs: number): void {
    const { changes, options } = this.#state;
    const { kind, taskId, size, rows } = plan;
    try {
      changes.emit('stored');
      if (!plan.thin && changes.listenerCount('merged') > 0) this.#tellFiles(plan, fileId);
      changes.emit('trunk', {
        kind,
        taskId: formatKey(taskId),
        fileId,
        files: rows.length,
        bytes: size,
        fill: kind === 'whole' ? 1 : size / options.trunkSize,
        durationMs,
      });
    } catch (error) {
      changes.report(error as Error);
    }
  }

  #tellFiles({ kind, rows, members }: TrunkPlan, fileId: string): void {
    for (const [index, row] of rows.entries()) {
      const id = kind === 'whole' ? fileId : sliceIdOf(row, fileId, members[index]!.offset);
      if (id !== undefined)
        this.#state.changes.emit('merged', { key: formatKey(row.key), fileId: id });
    }
  }
}

function damagedMembers(error: unknown): readonly FileRow[] {
  for (let at: unknown = error; isError(at); at = at.cause) {
    if (at instanceof DamagedMembers) return at.rows;
  }
  return [];
}
