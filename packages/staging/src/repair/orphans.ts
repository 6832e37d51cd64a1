import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { ProtocolError, parseTrunkTask, TAIL_BYTES, TRUNK_EXTENSION } from '@stevedore/protocol';
import { recordOf } from '../accept/retention.js';
import { isStoreError } from '../errors.js';
import type { AdoptedFile, TrunkRow } from '../filemap/filemap.js';
import { formatKey, nameOf, timeOfKey } from '../key.js';
import type { PlansInFlight } from '../merge/plans-in-flight.js';
import { planTrunk, type TrunkPlan } from '../merge/trunk-plan.js';
import { type ListedFile, readTrunkDirectory } from '../merge/trunk-store.js';
import type { State } from '../state.js';
import type { Rebuild } from './rebuild.js';
import { readTrunk, soundBytes, stageAgain } from './sound-bytes.js';

/**
 * Finds trunks of this container in FastDFS that are in no record: the process died before it could
 * record the trunk, or the reply was lost and the trunk was sent again. The storages list their
 * files; the last bytes of every trunk that the FileMap does not know name its task. If the task
 * was planned here, the trunk is an orphan. It is adopted if it is the complete plan and none of it
 * was sent again, otherwise deleted. Trunks of other stores are never touched.
 *
 * A large file names no task. A file with the size and CRC-32 of a large file whose upload was
 * interrupted may be its copy or another program's: it is reported and left alone.
 */
export interface Adopters {
  /** Adopts a stored trunk for its plan. */
  readonly inFlight: PlansInFlight;
  /** While it runs, a file that seems to wait may be in another trunk. */
  readonly rebuild: Rebuild;
}

export interface OrphanSearch {
  /** True: adopts or deletes orphans; false: only reports them. */
  readonly repair: boolean;
  /**
   * True: searches for any trunk ever planned, however old the file; false: only for those in
   * doubt.
   */
  readonly all: boolean;
  /** How long storages may take to list files that they received. */
  readonly graceMs: number;
  readonly signal: AbortSignal;
}

type OrphanFate = 'adopted' | 'deleted' | 'left';

export interface Orphan {
  readonly fileId: string;
  readonly bytes: number;
  /** Task of the plan for which it was stored. */
  readonly taskId: string;
  readonly fate: OrphanFate;
  readonly detail: string;
}

/** A file that may be the copy of a large file of this container, or another program's. */
export interface PossibleOrphan {
  readonly fileId: string;
  readonly bytes: number;
  /** The large file whose upload was interrupted; undefined if it was deleted since. */
  readonly key: string | undefined;
}

export interface OrphanReport {
  readonly orphans: readonly Orphan[];
  readonly possible: readonly PossibleOrphan[];
  /** What could not be listed, as one sentence each. */
  readonly unlisted: readonly string[];
  /** Plans for which FastDFS may still hold something, and their bytes. */
  readonly openPlans: number;
  readonly openBytes: number;
}

/** Maximum files examined per search; with more, the search is incomplete. */
const MAX_CANDIDATES = 100_000;
/** Maximum difference between the clocks of gateways and storages. */
const CLOCK_MARGIN_MS = 86_400_000;
const PAUSE_MS = 5;

interface DoubtfulWhole {
  /** Undefined if the file was deleted meanwhile. */
  readonly key: Buffer | undefined;
  readonly crc32: number | undefined;
  readonly task: string;
}

export class Search {
  readonly #state: State;
  readonly #adopters: Adopters;
  readonly #search: OrphanSearch;
  readonly #orphans: Orphan[] = [];
  readonly #possible = new Map<string, PossibleOrphan>();
  readonly #candidates = new Map<string, ListedFile>();
  /** Large files in doubt, by size. */
  readonly #wholes = new Map<number, DoubtfulWhole[]>();
  /** Tasks with remains that could not be handled. */
  readonly #unfinished = new Set<string>();
  readonly #unlisted: string[] = [];
  #oldestMs = 0;

  constructor(state: State, adopters: Adopters, search: OrphanSearch) {
    this.#state = state;
    this.#adopters = adopters;
    this.#search = search;
  }

