import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Wakeup } from '@stevedore/async';
import { ProtocolError } from '@stevedore/protocol';
import { isStoreError, StoreError } from '../errors.js';
import type { FileMap, TrunkRow } from '../filemap/filemap.js';
import { finishTrunk, inPages } from '../merge/trunk-sender.js';
import { readTrunkDirectory, type TrunkStore } from '../merge/trunk-store.js';
import type { State } from '../state.js';

/**
 * Rebuilds a lost FileMap from the directories of the trunks whose members no record names. Retries
 * while FastDFS does not answer. Meanwhile uploads continue and the container is served; until the
 * rebuild is complete, a file that is not found may exist.
 */
/** `isComplete`, as recorded by the owner of the FileMap. */
export function isRebuilt(fileMap: Pick<FileMap, 'mark'>): boolean {
  return fileMap.mark(COMPLETE_MARK) === 'true';
}

interface UnreadTrunk {
  readonly trunk: TrunkRow;
  readonly error: Error;
}

const COMPLETE_MARK = 'complete';
const ADOPT_PAGE = 250;
const PASS_TIMEOUT_MS = 600_000;
const AWAY_PAUSE_MS = 2_000;
/**
 * Pause before trunks that FastDFS does not have, or whose directories are damaged, are tried
 * again.
 */
const FINAL_PAUSE_MS = 60_000;

export class Rebuild {
  readonly #state: State;
  /** Ends the pause before the next pass. */
  readonly #wakeup = new Wakeup();
  readonly #reported = new Set<number>();
  #trunks: readonly TrunkRow[];
  #isWaiting = false;
  #running: Promise<void> | undefined;

  /** `trunks`: those whose directories must be read. */
  constructor(state: State, trunks: readonly TrunkRow[]) {
    this.#state = state;
    this.#trunks = trunks;
    this.#wait(trunks.length > 0);
    this.#noteComplete();
  }

  /** False while a file that is not found may be in an unread trunk. */
  get isComplete(): boolean {
    return this.#trunks.length === 0;
  }

  /** True while unread trunks wait for FastDFS: they may hold files of the container. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Adds trunks whose directories must be read, too. */
  add(trunks: readonly TrunkRow[]): void {
    if (trunks.length === 0) return;
    const isRunning = !this.isComplete;
    this.#trunks = [...this.#trunks, ...trunks];
    this.#wait(true);
    this.#noteComplete();
    this.#wakeup.wake();
    if (!isRunning) this.#running = this.#pass().then(() => this.#run());
  }

