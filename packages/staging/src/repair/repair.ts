import { serial } from '@stevedore/async';
import type { Acceptance } from '../accept/acceptance.js';
import { BackgroundTask } from '../changes.js';
import {
  type FileMap,
  type FileRow,
  isMerged,
  localDamage,
  type MergedRow,
} from '../filemap/filemap.js';
import { nameOf } from '../key.js';
import type { State } from '../state.js';
import {
  goodHolders,
  hasSoundHolder,
  learnBlocks,
  PART_BYTES,
  readTrunk,
  type Signal,
  soundBytes,
  soundSlice,
  stageAgain,
} from './sound-bytes.js';

/**
 * Repairs damaged copies from a sound one. A slice is staged again, from the container or from a
 * storage with a sound copy, and goes into a new trunk. A damaged copy on this disk is dropped once
 * a storage is known to have a sound one. A large file returns to the spool. A file that was being
 * moved is rolled back to its former place.
 */

/** Maximum waiting repairs; further damage is found again later. */
const MAX_WANTED = 1_000;

async function repairSmall(state: State, row: MergedRow, signal: Signal): Promise<boolean> {
  const { fileMap, quarantine } = state;
  const isLocalBad = quarantine.has(row.key, 'container');
  const isTrunkBad = quarantine.holders(row.key).length > 0;
  const local = isLocalBad
    ? undefined
    : await soundBytes(state.container, row).catch(() => undefined);
  if (isTrunkBad) {
    const bytes = local ?? (await soundSlice(state, row, signal));
    if (!bytes || fileMap.find(row.key)?.trunk?.id !== row.trunk?.id) return false;
    await stageAgain(state, [{ row, bytes }]);
    state.changes.emit('staged', row.size, false);
    quarantine.forget(row.key);
    return true;
  }
  if (!isLocalBad) return true;
  if (!(await soundSlice(state, row, signal))) return false;
  fileMap.forgetLocal(row.key);
  quarantine.lift(row.key, 'container');
  return true;
}

/** Repairs files: those of which a read found damage one at a time, in the background. */
export class Repairs extends BackgroundTask {
  readonly #state: State;
  readonly #acceptance: Acceptance;
  readonly #wanted = new Map<string, Buffer>();
  /** Runs repairs of large files one at a time. */
  readonly #inTurn = serial();

  constructor(state: State, acceptance: Acceptance) {
    super(state.changes);
    this.#state = state;
    this.#acceptance = acceptance;
    state.changes.on('damaged', ({ key }) => this.want(key));
  }

