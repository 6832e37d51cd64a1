import { privateDisk } from '@stevedore/disk';
import { Container } from './container/container.js';
import { SEGMENT_BYTES } from './container/record.js';
import {
  openFileMap,
  prepareFolders,
  type RecoveredContainer,
  readOrigin,
  replayContainer,
} from './container/recovery.js';
import { Spool } from './container/spool.js';
import { Unfinished } from './container/unfinished.js';
import { StagedCopies } from './copies/staged-copies.js';
import { DirectoryLock } from './directory-lock.js';
import { StoreError, storeErrorOf } from './errors.js';
import type { FileMap, FileRow, TrunkRow } from './filemap/filemap.js';
import { freeBytes } from './folders.js';
import type { Stores } from './merge/trunk-store.js';
import { waitingIn } from './merge/waiting-files.js';
import { abandonPlans, settleKnown } from './repair/rebuild.js';
import { soundBytes } from './repair/sound-copies.js';
import type { StagingOptions } from './staging-options.js';
import { neededRecords } from './upkeep/retention.js';

/**
 * Brings a directory into a consistent state, whatever the last process left: first the lock, then
 * FileMap and container, then the trunks that can be settled without FastDFS.
 */
export interface StartedParts extends Omit<Stores, 'now'> {
  readonly lock: DirectoryLock;
  readonly unfinished: Unfinished;
  readonly origin: number;
  readonly freeBytes: number;
  readonly copies: StagedCopies | undefined;
  /** Trunks whose directories must be read into a lost FileMap. */
  readonly unread: readonly TrunkRow[];
  /** Problems to report to the operator. */
  readonly problems: readonly Error[];
}

/** Share of the container for uploads that may never be finished. */
const UNFINISHED_SHARE = 0.5;

export async function startUp(options: StagingOptions): Promise<StartedParts> {
  const { directory, disk = privateDisk } = options;
  await DirectoryLock.awaitOwner(directory, 'filemap.sqlite');
  await prepareFolders(disk, directory);
  const lock = DirectoryLock.acquire(directory);
  let fileMap: FileMap | undefined;
  let container: Container | undefined;
  try {
    const problems: Error[] = [];
    fileMap = await openFileMap(directory, options.hasMap ?? false, options.now(), (error) =>
      problems.push(error),
    );
    const origin = await readOrigin(
      disk,
      directory,
      options.origin ?? (() => randomOrigin(options.randomFill)),
    );
    const copies = options.copies && new StagedCopies(options.copies);
    const opened = await openContainer(options, fileMap, origin, copies);
    container = opened.container;
    const spool = new Spool(disk, `${directory}/spool`);
    const unfinished = new Unfinished({
      ...{ disk, folder: `${directory}/unfinished`, spool },
      limitBytes: options.containerBytes * UNFINISHED_SHARE,
    });
    await unfinished.recover((key) => fileMap?.find(key) !== undefined);
    await spool.recover((key) => fileMap?.find(key)?.local.at === 'spool');
    const trunkStore = await options.connect(origin);
    const abandoned = abandonPlans(fileMap, options.now());
    if (abandoned > 0) problems.push(interrupted(abandoned));
    const unread = await settleKnown(fileMap);
    const { now } = options;
    const lost = await settleLostTail({ container, spool, fileMap, now }, opened.short);
    if (lost) problems.push(lost);
    if (opened.damaged > 0) problems.push(rotten(opened.damaged));
    const parts = {
      ...{ lock, fileMap, container, spool, unfinished },
      ...{ origin, trunkStore, copies, freeBytes: await freeBytes(disk, directory) },
    };
    return { ...parts, unread, problems };
  } catch (error) {
    await container?.close().catch(() => undefined);
    await fileMap?.close();
    lock.release();
    throw storeErrorOf(error);
  }
}

async function openContainer(
  options: StagingOptions,
  fileMap: FileMap,
  origin: number,
  copies: StagedCopies | undefined,
): Promise<Pick<RecoveredContainer, 'short' | 'damaged'> & { readonly container: Container }> {
  const { directory, disk = privateDisk, now, sync, segmentBytes = SEGMENT_BYTES } = options;
  const folder = `${directory}/container`;
  const recovered = await replayContainer(disk, folder, fileMap, now());
  const { segments, nextSegment, short, damaged } = recovered;
  const settings = { disk, folder, origin, now, sync, segmentBytes, nextSegment };
  const container = new Container({ ...settings, fileMap, copies });
  for (const segment of segments) container.adopt(segment);
  return { container, short, damaged };
}

function randomOrigin(randomFill: (target: Buffer) => void): number {
  const bytes = Buffer.alloc(2);
  randomFill(bytes);
  return bytes.readUInt16BE(0);
}

function rotten(count: number): StoreError {
  return new StoreError(
    'corrupt',
    `${count} file(s) on this disk were found damaged while the FileMap was rebuilt; they are read from FastDFS if it has them`,
  );
}

function interrupted(count: number): StoreError {
  return new StoreError(
    'storage_unavailable',
    `${count} trunk(s) were in flight when the last process ended; their files are packed again, and leftover copies in FastDFS are searched for`,
  );
}

/** The parts needed to settle a lost tail. */
type TailParts = Omit<Stores, 'trunkStore'>;

/**
 * With durability `os` a power failure may take records that no sync had made durable, and leave
 * the FileMap, which SQLite syncs now and then, ahead of `segments`. Files that were being moved
 * are rolled back to their former place; others are quarantined, so that reading one is an error
 * and never returns other bytes. What the FileMap knows of trunks and deletions is recorded again,
 * durably. Undefined if nothing is lost.
 */
async function settleLostTail(
  parts: TailParts,
  segments: readonly number[],
): Promise<StoreError | undefined> {
  const { container, fileMap, now } = parts;
  let lost = 0;
  for (const number of segments) {
    for (const row of waitingIn(fileMap, number)) {
      if (row.local.at === 'container' && !(await soundBytes(container, row)))
        lost += recordLoss(parts, row, 'container');
    }
    const records = neededRecords(fileMap, number, now());
    if (records.length > 0) await container.append(records, true);
    if (!container.segment(number)) fileMap.forgetSegment(number);
  }
  for (const row of fileMap.waitingSpooled(Number.MAX_SAFE_INTEGER)) {
    if (parts.spool.sizeOf(row.key) !== row.size) lost += recordLoss(parts, row, 'spool');
  }
  if (lost === 0) return undefined;
  return new StoreError(
    'corrupt',
    `${lost} file(s) were acknowledged before they were synced, and a power failure lost them; reading one is an error until you delete it`,
  );
}

/** Returns 1 if no copy of the file is left. */
function recordLoss({ fileMap, now }: TailParts, row: FileRow, place: 'container' | 'spool') {
  if (fileMap.rollBackMove(row.key)) return 0;
  fileMap.loseFile(row.key);
  return fileMap.addDamage({ key: row.key, place, holder: '', foundAt: now() }) ? 1 : 0;
}
