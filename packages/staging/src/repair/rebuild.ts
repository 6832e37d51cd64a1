import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../errors.js';
import type { FileMap, TrunkRow } from '../filemap/filemap.js';
import type { TrunkStore } from '../merge/trunk-store.js';
import { adoptTrunks, isFinal, type UnreadTrunk } from './settle.js';

/**
 * Makes a FileMap that was lost whole again: reads the directories of the trunks that
 * only a record names, and goes on trying while FastDFS is away. What the container has
 * is served and taken meanwhile; that a file is not found means nothing before the end.
 */
export interface RebuildParts {
  readonly fileMap: FileMap;
  readonly trunkStore: TrunkStore;
  /** The trunks whose directories are to be read. */
  readonly trunks: readonly TrunkRow[];
  readonly onProgress: ((done: number, all: number) => void) | undefined;
  readonly onError: (error: Error) => void;
  /** Told when the last trunk was read that FastDFS is to be waited for. */
  readonly onAnswered: () => void;
}

const PASS_TIMEOUT_MS = 600_000;
const AWAY_PAUSE_MS = 2_000;
/** Between looks for trunks that FastDFS does not have, or whose directory is damaged. */
const FINAL_PAUSE_MS = 60_000;

export class Rebuild {
  readonly #parts: RebuildParts;
  readonly #stopped = new AbortController();
  /** Trunks that have been complained of. */
  readonly #told = new Set<number>();
  #trunks: readonly TrunkRow[];
  #isWaiting: boolean;
  #running: Promise<void> | undefined;

  constructor(parts: RebuildParts) {
    this.#parts = parts;
    this.#trunks = parts.trunks;
    this.#isWaiting = parts.trunks.length > 0;
  }

  /** False while a file that is not found may be in a trunk that has not been read. */
  get isComplete(): boolean {
    return this.#trunks.length === 0;
  }

  /** True while FastDFS has to be waited for: files of the container may be in its trunks. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Goes on until it is complete or stopped. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves at the end of the first pass, or after `ms`. */
  async begin(ms: number): Promise<void> {
    if (this.isComplete) return;
    const first = this.#pass();
    this.#running = first.then(() => this.#run());
    await Promise.race([first, sleep(ms, undefined, { signal: this.#stopped.signal })]);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    while (!this.isComplete && !signal.aborted) {
      const ms = this.#isWaiting ? AWAY_PAUSE_MS : FINAL_PAUSE_MS;
      await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
      if (!signal.aborted) await this.#pass();
    }
  }

  async #pass(): Promise<void> {
    const { fileMap, trunkStore, onProgress, onAnswered } = this.#parts;
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(PASS_TIMEOUT_MS)]);
    const isUnread = ({ taskId }: TrunkRow) => {
      const state = fileMap.trunkByTask(taskId)?.state;
      return state === 'stored' || state === 'missing';
    };
    const trunks = this.#trunks.filter(isUnread);
    const unread = await adoptTrunks(fileMap, trunkStore, trunks, signal, onProgress);
    if (this.#stopped.signal.aborted) return;
    this.#trunks = unread.map(({ trunk }) => trunk);
    const isWaiting = !unread.every(isFinal);
    const isAnswered = this.#isWaiting && !isWaiting;
    this.#isWaiting = isWaiting;
    this.#complain(unread);
    if (isAnswered) onAnswered();
  }

  /** Once for each trunk. */
  #complain(unread: readonly UnreadTrunk[]): void {
    const fresh = unread.filter(({ trunk }) => !this.#told.has(trunk.id));
    for (const { trunk } of fresh) this.#told.add(trunk.id);
    const away = fresh.filter((one) => !isFinal(one));
    if (away.length > 0) this.#parts.onError(incomplete(away));
    for (const one of fresh) if (isFinal(one)) this.#parts.onError(unreadable(one));
  }
}

function incomplete(unread: readonly UnreadTrunk[]): StoreError {
  const { error } = unread[0]!;
  return new StoreError(
    'storage_unavailable',
    `the FileMap is being made anew and ${unread.length} trunk(s) could not be read yet (${error.message}); their files are found once FastDFS answers`,
    { cause: error, retryable: true },
  );
}

function unreadable({ trunk, error }: UnreadTrunk): StoreError {
  return new StoreError(
    'corrupt',
    `the FileMap was made anew but for the files of ${trunk.fileId}, which could not be read (${error.message}); if it cannot be brought back, stevedore fsck tells what is lost`,
    { cause: error },
  );
}