  async run(): Promise<OrphanReport> {
    const { fileMap, trunkStore, now } = this.#state;
    const { signal, all, graceMs } = this.#search;
    const startedAt = now();
    // If the clock was set back, they would stay in doubt until it catches up.
    for (const { id, doubtfulSince } of fileMap.doubtfulTrunks()) {
      if (doubtfulSince! > startedAt) fileMap.doubt(startedAt, id);
    }
    const doubtful = fileMap.doubtfulTrunks();
    await this.#removeUnwanted();
    if (all || doubtful.length > 0) {
      const planned = doubtful.map(({ taskId }) => timeOfKey(taskId));
      this.#oldestMs = all ? 0 : Math.min(...planned) - CLOCK_MARGIN_MS;
      for (const trunk of doubtful) if (trunk.kind === 'whole') this.#noteWhole(trunk);
      this.#unlisted.push(...(await trunkStore.list((file) => this.#onListed(file), signal)));
      for (const file of this.#candidates.values()) await this.#lookInto(file);
    }
    let openPlans = 0;
    let openBytes = 0;
    for (const trunk of doubtful) {
      const isOld = trunk.doubtfulSince! + graceMs <= startedAt;
      const isClean = !this.#unfinished.has(nameOf(trunk.taskId));
      const isSeen = this.#unlisted.length === 0 && trunk.state !== 'planned';
      const isDone = isOld && isClean && isSeen;
      const isKnown = fileMap.trunkByTask(trunk.taskId)?.doubtfulSince === trunk.doubtfulSince;
      if (isDone && isKnown) fileMap.settleDoubt(trunk.id);
      if (isDone) continue;
      openPlans += 1;
      openBytes += trunk.size;
    }
    const possible = [...this.#possible.values()];
    const unlisted = this.#unlisted;
    return { orphans: this.#orphans, possible, unlisted, openPlans, openBytes };
  }

  /** Removes wrongly stored files that could not be removed at once. */
  async #removeUnwanted(): Promise<void> {
    const { fileMap, trunkStore } = this.#state;
    if (!this.#search.repair) return;
    for (const fileId of fileMap.unwanted()) {
      await trunkStore.remove(fileId, this.#search.signal);
      fileMap.removeUnwanted(fileId);
    }
  }

  #noteWhole(trunk: TrunkRow): void {
    const { fileMap } = this.#state;
    const key = fileMap.members(trunk.id)[0]?.key ?? fileMap.findInTrunk(trunk.id, 0)?.key;
    const crc32 = trunk.crc32 ?? (key && fileMap.find(key)?.crc32);
    const same = this.#wholes.get(trunk.size) ?? [];
    same.push({ key, crc32, task: nameOf(trunk.taskId) });
    this.#wholes.set(trunk.size, same);
  }

  #onListed(file: ListedFile): void {
    const { fileMap } = this.#state;
    const isTrunk = file.fileId.endsWith(`.${TRUNK_EXTENSION}`);
    if (isTrunk) {
      if (file.createdAt < this.#oldestMs || this.#candidates.has(file.fileId)) return;
      const known = fileMap.trunkByFileId(file.fileId);
      if (known && known.state !== 'retired') return;
      if (this.#candidates.size < MAX_CANDIDATES) this.#candidates.set(file.fileId, file);
      else if (!this.#unlisted.includes(TOO_MANY)) this.#unlisted.push(TOO_MANY);
      return;
    }
    if (file.size === undefined) return;
    for (const { key, crc32, task } of this.#wholes.get(file.size) ?? []) {
      const isOther = crc32 !== undefined && crc32 !== file.crc32;
      if (isOther || fileMap.trunkByFileId(file.fileId)) continue;
      const { fileId, size } = file;
      this.#possible.set(fileId, { fileId, bytes: size, key: key && formatKey(key) });
      // A full repair has reported it; otherwise it is searched for again.
      if (!this.#search.all || !this.#search.repair) this.#unfinished.add(task);
    }
  }

  async #lookInto(file: ListedFile): Promise<void> {
    const { trunkStore, fileMap } = this.#state;
    const { signal } = this.#search;
    await sleep(PAUSE_MS, undefined, { signal });
    let task: Buffer | undefined;
    let bytes: number | undefined;
    try {
      bytes = file.size ?? (await trunkStore.sizeOf(file.fileId, signal));
      if (bytes === undefined || bytes === 0) return;
      const tailBytes = Math.min(TAIL_BYTES, bytes);
      const { fileId } = file;
      const tail = await trunkStore.read(fileId, bytes - tailBytes, tailBytes, signal);
      task = taskOf(tail);
    } catch (error) {
      signal.throwIfAborted();
      if (isStoreError(error, 'not_found')) return;
      this.#unlisted.push(`${file.fileId} could not be read: ${(error as Error).message}`);
      return;
    }
    // Otherwise it is another container's, or not a trunk.
    const trunk = task && fileMap.trunkByTask(task);
    if (trunk) await this.#decide(trunk, file.fileId, bytes);
  }

  async #decide(trunk: TrunkRow, fileId: string, bytes: number): Promise<void> {
    const { fileMap } = this.#state;
    // Recorded meanwhile, or still in flight: its sender handles it.
    if (fileMap.trunkByFileId(fileId) && trunk.state !== 'retired') return;
    if (trunk.state === 'planned') {
      this.#unfinished.add(nameOf(trunk.taskId));
      return;
    }
    const orphan = { fileId, bytes, taskId: formatKey(trunk.taskId) };
    try {
      this.#orphans.push({ ...orphan, ...(await this.#deal(trunk, fileId, bytes)) });
    } catch (error) {
      this.#search.signal.throwIfAborted();
      const detail = `it could not be dealt with: ${(error as Error).message}`;
      this.#orphans.push({ ...orphan, fate: 'left', detail });
    }
    if (this.#orphans.at(-1)!.fate === 'left') this.#unfinished.add(nameOf(trunk.taskId));
  }

  async #deal(
    trunk: TrunkRow,
    fileId: string,
    bytes: number,
  ): Promise<{ readonly fate: OrphanFate; readonly detail: string }> {
    const { fileMap, trunkStore, container, now } = this.#state;
    const { signal, repair } = this.#search;
    const detail = describe(trunk);
    if (!repair) return { fate: 'left', detail };
    const entries = await this.#directoryOf({ fileId, size: bytes, taskId: trunk.taskId });
    if (trunk.state === 'abandoned' && trunk.size === bytes) {
      const plan = this.#planOf(trunk, entries);
      const { inFlight, rebuild } = this.#adopters;
      if (plan && rebuild.isComplete && (await inFlight.adopt(plan, fileId))) {
        return { fate: 'adopted', detail };
      }
    }
    if (RECORDED.has(trunk.state) && (await this.#isLost(trunk))) {
      const candidate = this.#candidates.get(fileId)!;
      if (candidate.size !== trunk.size || candidate.crc32 !== trunk.crc32) {
        return { fate: 'left', detail: 'the recorded one is gone, and this one differs from it' };
      }
      await container.append([recordOf(fileMap, { ...trunk, fileId }, now())]);
      return { fate: 'adopted', detail: 'the recorded one is gone' };
    }
    await this.#keepFiles(fileId, entries);
    // The records that say where its files are must be durable first.
    await container.sync();
    // It may have become the recorded copy in the meantime.
    const current = fileMap.trunkByTask(trunk.taskId);
    if (current?.fileId === fileId && current.state !== 'retired') {
      return { fate: 'adopted', detail };
    }
    await trunkStore.remove(fileId, signal);
    return { fate: 'deleted', detail };
  }

  /** The plan for which the trunk was sent, if each of its files still waits. */
  #planOf({ taskId, size }: TrunkRow, entries: readonly AdoptedFile[]): TrunkPlan | undefined {
    const { fileMap } = this.#state;
    const rows = entries.flatMap(({ file }) => fileMap.find(file.key) ?? []);
    const waits = rows.every((row) => !row.trunk && row.local.at === 'container');
    if (rows.length === 0 || rows.length !== entries.length || !waits) return undefined;
    const plan = planTrunk(taskId, rows, TRUNK_EXTENSION);
    const isSame = plan.members.every(({ offset }, index) => offset === entries[index]!.offset);
    return isSame && plan.size === size ? plan : undefined;
  }

  /**
   * Stages its files again that wait and are damaged here, or are known to be damaged in their own
   * trunk: there may be no other sound copy.
   */
  async #keepFiles(fileId: string, entries: readonly AdoptedFile[]): Promise<void> {
    const { fileMap, trunkStore, container, quarantine, changes } = this.#state;
    const { signal } = this.#search;
    for (const { file, offset } of entries) {
      const row = fileMap.find(file.key);
      if (!row) continue;
      const isInDoubt = row.trunk
        ? quarantine.holders(row.key).length > 0
        : row.local.at === 'container';
      if (!isInDoubt || (await soundBytes(container, row))) continue;
      const bytes = await readTrunk(trunkStore, { fileId }, offset, row.size, signal);
      if (bytes?.length !== row.size || crc32(bytes) !== row.crc32) continue;
      await stageAgain(this.#state, [{ row, bytes }]);
      changes.emit('staged', row.size, false);
      quarantine.forget(row.key);
      quarantine.countRepaired();
    }
  }

  /** None of a trunk that is damaged, or not one of ours. */
  async #directoryOf(of: Pick<TrunkRow, 'fileId' | 'size' | 'taskId'>): Promise<AdoptedFile[]> {
    try {
      return await readTrunkDirectory(this.#state.trunkStore, of, this.#search.signal);
    } catch (error) {
      if (error instanceof ProtocolError) return [];
      throw error;
    }
  }

  async #isLost(trunk: TrunkRow): Promise<boolean> {
    try {
      await this.#state.trunkStore.read(trunk.fileId, 0, 1, this.#search.signal);
      return false;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return true;
      throw error;
    }
  }
}

/** States in which a record names the place of living files. */
const RECORDED: ReadonlySet<string> = new Set(['stored', 'confirmed', 'missing']);
const TOO_MANY = `more than ${MAX_CANDIDATES} files may be orphans; look again when these are gone`;

function describe({ state, fileId }: TrunkRow): string {
  if (state === 'abandoned') return 'the process ended before it was recorded';
  if (state === 'retired') return 'its trunk was deleted';
  return `it was stored twice; ${fileId} is recorded`;
}

/** The task in the last bytes of a trunk; undefined if there is none. */
function taskOf(tail: Buffer): Buffer | undefined {
  const text = parseTrunkTask(tail);
  const task = text === undefined ? undefined : Buffer.from(text, 'base64url');
  return task?.length === 16 ? task : undefined;
}
