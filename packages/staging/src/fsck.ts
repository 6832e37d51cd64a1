import { crc32 } from 'node:zlib';
import type { FileRow, TrunkRow } from './filemap.js';
import { formatKey } from './key.js';
import {
  allFiles,
  ROWS_PER_PAGE,
  readTrunk,
  stageAgain,
  stopped,
  type UpkeepOptions,
  type UpkeepParts,
} from './upkeep.js';

/**
 * Holds FileMap, container and FastDFS against each other. Every byte that was ever
 * stored is live (a file refers to it), dead (its file was deleted or moved) or
 * possibly orphaned (a plan was given up, and FastDFS may hold what was sent of it).
 */
export interface FsckReport {
  readonly waitingFiles: number;
  readonly waitingBytes: number;
  readonly spooledFiles: number;
  readonly spooledBytes: number;
  readonly mergedFiles: number;
  /** Bytes of living files in FastDFS. */
  readonly liveBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
  readonly trunks: number;
  /** Plans that were given up while they may have been on their way. */
  readonly abandonedPlans: number;
  /** What FastDFS holds of them at the most. */
  readonly possibleOrphanBytes: number;
  readonly problems: readonly FsckProblem[];
}

export interface FsckProblem {
  readonly code: 'counters_wrong' | 'file_lost' | 'trunk_missing' | 'trunk_unread';
  /** The key or the FastDFS id that it is about. */
  readonly subject: string;
  readonly detail: string;
  readonly repaired: boolean;
}

export async function fsck(parts: UpkeepParts, options: UpkeepOptions): Promise<FsckReport> {
  const problems: FsckProblem[] = [];
  problems.push(...checkCounters(parts, options));
  await checkFiles(parts, options, problems);
  await checkTrunks(parts, options, problems);
  return { ...sums(parts), problems };
}

function checkCounters({ fileMap }: UpkeepParts, { repair }: UpkeepOptions): FsckProblem[] {
  const said = JSON.stringify(fileMap.counters());
  const counted = fileMap.recount();
  if (said === JSON.stringify(counted)) return [];
  if (repair) fileMap.setCounters(counted);
  const detail = `the counters say ${said}, there are ${JSON.stringify(counted)}`;
  return [{ code: 'counters_wrong', subject: 'filemap', detail, repaired: repair }];
}

/** A file that waits must have its bytes on this disk: they are nowhere else. */
async function checkFiles(
  { fileMap, container, spool }: UpkeepParts,
  { signal }: UpkeepOptions,
  problems: FsckProblem[],
): Promise<void> {
  for await (const row of allFiles(fileMap)) {
    if (signal?.aborted) throw stopped();
    if (row.trunk !== null) continue;
    const there = row.spooled > 0 ? spool.has(row.key) : container.segment(row.segment);
    if (there) continue;
    const detail = `its bytes should be in ${row.spooled > 0 ? 'the spool' : `segment ${row.segment}`}, which is gone`;
    problems.push({ code: 'file_lost', subject: formatKey(row.key), detail, repaired: false });
  }
}

async function checkTrunks(
  parts: UpkeepParts,
  { repair, signal, onProgress }: UpkeepOptions,
  problems: FsckProblem[],
): Promise<void> {
  const trunks = parts.fileMap.trunksIn('confirmed');
  for (const trunk of parts.fileMap.trunksIn('stored')) {
    const detail = 'its directory has not been read yet';
    problems.push({ code: 'trunk_unread', subject: trunk.fileId!, detail, repaired: false });
  }
  for (const [index, trunk] of trunks.entries()) {
    if (signal?.aborted) throw stopped();
    const last = trunk.size === 0 ? 0 : trunk.size - 1;
    const found = await readTrunk(parts.trunkStore, trunk, last, 1, signal);
    if (found?.length !== 1) await missing(parts, trunk, repair, problems);
    onProgress?.(index + 1, trunks.length);
  }
}

/** What is still on this disk of a trunk that FastDFS lost is staged again. */
async function missing(
  parts: UpkeepParts,
  trunk: TrunkRow,
  repair: boolean,
  problems: FsckProblem[],
): Promise<void> {
  let lost = 0;
  let saved = 0;
  for (const row of aliveIn(parts, trunk)) {
    const bytes = await localBytes(parts, row);
    if (!bytes) {
      lost += 1;
      const detail = `${trunk.fileId} is gone and there is no copy on this disk`;
      problems.push({ code: 'file_lost', subject: formatKey(row.key), detail, repaired: false });
    } else {
      saved += 1;
      if (repair) await stageAgain(parts, row, bytes);
    }
  }
  const detail = `FastDFS no longer has it: ${saved} file(s) have a copy on this disk, ${lost} have none`;
  problems.push({
    code: 'trunk_missing',
    subject: trunk.fileId!,
    detail,
    repaired: repair && lost === 0,
  });
}

function* aliveIn({ fileMap }: UpkeepParts, trunk: TrunkRow): Generator<FileRow> {
  for (let offset = -1; ; ) {
    const page = fileMap.aliveIn(trunk.id, offset, ROWS_PER_PAGE);
    yield* page;
    if (page.length < ROWS_PER_PAGE) return;
    offset = page.at(-1)!.trunkOffset!;
  }
}

async function localBytes({ container }: UpkeepParts, row: FileRow): Promise<Buffer | undefined> {
  if (row.spooled > 0) return undefined;
  const bytes = await container.segment(row.segment)?.read(row.position, row.size);
  return bytes?.length === row.size && crc32(bytes) === row.crc32 ? bytes : undefined;
}

function sums({ fileMap }: UpkeepParts): Omit<FsckReport, 'problems'> {
  const { waitingFiles, waitingBytes, spooledFiles, spooledBytes, mergedFiles, mergedBytes } =
    fileMap.counters();
  const trunks = fileMap.trunkSums();
  const add = (state: string, field: 'trunks' | 'bytes' | 'deadFiles' | 'deadBytes') =>
    trunks.filter((sum) => sum.state === state).reduce((total, sum) => total + sum[field], 0);
  return {
    waitingFiles,
    waitingBytes,
    spooledFiles,
    spooledBytes,
    mergedFiles,
    liveBytes: mergedBytes,
    deadFiles: add('confirmed', 'deadFiles'),
    deadBytes: add('confirmed', 'deadBytes'),
    trunks: add('confirmed', 'trunks'),
    abandonedPlans: add('abandoned', 'trunks'),
    possibleOrphanBytes: add('abandoned', 'bytes'),
  };
}