  /** Resolves at the end of the first pass, or after `ms`. */
  async begin(ms: number): Promise<void> {
    if (this.isComplete) return;
    const first = this.#pass();
    this.#running = first.then(() => this.#run());
    await Promise.race([first, sleep(ms, undefined, { signal: this.#state.changes.stopped })]);
  }

  async ended(): Promise<void> {
    this.#wakeup.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { changes } = this.#state;
    while (!this.isComplete && !changes.isOver) {
      await this.#wakeup.next(this.#isWaiting ? AWAY_PAUSE_MS : FINAL_PAUSE_MS);
      if (!changes.isOver) await this.#pass();
    }
  }

  async #pass(): Promise<void> {
    const { fileMap, files, trunkStore, changes, options } = this.#state;
    const signal = AbortSignal.any([changes.stopped, AbortSignal.timeout(PASS_TIMEOUT_MS)]);
    const isUnread = ({ taskId }: TrunkRow) => {
      const state = fileMap.trunkByTask(taskId)?.state;
      return state === 'stored' || state === 'missing';
    };
    const asked = this.#trunks.length;
    const trunks = this.#trunks.filter(isUnread);
    const unread = await adoptTrunks(fileMap, trunkStore, trunks, signal, options.onRebuild);
    if (changes.isOver) return;
    const added = this.#trunks.slice(asked);
    this.#trunks = [...unread.map(({ trunk }) => trunk), ...added];
    this.#noteComplete();
    const isWaiting = added.length > 0 || !unread.every(isFinal);
    const isAnswered = this.#isWaiting && !isWaiting;
    this.#wait(isWaiting);
    this.#report(unread);
    if (!isAnswered) return;
    files.lookAgain();
    changes.emit('mergeable');
    changes.emit('thinned');
  }

  #wait(isWaiting: boolean): void {
    const { files, container } = this.#state;
    this.#isWaiting = isWaiting;
    // Unread trunks may already hold files of the container.
    files.firstSegment = isWaiting ? container.firstOwnSegment : 0;
  }

  /** Records `isComplete` for other processes that read the FileMap. */
  #noteComplete(): void {
    const { fileMap } = this.#state;
    const isComplete = String(this.isComplete);
    if (fileMap.mark(COMPLETE_MARK) !== isComplete) fileMap.setMark(COMPLETE_MARK, isComplete);
  }

  #report(unread: readonly UnreadTrunk[]): void {
    const fresh = unread.filter(({ trunk }) => !this.#reported.has(trunk.id));
    for (const { trunk } of fresh) this.#reported.add(trunk.id);
    const away = fresh.filter((one) => !isFinal(one));
    const { changes } = this.#state;
    if (away.length > 0) changes.report(incomplete(away));
    for (const one of fresh) if (isFinal(one)) changes.report(unreadable(one));
  }
}

function incomplete(unread: readonly UnreadTrunk[]): StoreError {
  const { error } = unread[0]!;
  return new StoreError(
    'storage_unavailable',
    `the FileMap is being rebuilt and ${unread.length} trunk(s) could not be read yet (${error.message}); their files are found once FastDFS answers`,
    { cause: error },
  );
}

function unreadable({ trunk, error }: UnreadTrunk): StoreError {
  return new StoreError(
    'corrupt',
    `the FileMap was rebuilt without the files of ${trunk.fileId}, which could not be read (${error.message}); if the trunk cannot be restored, run stevedore fsck to see what is lost`,
    { cause: error },
  );
}

/**
 * Confirms the trunks whose members the container knows. Resolves with the others, whose
 * directories must be read.
 */
export async function settleKnown(
  fileMap: FileMap,
  trunks = [...fileMap.trunksIn('stored'), ...fileMap.trunksIn('missing')],
): Promise<TrunkRow[]> {
  const unread: TrunkRow[] = [];
  for (const trunk of trunks) {
    const members = fileMap.members(trunk.id);
    // A plan may outlive the segments of its members: then only the trunk itself knows them, and
    // they must not be taken for deleted.
    const isKnown = ({ key, offset }: (typeof members)[number]) => {
      const row = fileMap.find(key);
      if (row) return (row.trunk?.id ?? trunk.id) === trunk.id || isForwarded(offset);
      return fileMap.isDeleted(key);
    };
    const isForwarded = (offset: number) => fileMap.forwarded(trunk.fileId, offset) !== undefined;
    // A large file that was deleted when its `stored` record was rewritten.
    const isDead = trunk.kind === 'whole' && members.length === 0;
    if (isDead) fileMap.finishTrunk(trunk.id, trunk.files, trunk.size);
    if (isDead) continue;
    if (members.length === 0 || !members.every(isKnown)) {
      unread.push(trunk);
      continue;
    }
    await inPages(members, (page) => fileMap.confirmUnmoved(trunk, page));
    finishTrunk(fileMap, trunk.id, members);
  }
  return unread;
}

/** Reads the directories of the trunks. Resolves with those to retry. */
async function adoptTrunks(
  fileMap: FileMap,
  store: TrunkStore,
  trunks: readonly TrunkRow[],
  signal: AbortSignal,
  onProgress: (done: number, all: number) => void = () => undefined,
): Promise<UnreadTrunk[]> {
  const unread: UnreadTrunk[] = [];
  for (const [index, trunk] of trunks.entries()) {
    try {
      const entries = await readTrunkDirectory(store, trunk, signal);
      for (let at = 0; at < entries.length; at += ADOPT_PAGE) {
        signal.throwIfAborted();
        fileMap.adoptMembers(trunk, entries.slice(at, at + ADOPT_PAGE));
        await nextTurn();
      }
      const contentBytes = entries.reduce((sum, { file }) => sum + file.size, 0);
      fileMap.finishTrunk(trunk.id, entries.length, contentBytes);
    } catch (error) {
      unread.push({ trunk, error: error as Error });
      if (isGone(error)) fileMap.missTrunk(trunk.id);
      else if (!isDamage(error)) {
        // FastDFS is unreachable: the others would fail, too.
        const rest = trunks.slice(index + 1);
        return [...unread, ...rest.map((other) => ({ trunk: other, error: error as Error }))];
      }
    }
    onProgress(index + 1, trunks.length);
  }
  return unread;
}

/** True if FastDFS answered and a retry is unlikely to help. */
function isFinal({ error }: UnreadTrunk): boolean {
  return isGone(error) || isDamage(error);
}

function isGone(error: unknown): boolean {
  return isStoreError(error, 'not_found');
}

function isDamage(error: unknown): boolean {
  return error instanceof ProtocolError;
}

/** Abandons plans that were not completed: their files wait again. */
export function abandonPlans(fileMap: FileMap, now: number): number {
  const unfinished = fileMap.trunksIn('planned');
  for (const trunk of unfinished) fileMap.abandonTrunk(now, trunk.id);
  return unfinished.length;
}
