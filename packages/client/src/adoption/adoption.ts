import { setTimeout as sleep } from 'node:timers/promises';
import { GrowingPause } from '@stevedore/async';
import {
  type Adoption,
  type DeploymentMap,
  type Gateway,
  type ListedTrunk,
  type LostFile,
  MapError,
  originOf,
} from '@stevedore/map';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import {
  type AdoptedTrunk,
  type AdoptedTrunks,
  formatKey,
  type HeldCopies,
  type HeldIndex,
  readAbout,
  type Staging,
  StoreError,
  type TakenOver,
  type TrunkStore,
} from '@stevedore/staging';
import type { Gateways } from '../deployment/gateways.js';
import { each, pagesOfTrunks, scanTrunks, trunkOfId } from '../deployment/trunk-scan.js';
import { adoptable } from './silent-gateways.js';

/**
 * Adopts gateways that have been silent for long. Takes over the files of those that the map says
 * this one has adopted: their trunks and deletions become its own. Every step is idempotent, so a server
 * that is killed meanwhile continues at its next start. Trunks that the map does not know are found
 * in FastDFS by the tasks that their last bytes name.
 */

export interface AdoptionParts {
  readonly map: DeploymentMap;
  readonly store: TrunkStore;
  /** Of this server. */
  readonly origin: number;
  readonly adopt: (adopted: AdoptedTrunks) => Promise<void>;
  /** Silence after which this server adopts another one by itself; 0: never. */
  readonly afterMs: number;
  /** True if this server has a record of the trunk. */
  readonly isKnown: (taskId: Buffer) => boolean;
  /** True once the trunk's files are known here. */
  readonly isRead: (taskId: Buffer) => boolean;
  /** True if this server has the file, or knows that it is deleted. */
  readonly isAccounted: (key: Buffer) => boolean;
  /** True until FastDFS has answered for every trunk. */
  readonly isWaiting: () => boolean;
  /** Copies held here of other gateways' staged files; `takeOver` stages those files. */
  readonly held: Pick<HeldCopies, 'origins' | 'adopt' | 'drop'> | undefined;
  readonly takeOver: (index: HeldIndex) => Promise<TakenOver>;
  /** From now on, a file of that origin that is unknown here does not exist. */
  readonly onDone: (origin: number) => void;
  readonly report: (error: Error) => void;
}

type OfStore =
  | 'adopt'
  | 'afterMs'
  | 'held'
  | 'isAccounted'
  | 'isKnown'
  | 'isRead'
  | 'isWaiting'
  | 'store'
  | 'takeOver';

export function adoptionBy(
  staging: Staging,
  store: TrunkStore,
  held: AdoptionParts['held'],
  adoptAfterMs: number,
): Pick<AdoptionParts, OfStore> {
  const { fileMap, rebuild } = staging;
  return {
    ...{ store, held },
    // Of several workers the first, which holds the copies.
    afterMs: held ? adoptAfterMs : 0,
    adopt: (adopted) => staging.adopt(adopted),
    takeOver: (index) => staging.takeOver(index),
    isKnown: (taskId) => fileMap.trunkByTask(taskId) !== undefined,
    isRead: (taskId) => {
      const state = fileMap.trunkByTask(taskId)?.state;
      return state !== undefined && state !== 'stored' && state !== 'missing';
    },
    isAccounted: (key) => fileMap.find(key) !== undefined || fileMap.isDeleted(key),
    isWaiting: () => rebuild.isWaiting,
  };
}

type Taken = Pick<Adoption, 'trunks' | 'adopted'> & { readonly lost: readonly LostFile[] };

const KEYS_PER_PAGE = 5_000;
const NO_KEY = Buffer.alloc(0);
/** Of those in the log. */
const MAX_NAMED = 10;
/** Names of lost files to record. */
const MAX_LOST = 1_000;
const PROGRESS_MS = 500;
const RETRIES = { firstMs: 5_000, lastMs: 300_000 };
/**
 * How long before the gateway's last heartbeat the search for unknown trunks begins. The map still
 * has all removals since then, so deleted files stay deleted.
 */
const UNKNOWN_SINCE_MS = 23 * 3_600_000;

export class Adoptions {
  readonly #parts: AdoptionParts;
  readonly #stopped = new AbortController();
  readonly #underWay = new Map<number, Promise<void>>();
  readonly #pauses = new Map<number, GrowingPause>();
  /** Servers that never stored anything, and when each was last heard of. */
  readonly #empty = new Map<number, number>();

  constructor(parts: AdoptionParts) {
    this.#parts = parts;
  }