  /** True if no copy that is still read is damaged. */
  async repairFile(key: Buffer, signal: Signal): Promise<boolean> {
    const state = this.#state;
    const row = state.fileMap.find(key);
    if (!row) return true;
    // A waiting file has no other copy, unless it was in FastDFS before.
    if (!isMerged(row)) {
      return state.quarantine.has(key, localDamage(row)) && rollBackMove(state, row, signal);
    }
    const isRepaired = await (row.local.at === 'container'
      ? repairSmall(state, row, signal)
      : this.#inTurn(() => repairLarge(state, this.#acceptance, row, signal)));
    if (isRepaired) state.quarantine.countRepaired();
    return isRepaired;
  }

  /** Queues a repair. If too many wait, the next scrub finds the rest. */
  want(key: Buffer): void {
    if (this.stopped.aborted || this.#wanted.size >= MAX_WANTED) return;
    this.#wanted.set(nameOf(key), key);
    void this.runOnce(() => this.#run());
  }

  async #run(): Promise<void> {
    for (const [name, key] of this.#wanted) {
      if (this.stopped.aborted) return;
      // A failed repair is found again by the next scrub or read.
      await this.repairFile(key, this.stopped).catch(() => false);
      this.#wanted.delete(name);
    }
  }
}

/**
 * Repairs a large file. If a storage's copy is damaged, the file returns to the spool from a sound
 * copy and is stored again, whole, under a new FastDFS id; the damaged one is deleted, at all
 * storages, once the new one is confirmed. A damaged copy in the spool is dropped once a storage is
 * known to have a sound one.
 *
 * The spool's file is complete, checked and durable before the record that makes it the file's
 * place. If that record is refused, the file stays for the next attempt or until the next start,
 * which removes files without a record.
 */
async function repairLarge(
  state: State,
  acceptance: Acceptance,
  { key, trunk }: MergedRow,
  signal: Signal,
): Promise<boolean> {
  const { fileMap, spool, quarantine } = state;
  const row = fileMap.find(key);
  // Another repair was faster, or the file was deleted.
  if (!row || !isMerged(row) || row.trunk.id !== trunk.id) return true;
  const isAnyBad = quarantine.holders(row.key).length > 0;
  if (quarantine.has(row.key, 'spool')) {
    if (!(await hasSoundHolder(state, row, signal))) return false;
    await spool.remove(row.key);
    fileMap.forgetSpooled(row.key);
    quarantine.lift(row.key, 'spool');
  }
  if (!isAnyBad) return true;
  if (spool.has(row.key)) {
    const list = await spool.checksums(row.key, row, () => Promise.resolve());
    if (list) learnBlocks(state.fileMap, row, list);
    else quarantine.add(row, 'spool');
    return list !== undefined && storeAgain(state, row);
  }
  // From the first storage whose copy is sound.
  for (const holder of await goodHolders(state, row, signal)) {
    const isSound = await fetchFrom(state, acceptance, row, holder, signal);
    if (isSound) return storeAgain(state, row);
    if (isSound === false) quarantine.add(row, 'trunk', holder);
  }
  return false;
}

/** False if the storage's bytes are damaged; undefined if they could not be read. */
async function fetchFrom(
  { fileMap, trunkStore }: State,
  acceptance: Acceptance,
  row: MergedRow,
  holder: string,
  signal: Signal,
): Promise<boolean | undefined> {
  const writer = await acceptance.beginSpooled(row.key, row.size, true);
  let isSound: boolean | undefined;
  try {
    const { trunk } = row;
    while (writer.size < row.size) {
      const count = Math.min(PART_BYTES, row.size - writer.size);
      const bytes = await readTrunk(trunkStore, trunk, writer.size, count, signal, holder);
      if (bytes?.length !== count) break;
      await writer.write([bytes]);
    }
    isSound = writer.size === row.size && writer.crc32 === row.crc32;
    if (isSound) await writer.finish(true);
    if (isSound) learnBlocks(fileMap, row, writer.blocks);
  } catch {
    isSound = undefined;
  }
  if (isSound !== true) await writer.discard();
  return isSound;
}

/** Makes the file wait again, like a new one. */
async function storeAgain(state: State, row: FileRow): Promise<boolean> {
  const { fileMap, spool, quarantine } = state;
  const isDone = await state.alone(async () => {
    await spool.syncNames();
    const isThere = spool.has(row.key) && fileMap.find(row.key)?.trunk?.id === row.trunk?.id;
    if (!isThere) return false;
    await stageAgain(state, [{ row, bytes: undefined }]);
    state.changes.emit('staged', 0, true);
    return true;
  });
  if (!fileMap.find(row.key)) await spool.remove(row.key);
  if (isDone) quarantine.forget(row.key);
  return isDone;
}

/** The waiting file at its former place in FastDFS; undefined if that is gone. */
function formerRow(fileMap: FileMap, row: FileRow): MergedRow | undefined {
  const place = row.was.at(-1);
  if (row.trunk || !place) return undefined;
  const [fileId, offset] = place;
  const trunk = fileMap.trunkByFileId(fileId);
  if (trunk?.state !== 'confirmed') return undefined;
  return { ...row, trunk: { id: trunk.id, kind: trunk.kind, fileId, offset, isThin: false } };
}

/**
 * Rolls back a move: the file's new copy is damaged and not stored yet. Its former place is kept
 * until then, and becomes its place again once a storage is known to have it sound. False if there
 * is no such place or no sound copy there. Rejects while FastDFS is unreachable.
 */
export async function rollBackMove(state: State, row: FileRow, signal: Signal): Promise<boolean> {
  const former = formerRow(state.fileMap, row);
  if (!former) return false;
  const isSound =
    former.trunk.kind === 'whole'
      ? await hasSoundHolder(state, former, signal)
      : (await soundSlice(state, former, signal)) !== undefined;
  // A concurrent `setAside` may be moving the damaged copy.
  return state.alone(() => restorePlace(state, row, isSound ? former : undefined));
}

/** `former`: the former place, if it is known to be sound. */
async function restorePlace(
  { container, fileMap, quarantine, spool }: State,
  row: FileRow,
  former: FileRow | undefined,
): Promise<boolean> {
  const current = fileMap.find(row.key);
  if (!current) return false;
  // Another repair was faster, or the file was stored meanwhile.
  if (current.trunk) return true;
  const place = localDamage(current);
  const isBad = isSameCopy(row, current) || quarantine.has(row.key, place);
  if (!isBad || !former || !isSamePlace(former, formerRow(fileMap, current))) return false;
  if (!fileMap.rollBackMove(row.key)) return false;
  quarantine.lift(row.key, place);
  quarantine.countRepaired();
  if (current.local.at === 'container') return true;
  // A power failure may lose the FileMap's changes: then the file's record still names the spool's
  // file.
  await container.sync();
  await fileMap.makeDurable();
  if (fileMap.find(row.key)?.local.at !== 'spool') await spool.remove(row.key);
  return true;
}

function isSameCopy({ local: one }: FileRow, { local: other }: FileRow): boolean {
  return one.segment === other.segment && one.position === other.position && one.at === other.at;
}

function isSamePlace(one: FileRow, other: FileRow | undefined): boolean {
  return one.trunk?.id === other?.trunk?.id && one.trunk?.offset === other?.trunk?.offset;
}
