import { serial } from '@stevedore/async';
import { privateDisk } from '@stevedore/disk';
import { neededRecords } from './accept/retention.js';
import { Room } from './accept/room.js';
import { Changes } from './changes.js';
import { Container } from './container/container.js';
import { SEGMENT_BYTES } from './container/record.js';
import { openFileMap, prepareFolders, readOrigin, replayContainer } from './container/recovery.js';
import { Spool } from './container/spool.js';
import { Unfinished } from './container/unfinished.js';
import { StagedCopies } from './copies/staged-copies.js';
import { DirectoryLock } from './directory-lock.js';
import { StoreError, storeErrorOf } from './errors.js';
import type { FileMap, FileRow, TrunkRow } from './filemap/filemap.js';
import { freeBytes } from './folders.js';
import { KeyMaker } from './key.js';
import { WaitingFiles, waitingIn } from './merge/waiting-files.js';
import { Quarantine } from './repair/quarantine.js';
import { abandonPlans, settleKnown } from './repair/rebuild.js';
import { soundBytes } from './repair/sound-bytes.js';
import type { StagingOptions } from './staging-options.js';
import type { State } from './state.js';

/**
 * Makes a directory consistent, whatever the last process left: first the lock, then FileMap and
 * container, then the trunks that can be settled without FastDFS.
 */
export interface OpenedState {
  readonly state: State;
  /** Trunks whose directories must be read into a lost FileMap. */
  readonly unread: readonly TrunkRow[];
}

/** Share of the container for uploads that may never be finished. */
const UNFINISHED_SHARE = 0.5;
const MIN_FREE_BYTES = 64 * 2 ** 20;

export async function openState(options: StagingOptions): Promise<OpenedState> {
  const { directory, disk = privateDisk, containerSize, now } = options;
  await DirectoryLock.awaitOwner(directory, 'filemap.sqlite');
  await prepareFolders(disk, directory);
  const lock = DirectoryLock.acquire(directory);
  let fileMap: FileMap | undefined;
  let container: Container | undefined;
  try {
    const changes = new Changes();
    const report = (error: Error): void => changes.report(error);
    fileMap = await openFileMap(directory, options.publishes ?? 'nothing', now(), report);
    const random = async (): Promise<number> => {
      const bytes = Buffer.alloc(2);
      options.randomFill(bytes);
      return bytes.readUInt16BE(0);
    };
    const choose = options.origin ?? random;
    const origin = await readOrigin(disk, directory, choose);
    const copies = options.copies && new StagedCopies(options.copies);
    const folder = `${directory}/container`;
    const replayed = await replayContainer(disk, folder, fileMap, now());
    container = new Container({
      disk,
      folder,
      origin,
      now,
      sync: options.durability === 'sync',
      segmentBytes: options.segmentBytes ?? SEGMENT_BYTES,
      nextSegment: replayed.nextSegment,
      tailBytes: options.tailBytes ?? 0,
      fileMap,
      changes,
      copies,
    });
    for (const segment of replayed.segments) container.adopt(segment);
    const spool = new Spool(disk, `${directory}/spool`);
    const limitBytes = containerSize * UNFINISHED_SHARE;
    const unfinished = new Unfinished({
      disk,
      folder: `${directory}/unfinished`,
      spool,
      limitBytes,
    });
    await unfinished.recover((key) => fileMap?.find(key) !== undefined);
    await spool.recover((key) => fileMap?.find(key)?.local.at === 'spool');
    const trunkStore = await options.connect(origin);
    const abandoned = abandonPlans(fileMap, now());
    if (abandoned > 0) report(interrupted(abandoned));
    const unread = await settleKnown(fileMap);
    const lost = await settleLostTail({ container, spool, fileMap, now }, replayed.short);
    if (lost) report(lost);
    if (replayed.damaged > 0) report(rotten(replayed.damaged));
    if ((options.idMaxAge ?? 0) === 0) fileMap.keepThinTrunks();
    const users = { container, spool, unfinished };
    const minFreeBytes = options.minFreeBytes ?? MIN_FREE_BYTES;
    const free = await freeBytes(disk, directory);
    const files = new WaitingFiles(fileMap);
    const state = {
      options,
      now,
      disk,
      lock,
      fileMap,
      container,
      spool,
      unfinished,
      trunkStore,
      copies,
      origin,
      keys: new KeyMaker(origin, options),
      room: new Room(users, containerSize, minFreeBytes, free),
      files,
      quarantine: new Quarantine({ fileMap, files, changes, now }),
      changes,
      alone: serial(),
    };
    return { state, unread };
  } catch (error) {
    await container?.close().catch(() => undefined);
    await fileMap?.close();
    lock.release();
    throw storeErrorOf(error);
  }
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
    { retryable: false },
  );
}

/** The parts needed to settle a lost tail. */
type TailParts = Pick<State, 'container' | 'spool' | 'fileMap' | 'now'>;

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