  /** Begins, or continues, the adoptions that the map assigns to this server. */
  async begin(gateways: Gateways): Promise<void> {
    await this.#adoptSilent(gateways);
    for (const gateway of gateways.list) {
      const { origin, adoption } = gateway;
      const isMine = adoption?.by === this.#parts.origin && !adoption.isDone;
      if (!isMine || this.#underWay.has(origin) || this.#stopped.signal.aborted) continue;
      const running = this.#run(gateway).finally(() => this.#underWay.delete(origin));
      this.#underWay.set(origin, running);
    }
  }

  /** Adopts a server that has been silent for long, unless another one was faster. */
  async #adoptSilent(gateways: Gateways): Promise<void> {
    const { map, origin: by, afterMs, report } = this.#parts;
    const own = { origin: by, afterMs, steadyMs: gateways.steadyMs };
    const silent = adoptable(gateways.list, own, gateways.mapNow());
    for (const { origin, seenAt, staged, holder } of silent) {
      if (this.#empty.get(origin) === seenAt) continue;
      // One with a partner may have stored something since its last heartbeat.
      const mayHave = staged.files > 0 || holder !== undefined;
      if (!mayHave && (await map.trunks(NO_KEY, 1, origin)).length === 0) {
        this.#empty.set(origin, seenAt);
        continue;
      }
      try {
        await map.adopt(origin, by);
      } catch (error) {
        if ((error as MapError).code !== 'adoption_refused') throw error;
        continue;
      }
      const silentS = Math.round((gateways.mapNow() - seenAt) / 1000);
      const message = `origin ${origin} was silent for ${silentS} s: this server adopts its files`;
      report(new MapError('adoption', message));
      return gateways.refresh();
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all(this.#underWay.values());
  }

  /** Never rejects: the next round retries. */
  async #run(gateway: Gateway): Promise<void> {
    const { signal } = this.#stopped;
    const { origin } = gateway;
    try {
      await this.#adopt(gateway, signal);
      this.#pauses.delete(origin);
    } catch (error) {
      if (signal.aborted) return;
      const trouble = (error as Error).message;
      // It may have been begun from a list of before it was done.
      const isMine = await this.#note(gateway, { trouble }).catch(() => true);
      if (!isMine) return;
      this.#parts.report(
        new MapError('adoption', `origin ${origin} is not adopted yet: ${trouble}`, error),
      );
      const pause = this.#pauses.get(origin) ?? new GrowingPause(RETRIES);
      this.#pauses.set(origin, pause);
      await sleep(pause.next(), undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Records the progress; false if it is done, or the map has given the files to another gateway. */
  #note(
    { origin, adoption }: Gateway,
    progress: Partial<Adoption>,
    lost?: readonly LostFile[],
  ): Promise<boolean> {
    const { by, trunks, adopted } = adoption!;
    const known = { by, isDone: false, trunks, adopted };
    return this.#parts.map.recordAdoption(origin, { ...known, ...progress }, lost);
  }

  async #adopt(gateway: Gateway, signal: AbortSignal): Promise<void> {
    const { origin, holder } = gateway;
    const { held, onDone } = this.#parts;
    const isHolder = holder === this.#parts.origin;
    if (isHolder && !held) throw new Error('only a running gateway takes over the copies it holds');
    const { lost, ...taken } = await this.#take(
      gateway,
      signal,
      isHolder ? await held?.adopt(origin) : undefined,
    );
    onDone(origin);
    await this.#note(gateway, { isDone: true, ...taken }, lost.slice(0, MAX_LOST));
  }

  /** Rejects if something is missing that may be somewhere. */
  async #take(gateway: Gateway, signal: AbortSignal, index?: HeldIndex): Promise<Taken> {
    const { origin, seenAt } = gateway;
    const { map, store, adopt, isKnown, isRead, isWaiting } = this.#parts;
    const named: AdoptedTrunk[] = [];
    const dead: ListedTrunk[] = [];
    for await (const page of pagesOfTrunks(map, origin)) {
      signal.throwIfAborted();
      for (const listed of page) {
        const trunk = adoptedOf(listed);
        // The map may not know yet that the trunk was given up.
        if (trunk && !index?.isGivenUp(trunk.taskId)) named.push(trunk);
        else dead.push(listed);
      }
    }
    const scan = await scanTrunks({ map, store, signal }, { since: seenAt - UNKNOWN_SINCE_MS });
    const own = scan.trunks.filter(({ taskId }) => originOf(taskId) === origin);
    const found = own.map((trunk) => ({ ...trunk, kind: 'trunk' as const }));
    const trunks = copiesByTask([...named, ...found, ...(index?.trunks() ?? [])]);
    const there: AdoptedTrunk[] = [];
    const gone: Buffer[] = [];
    const unwanted = dead.map(({ fileId }) => fileId);
    await each(trunks, async (copies) => {
      const [only] = copies;
      // A record already names one of the copies; it stays as it is.
      if (isKnown(only.taskId)) return void there.push(only);
      let isTaken = false;
      for (const copy of copies) {
        // Its own server may have deleted it before the map learned of it.
        if ((await store.sizeOf(copy.fileId, signal)) === undefined) continue;
        // A trunk whose reply was lost was sent again: keep one copy.
        if (isTaken) unwanted.push(copy.fileId);
        else there.push(copy);
        isTaken = true;
      }
      if (!isTaken) gone.push(only.taskId);
    });
    await adopt({ trunks: there, deleted: this.#deleted(origin, index), unwanted });
    for (const { id } of dead) await map.retire(id);
    for (let read = 0; ; ) {
      signal.throwIfAborted();
      while (read < there.length && isRead(there[read]!.taskId)) read += 1;
      if (!isWaiting()) break;
      const isMine = await this.#note(gateway, { trunks: trunks.length, adopted: read });
      if (!isMine) throw new Error('it is done, or its files are given to another gateway');
      await sleep(PROGRESS_MS, undefined, { signal });
    }
    const held = index && (await this.#parts.takeOver(index)).lost;
    // What is known is served from now on. That anything else does not exist cannot be said yet.
    if (scan.unlisted.length > 0) throw new Error(scan.unlisted.join('; '));
    const { emptied, lost } = await this.#emptied(gone, index, signal);
    for (const id of emptied) await map.retire(id);
    for (const { key, name } of held ?? []) lost.push({ key: formatKey(key), name });
    if (lost.length > 0) this.#parts.report(withoutBytes(origin, lost));
    const adopted = there.filter(({ taskId }) => isRead(taskId)).length;
    return { trunks: trunks.length - emptied.length, adopted, lost };
  }

  /**
   * Those of the trunks that FastDFS does not have of which every file is known here to be elsewhere
   * or deleted: their gateway had given them up, and the map has not heard of it. And the files of
   * the others.
   */
  async #emptied(
    gone: readonly Buffer[],
    index: HeldIndex | undefined,
    signal: AbortSignal,
  ): Promise<{ readonly emptied: readonly Buffer[]; readonly lost: LostFile[] }> {
    const { map, isAccounted } = this.#parts;
    const tasks = new Set(gone.map((taskId) => taskId.toString('hex')));
    const lost: LostFile[] = [];
    const empty = new Map(gone.map((taskId) => [taskId.toString('hex'), taskId]));
    for (let after: Uint8Array | undefined; tasks.size > 0; ) {
      signal.throwIfAborted();
      const page = await map.files(after, KEYS_PER_PAGE);
      for (const { key: bytes, trunk, about } of page) {
        const [key, task] = [Buffer.from(bytes), Buffer.from(trunk).toString('hex')];
        if (!tasks.has(task) || isAccounted(key)) continue;
        empty.delete(task);
        if (lost.length < MAX_LOST) lost.push({ key: formatKey(key), name: readAbout(about).name });
      }
      if (page.length < KEYS_PER_PAGE) break;
      after = page.at(-1)!.key;
    }
    const isEmptied = (taskId: Buffer) => (index?.filesIn(taskId) ?? []).every(isAccounted);
    return { emptied: [...empty.values()].filter(isEmptied), lost };
  }

  /** Keys of deleted files, from the copy held here and from the map. */
  async *#deleted(origin: number, index: HeldIndex | undefined): AsyncGenerator<Buffer[]> {
    yield* index?.deleted() ?? [];
    for (let after: Uint8Array = NO_KEY; ; ) {
      const page = await this.#parts.map.removalsOf(origin, after, KEYS_PER_PAGE);
      if (page.length > 0) yield page.map((key) => Buffer.from(key));
      if (page.length < KEYS_PER_PAGE) return;
      after = page.at(-1)!;
    }
  }
}

/** Groups trunks by task: FastDFS may have a task's trunk under several ids. Drops duplicates. */
function copiesByTask(
  trunks: readonly AdoptedTrunk[],
): (readonly [AdoptedTrunk, ...AdoptedTrunk[]])[] {
  const tasks = new Map<string, [AdoptedTrunk, ...AdoptedTrunk[]]>();
  for (const trunk of trunks) {
    const task = trunk.taskId.toString('hex');
    const copies = tasks.get(task);
    if (!copies) tasks.set(task, [trunk]);
    else if (!copies.some(({ fileId }) => fileId === trunk.fileId)) copies.push(trunk);
  }
  return [...tasks.values()];
}

/** Undefined for a large file that was deleted, or has since been stored elsewhere. */
function adoptedOf({ id, fileId, isWhole, file }: ListedTrunk): AdoptedTrunk | undefined {
  const taskId = Buffer.from(id);
  const parsed = parseFileId(fileId);
  if (parsed && isTrunkId(parsed) && !isWhole) {
    return { taskId, kind: 'trunk', fileId, ...trunkOfId(fileId)! };
  }
  if (!file) return undefined;
  const { size, crc32 } = file;
  const about = { ...readAbout(file.about), key: Buffer.from(file.key) };
  return { taskId, kind: 'whole', fileId, size, crc32, file: about };
}

function withoutBytes(origin: number, lost: readonly LostFile[]): StoreError {
  const some = lost.slice(0, MAX_NAMED).map(({ key, name }) => `${key} ${name}`.trim());
  const more = lost.length > MAX_NAMED ? ` and ${lost.length - MAX_NAMED} more` : '';
  return new StoreError(
    'corrupt',
    `${lost.length} files of origin ${origin} have no sound bytes in FastDFS or in a copy: ${some.join(', ')}${more}`,
  );
}
