import { tracingChannel } from 'node:diagnostics_channel';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { GrowingPause } from '@stevedore/async';
import { isError } from '@stevedore/protocol';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { TrunkPlan } from './trunk-plan.js';
import { DamagedMembers, type SentTrunk, type TrunkSender } from './trunk-sender.js';
import type { WaitingFiles } from './waiting-files.js';

/**
 * Plans in flight. Each keeps its files out of other plans until its trunk is confirmed. While
 * FastDFS does not answer, plans are retried with growing pauses; the first success ends all
 * pauses. A plan with a damaged file is abandoned, and its other files wait again.
 */
export interface PlansInFlightOptions {
  readonly fileMap: FileMap;
  readonly sender: TrunkSender;
  readonly files: WaitingFiles;
  readonly now: () => number;
  /** Milliseconds from the plan to its confirmation. */
  readonly onSent: (sent: SentTrunk, durationMs: number) => void;
  /** The plan has ended and no longer needs the container. */
  readonly onReleased: (plan: TrunkPlan) => void;
  readonly onError: (error: Error) => void;
  /** Called for a file whose copy on this disk is damaged; it is excluded from now on. */
  readonly onDamaged: (row: FileRow) => void;
}

/** An attempt to store a trunk, for `node:diagnostics_channel`. */
interface MergeMessage {
  readonly taskId: string;
  /** `whole` for a large file, which is stored by itself. */
  readonly kind: TrunkPlan['kind'];
  readonly files: number;
  readonly bytes: number;
}

export const MERGE_CHANNEL = 'stevedore.merge';
const mergeChannel = tracingChannel<unknown, MergeMessage>(MERGE_CHANNEL);

export const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 10_000;

export class PlansInFlight {
  readonly #options: PlansInFlightOptions;
  readonly #underWay = new Map<Promise<void>, TrunkPlan['kind']>();
  readonly #stopped = new AbortController();
  /** Plans that wait before a retry. */
  readonly #pauses = new Set<AbortController>();
  /** Sends that failed and were retried. */
  retries = 0;
  #failure: Error | undefined;

  constructor(options: PlansInFlightOptions) {
    this.#options = options;
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

  /** Abandons the plans in flight; their files stay staged. */
  stop(): void {
    this.#stopped.abort();
  }

  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay.keys());
  }

  /** Resolves when the plan is durable, and starts to send it. */
  async begin(plan: TrunkPlan): Promise<void> {
    const release = this.#options.files.hold(plan);
    try {
      await nextTurn();
      await this.#options.sender.announce(plan);
    } catch (error) {
      release(false);
      throw error;
    }
    const sending = this.#sendUntilDone(plan).then((isStored) => {
      release(isStored);
      this.#underWay.delete(sending);
      this.#options.onReleased(plan);
    });
    this.#underWay.set(sending, plan.kind);
  }

  /**
   * Adopts a stored trunk whose record was lost in a crash, instead of sending its files again.
   * False if one of them has since joined another plan, or the trunk does not match the plan.
   */
  async adopt(plan: TrunkPlan, fileId: string): Promise<boolean> {
    const { files, sender, onSent, onReleased } = this.#options;
    if (this.#stopped.signal.aborted || !plan.rows.every((row) => files.isFree(row))) return false;
    const release = files.hold(plan);
    const adopting = sender.adopt(plan, fileId, this.#stopped.signal);
    const settled = adopting.then(
      () => undefined,
      () => undefined,
    );
    this.#underWay.set(settled, plan.kind);
    let isAdopted = false;
    try {
      isAdopted = await adopting;
      if (isAdopted) this.#tell(() => onSent({ plan, fileId }, 0));
      return isAdopted;
    } catch (error) {
      if (damagedMembers(error).length > 0) return false;
      throw error;
    } finally {
      release(isAdopted);
      this.#underWay.delete(settled);
      onReleased(plan);
    }
  }

  /**
   * Never rejects: failures are reported and retried until `stop`. False if the plan was given up.
   */
  async #sendUntilDone(plan: TrunkPlan): Promise<boolean> {
    const { onSent, onError, now } = this.#options;
    const { signal } = this.#stopped;
    const startedAt = now();
    const pause = new GrowingPause({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
    for (;;) {
      try {
        const sent = await this.#send(plan, signal);
        this.#failure = undefined;
        this.#endPauses();
        // A listener that throws must not cause a retry.
        this.#tell(() => onSent(sent, Math.max(0, now() - startedAt)));
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        onError(error as Error);
        const damaged = damagedMembers(error);
        if (damaged.length > 0 && this.#abandon(plan, damaged)) return false;
        this.#failure = error as Error;
        this.retries += 1;
        await this.#pause(pause.next());
        if (signal.aborted) return false;
      }
    }
  }

  /** False if the FileMap could not be changed: it may be on the same disk. */
  #abandon(plan: TrunkPlan, damaged: readonly FileRow[]): boolean {
    const { files, fileMap, now, onDamaged, onError } = this.#options;
    try {
      for (const row of damaged) {
        files.exclude(row.key);
        onDamaged(row);
      }
      fileMap.abandonTrunk(now(), fileMap.trunkByTask(plan.taskId)!.id);
      return true;
    } catch (error) {
      onError(error as Error);
      return false;
    }
  }

  #send(plan: TrunkPlan, signal: AbortSignal): Promise<SentTrunk> {
    const { sender } = this.#options;
    if (!mergeChannel.hasSubscribers) return sender.send(plan, signal);
    const { taskId, kind, rows, size } = plan;
    const message = { taskId: formatKey(taskId), kind, files: rows.length, bytes: size };
    return mergeChannel.tracePromise(() => sender.send(plan, signal), message);
  }

  async #pause(ms: number): Promise<void> {
    const pause = new AbortController();
    this.#pauses.add(pause);
    const signal = AbortSignal.any([this.#stopped.signal, pause.signal]);
    await sleep(ms, undefined, { signal }).catch(() => undefined);
    this.#pauses.delete(pause);
  }

  /** FastDFS has accepted a trunk, so all plans can retry. */
  #endPauses(): void {
    for (const pause of this.#pauses) pause.abort();
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#options.onError(error as Error);
    }
  }
}

function damagedMembers(error: unknown): readonly FileRow[] {
  for (let at: unknown = error; isError(at); at = at.cause) {
    if (at instanceof DamagedMembers) return at.rows;
  }
  return [];
}
