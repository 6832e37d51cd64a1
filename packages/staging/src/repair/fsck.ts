import { LOST_SEGMENT } from '../container/record.js';
import { localDamage, type TrunkRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { State } from '../state.js';
import type { OrphanWatch } from './orphan-watch.js';
import type { Orphan, OrphanReport, PossibleOrphan } from './orphans.js';
import { rollBackMove } from './repair.js';
import {
  aliveIn,
  allFiles,
  readTrunk,
  soundBytes,
  stageAgain,
  stopped,
  type UpkeepOptions,
} from './sound-bytes.js';

/**
 * Compares FileMap, container and FastDFS, and accounts for every byte that this container has in
 * FastDFS:
 *
 *     storedBytes = liveBytes + deadBytes + overheadBytes + unreadBytes + orphanBytes
 *
 * Live: files refer to it. Dead: its file was deleted or moved. Overhead: headers and directories
 * of trunks. Unread: trunks whose directories a rebuild of the FileMap has not read yet. Orphans:
 * stored, but in no record. The sum is exact while openPlans is 0; otherwise FastDFS may hold up to
 * openBytes more.
 */
export interface FsckReport {
  readonly waitingFiles: number;
  readonly waitingBytes: number;
  readonly spooledFiles: number;
  readonly spooledBytes: number;
  readonly mergedFiles: number;
  /** Trunks and large files that records name. */
  readonly trunks: number;
  readonly storedBytes: number;
  readonly liveBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
  readonly overheadBytes: number;
  readonly unreadTrunks: number;
  readonly unreadBytes: number;
  /** Remaining orphans, without those that were adopted or deleted. */
  readonly orphanTrunks: number;
  readonly orphanBytes: number;
  /** Plans for which FastDFS may hold something, because it could not be listed. */
  readonly openPlans: number;
  readonly openBytes: number;
  /** Trunks that too few storages are known to have; this disk keeps its copies. */
  readonly unconfirmedTrunks: number;
  /** Quarantined copies. */
  readonly damagedCopies: number;
  /** All orphans found, and what became of them. */
  readonly orphans: readonly Orphan[];
  /** Copies of large files that may be another program's; never touched. */
  readonly possibleOrphans: readonly PossibleOrphan[];
  /** What could not be listed, as one sentence each. */
  readonly unlisted: readonly string[];
  readonly problems: readonly FsckProblem[];
}

export interface FsckProblem {
  readonly code: 'counters_wrong' | 'file_lost' | 'trunk_missing' | 'trunk_unread' | 'orphan';
  /** Key or FastDFS id concerned. */
  readonly subject: string;
  readonly detail: string;
  readonly repaired: boolean;
}

export async function fsck(
  state: State,
  orphans: OrphanWatch,
  options: UpkeepOptions,
): Promise<FsckReport> {
  const problems: FsckProblem[] = [];
  problems.push(...checkCounters(state, options));
  await checkFiles(state, options, problems);
  // Orphans first, because a second copy may replace a lost trunk.
  const found = await orphans.search({ repair: options.repair, all: true }, options.signal);
  await checkTrunks(state, options, problems);
  for (const { fileId, bytes, fate, detail } of found.orphans) {
    const what = fate === 'left' ? 'no record names it' : `it was ${fate}`;
    const repaired = fate !== 'left';
    const text = `${bytes} bytes in FastDFS, ${what}: ${detail}`;
    problems.push({ code: 'orphan', subject: fileId, detail: text, repaired });
  }
  return { ...sums(state, found), problems };
}

function checkCounters({ fileMap }: State, { repair }: UpkeepOptions): FsckProblem[] {
  const said = JSON.stringify(fileMap.counters());
  const counted = fileMap.recount();
  if (said === JSON.stringify(counted)) return [];
  if (repair) fileMap.setCounters(counted);
  const detail = `the counters say ${said}, there are ${JSON.stringify(counted)}`;
  return [{ code: 'counters_wrong', subject: 'filemap', detail, repaired: repair }];
}

/** A waiting file must have its bytes on this disk: they are nowhere else. */
async function checkFiles(
  state: State,
  { repair, signal }: UpkeepOptions,
  problems: FsckProblem[],
): Promise<void> {
  const { fileMap, container, spool, quarantine } = state;
  for await (const row of allFiles(fileMap)) {
    if (signal?.aborted) throw stopped();
    if (row.trunk) continue;
    const place = localDamage(row);
    const { segment } = row.local;
    const there = place === 'spool' ? spool.has(row.key) : container.segment(segment);
    const isDamaged = quarantine.has(row.key, place);
    if (there && !isDamaged) continue;
    // Repairable only if it was in FastDFS before and is sound there.
    const repaired = repair && (await rollBackMove(state, row, signal));
    if (there) continue;
    const where = place === 'spool' ? 'the spool' : `segment ${segment}`;
    const detail =
      segment === LOST_SEGMENT
        ? 'a power failure took its bytes before they were durable'
        : `its bytes should be in ${where}, which is gone`;
    problems.push({ code: 'file_lost', subject: formatKey(row.key), detail, repaired });
  }
}

async function checkTrunks(
  state: State,
  { repair, signal, onProgress }: UpkeepOptions,
  problems: FsckProblem[],
): Promise<void> {
  const trunks = state.fileMap.trunksIn('confirmed');
  for (const trunk of state.fileMap.trunksIn('stored')) {
    const detail = 'its directory has not been read yet';
    problems.push({ code: 'trunk_unread', subject: trunk.fileId, detail, repaired: false });
  }
  for (const [index, trunk] of trunks.entries()) {
    if (signal?.aborted) throw stopped();
    const last = trunk.size === 0 ? 0 : trunk.size - 1;
    const found = await readTrunk(state.trunkStore, trunk, last, 1, signal);
    if (found?.length !== 1) await missing(state, trunk, repair, problems);
    onProgress?.(index + 1, trunks.length);
  }
}

/** Stages again what this disk still has of a trunk that FastDFS lost. */
async function missing(
  state: State,
  trunk: TrunkRow,
  repair: boolean,
  problems: FsckProblem[],
): Promise<void> {
  let lost = 0;
  let saved = 0;
  for (const row of aliveIn(state.fileMap, trunk)) {
    const isHere = row.local.at === 'container';
    const bytes = isHere ? await soundBytes(state.container, row) : undefined;
    if (!bytes) {
      lost += 1;
      const detail = `${trunk.fileId} is gone and there is no copy on this disk`;
      problems.push({ code: 'file_lost', subject: formatKey(row.key), detail, repaired: false });
    } else {
      saved += 1;
      if (!repair) continue;
      await stageAgain(state, [{ row, bytes }]);
      state.changes.emit('staged', row.size, false);
    }
  }
  const detail = `FastDFS no longer has it: ${saved} file(s) have a copy on this disk, ${lost} have none`;
  problems.push({
    code: 'trunk_missing',
    subject: trunk.fileId,
    detail,
    repaired: repair && lost === 0,
  });
}

function sums(
  { fileMap }: State,
  { orphans, possible, unlisted, openPlans, openBytes }: OrphanReport,
): Omit<FsckReport, 'problems'> {
  const { waitingFiles, waitingBytes, spooledFiles, spooledBytes, mergedFiles, mergedBytes } =
    fileMap.counters();
  const trunks = fileMap.trunkSums();
  type Field = 'trunks' | 'bytes' | 'deadFiles' | 'deadBytes';
  const add = (field: Field, ...states: readonly string[]) =>
    trunks
      .filter(({ state }) => states.includes(state))
      .reduce((total, sum) => total + sum[field], 0);
  // A trunk that is given up exists until FastDFS has deleted it.
  const there = ['confirmed', 'retiring'];
  const left = orphans.filter(({ fate }) => fate === 'left');
  const orphanBytes = left.reduce((total, { bytes }) => total + bytes, 0);
  const confirmedBytes = add('bytes', ...there);
  const deadBytes = add('deadBytes', ...there);
  return {
    waitingFiles,
    waitingBytes,
    spooledFiles,
    spooledBytes,
    mergedFiles,
    trunks: add('trunks', ...there),
    storedBytes: confirmedBytes + add('bytes', 'stored') + orphanBytes,
    liveBytes: mergedBytes,
    deadFiles: add('deadFiles', ...there),
    deadBytes,
    overheadBytes: confirmedBytes - mergedBytes - deadBytes,
    unreadTrunks: add('trunks', 'stored'),
    unreadBytes: add('bytes', 'stored'),
    orphanTrunks: left.length,
    orphanBytes,
    openPlans,
    openBytes,
    unconfirmedTrunks: fileMap.countUncopied(),
    damagedCopies: fileMap.countDamage(),
    orphans,
    possibleOrphans: possible,
    unlisted,
  };
}
