import { setTimeout as sleep } from 'node:timers/promises';
import {
  type DeploymentMap,
  type Gateway,
  type ListedTrunk,
  type MapError,
  originOf,
} from '@stevedore/map';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import {
  type AdoptedTrunk,
  type AdoptedTrunks,
  readAbout,
  type TrunkStore,
} from '@stevedore/staging';
import { each, pagesOfTrunks, scanTrunks, trunkOfId } from './trunk-scan.js';

/**
 * Takes over the files of gateways that will not return, because the map says that this one has
 * adopted them: their trunks and deletions become its own. Everything may be done again, so a
 * server that was killed meanwhile continues at its next start. Trunks of which the map had not
 * heard are found in FastDFS by the tasks that their last bytes name.
 */

export interface AdoptionParts {
  readonly map: DeploymentMap;
  readonly store: TrunkStore;
  /** Of this server. */
  readonly origin: number;
  readonly adopt: (adopted: AdoptedTrunks) => Promise<void>;
  /** True for a trunk that this server has a record of. */
  readonly isKnown: (taskId: Buffer) => boolean;
  /** True once its files are known here. */
  readonly isRead: (taskId: Buffer) => boolean;
  /** False once FastDFS has answered for every trunk. */
  readonly isWaiting: () => boolean;
  /** From now on the files of that origin that are not known here are nowhere. */
  readonly onDone: (origin: number) => void;
  readonly report: (error: Error) => void;
}

const KEYS_PER_PAGE = 5_000;
const NO_KEY = Buffer.alloc(0);
const PROGRESS_MS = 500;
const RETRY_MS = 5_000;
/** Removals of a gateway that is away stay in the map, and those of a day before that. */
const UNKNOWN_SINCE_MS = 23 * 3_600_000;

export class Adoptions {
  readonly #parts: AdoptionParts;
  readonly #stopped = new AbortController();
  readonly #underWay = new Map<number, Promise<void>>();

  constructor(parts: AdoptionParts) {
    this.#parts = parts;
  }

  /** Goes on with what the map says is this server's to adopt. */
  begin(gateways: readonly Gateway[]): void {
    for (const gateway of gateways) {
      const { origin, adoption } = gateway;
      const isMine = adoption?.by === this.#parts.origin && !adoption.isDone;
      if (!isMine || this.#underWay.has(origin) || this.#stopped.signal.aborted) continue;
      const running = this.#run(gateway).finally(() => this.#underWay.delete(origin));
      this.#underWay.set(origin, running);
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all(this.#underWay.values());
  }

  /** Never rejects: the next round begins again. */
  async #run(gateway: Gateway): Promise<void> {
    const { signal } = this.#stopped;
    try {
      await this.#adopt(gateway, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#parts.report(error as Error | MapError);
      await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #adopt({ origin, seenAt }: Gateway, signal: AbortSignal): Promise<void> {
    const { map, store, adopt, isKnown, isRead, isWaiting } = this.#parts;
    const trunks: AdoptedTrunk[] = [];
    const dead: ListedTrunk[] = [];
    for await (const page of pagesOfTrunks(map, origin)) {
      signal.throwIfAborted();
      for (const listed of page) {
        const trunk = adoptedOf(listed);
        if (trunk) trunks.push(trunk);
        else dead.push(listed);
      }
    }
    const scan = await scanTrunks({ map, store, signal }, { since: seenAt - UNKNOWN_SINCE_MS });
    for (const sentence of scan.unlisted) this.#parts.report(incomplete(origin, sentence));
    const tasks = new Set(trunks.map(({ taskId }) => taskId.toString('hex')));
    for (const found of scan.trunks) {
      const task = found.taskId.toString('hex');
      if (originOf(found.taskId) !== origin || tasks.has(task)) continue;
      tasks.add(task);
      trunks.push({ ...found, kind: 'trunk' });
    }
    const there: AdoptedTrunk[] = [];
    await each(trunks, async (trunk) => {
      // Its own server may have deleted it without the map having heard of it.
      const isThere = isKnown(trunk.taskId) || (await store.sizeOf(trunk.fileId, signal));
      if (isThere !== undefined) there.push(trunk);
    });
    const deleted = this.#removals(origin);
    await adopt({ trunks: there, deleted, unwanted: dead.map(({ fileId }) => fileId) });
    for (const { id } of dead) await map.retire(id);
    const note = (isDone: boolean, adopted: number) =>
      map.noteAdoption(origin, { by: this.#parts.origin, isDone, trunks: trunks.length, adopted });
    for (let read = 0; ; ) {
      signal.throwIfAborted();
      while (read < there.length && isRead(there[read]!.taskId)) read += 1;
      if (!isWaiting()) break;
      if (!(await note(false, read))) return;
      await sleep(PROGRESS_MS, undefined, { signal });
    }
    this.#parts.onDone(origin);
    await note(true, there.filter(({ taskId }) => isRead(taskId)).length);
  }

  async *#removals(origin: number): AsyncGenerator<Buffer[]> {
    for (let after: Uint8Array = NO_KEY; ; ) {
      const page = await this.#parts.map.removalsOf(origin, after, KEYS_PER_PAGE);
      if (page.length > 0) yield page.map((key) => Buffer.from(key));
      if (page.length < KEYS_PER_PAGE) return;
      after = page.at(-1)!;
    }
  }
}

/** Undefined for a large file that was deleted, or is stored elsewhere by now. */
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

function incomplete(origin: number, sentence: string): Error {
  return new Error(
    `trunks of origin ${origin} that the map does not know may not have been found: ${sentence}`,
  );
}
