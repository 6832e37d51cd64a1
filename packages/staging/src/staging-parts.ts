import { privateDisk, serial } from '@stevedore/disk';
import { Acceptance } from './container/acceptance.js';
import { LocalCopies } from './container/local-copies.js';
import type { FileRow } from './filemap/filemap.js';
import { KeyMaker } from './key.js';
import { Copies } from './merge/copies.js';
import { MergeTask } from './merge/merge-task.js';
import { seededRandom } from './merge/random.js';
import { type SentTrunk, TrunkSender } from './merge/trunk-sender.js';
import { OrphanWatch } from './repair/orphan-watch.js';
import type { OrphanReport } from './repair/orphans.js';
import { type DamageEvent, Quarantine } from './repair/quarantine.js';
import { Rebuild } from './repair/rebuild.js';
import { Repairs } from './repair/repair.js';
import { ScrubWatch } from './repair/scrub-watch.js';
import { type RepairParts, soundSlice } from './repair/sound-copies.js';
import { takeBack } from './repair/take-back.js';
import type { StagingOptions } from './staging-options.js';
import type { StartedParts } from './startup.js';
import { Background } from './upkeep/background.js';
import { Compaction } from './upkeep/compaction.js';
import { Deletions } from './upkeep/deletions.js';
import { Retention, recordOf } from './upkeep/retention.js';
import { Retirement } from './upkeep/retirement.js';
import { setAside } from './upkeep/set-aside.js';
import { Tidying } from './upkeep/tidying.js';

/** Puts the parts of Staging together: what each is given, and what it tells the others. */

export type StagingParts = ReturnType<typeof assemble>;

/** What Staging is told by its parts. */
export interface StagingHooks {
  readonly onError: (error: Error) => void;
  readonly onDamage: (damage: DamageEvent) => void;
  readonly onSent: (sent: SentTrunk, durationMs: number) => void;
  readonly onOrphans: (report: OrphanReport) => void;
}

const DEFAULT_MIN_FREE_BYTES = 64 * 2 ** 20;
const DEFAULT_SCRUB_PAUSE_MS = 60_000;
const SCRUB_INTERVAL_MS = 86_400_000;
const DEFAULT_LISTING_GRACE_MS = 300_000;
const DEFAULT_COMPACTION_BYTES_PER_SECOND = 8 * 2 ** 20;

export function assemble(options: StagingOptions, started: StartedParts, hooks: StagingHooks) {
  const { container, spool, fileMap, trunkStore } = started;
  const { now, trunkBytes, maxAgeMs, disk = privateDisk } = options;
  const keys = new KeyMaker(started.origin, options);
  const background = new Background(hooks.onError);
  const onError = (error: Error) => background.report(error);
  const trim = () => background.run(retention.trim());

  const retention = new Retention({
    ...{ container, spool, fileMap, now, retainBytes: options.retainBytes },
    oldestInUse: () => merging.oldestSegmentInUse(),
    setAside: (segment, isRoomNeeded) =>
      setAside({ ...upkeep, leaveOut: (key) => merging.leaveOut(key) }, segment, isRoomNeeded),
  });
  const acceptance = new Acceptance({
    ...{ container, spool, retention, sync: options.sync, freeBytes: started.freeBytes },
    readFreeBytes: async () => (await disk.space(options.directory)).freeBytes,
    merging: () => merging,
    containerBytes: options.containerBytes,
    minFreeBytes: options.minFreeBytes ?? DEFAULT_MIN_FREE_BYTES,
  });
  const rebuild = new Rebuild({
    ...{ fileMap, trunkStore, trunks: started.unread, onProgress: options.onRebuild, onError },
    onAnswered: () => {
      merging.lookAgain();
      tidying.want();
    },
  });
  const merging = new MergeTask({
    ...{ fileMap, now, trunkBytes, maxAgeMs, onError, onSent: hooks.onSent },
    sender: new TrunkSender({ container, spool, fileMap, trunkStore, now }),
    random: seededRandom(options.packingSeed),
    newTaskId: () => keys.next(),
    // Trunks that have not been read may hold files of the container already.
    firstSegment: () => (rebuild.isWaiting ? container.firstOwnSegment : 0),
    isShort: () => acceptance.isShort,
    onReleased: ({ kind, rows }) => {
      trim();
      tidying.want();
      // A large file that was deleted while it was on its way.
      const [{ key }] = rows as [FileRow];
      if (kind === 'whole' && !fileMap.find(key)) background.run(spool.remove(key));
    },
    onDamaged: (row) => local.noteDamage(row, row.spooled > 0 ? 'spool' : 'container'),
  });
  const quarantine = new Quarantine({
    ...{ fileMap, now, onError, onDamage: hooks.onDamage },
    onLifted: (key) => merging.takeIn(key),
  });
  for (const { key } of quarantine.onlyCopies()) merging.leaveOut(key);
  const upkeep: RepairParts = {
    ...{ quarantine, container, spool, fileMap, trunkStore, now },
    onMoved: (bytes, spooled) => merging.noteStaged(bytes, spooled),
    beginAgain: (key, bytes) => acceptance.beginAgain(key, bytes),
    alone: retention.alone,
    inTurn: serial(),
  };
  const repairs = new Repairs(upkeep);
  const local = new LocalCopies({
    ...{ container, spool, fileMap, quarantine },
    onDamaged: ({ key, trunk, was }) => {
      if (trunk === null) merging.leaveOut(key);
      if (trunk !== null || was !== null) repairs.want(key);
    },
    takeBack: (row) => takeBack(upkeep, row, undefined),
  });
  const retirement = new Retirement({ container, fileMap, retention, trunkStore, now });
  const compaction = new Compaction({
    ...{ container, fileMap, trunkStore, now },
    readLocal: (row) => local.read(row),
    readSound: (row) => soundSlice(upkeep, row, undefined),
    makeRoom: (bytes) => acceptance.makeRoom(bytes),
    onMoved: (bytes) => merging.noteStaged(bytes, false),
    bytesPerSecond: options.compactionBytesPerSecond ?? DEFAULT_COMPACTION_BYTES_PER_SECOND,
  });
  const tidying = new Tidying(retirement, compaction, rebuild, background);
  const deletions = new Deletions({
    ...{ container, fileMap, spool, quarantine, merging, background, now },
    isComplete: () => rebuild.isComplete,
    onDead: () => tidying.want(),
  });
  const copies = new Copies({
    ...{ fileMap, trunkStore, wanted: options.confirmCopies ?? 0, onError },
    onConfirmed: trim,
  });
  const orphans = new OrphanWatch({
    ...{ fileMap, trunkStore, now, onError, onReport: hooks.onOrphans },
    graceMs: options.listingGraceMs ?? DEFAULT_LISTING_GRACE_MS,
    syncRecords: () => container.sync(),
    // While a FileMap is made anew, a file that seems to wait may be in another trunk.
    adopt: async (plan, fileId) => rebuild.isComplete && merging.adopt(plan, fileId),
    replace: (trunk, fileId) => container.append([recordOf(fileMap, { ...trunk, fileId }, now())]),
  });
  const scrubs = new ScrubWatch(upkeep, {
    bytesPerSecond: options.scrubBytesPerSecond ?? 0,
    pauseMs: options.scrubPauseMs ?? DEFAULT_SCRUB_PAUSE_MS,
    intervalMs: SCRUB_INTERVAL_MS,
  });
  const stores = { lock: started.lock, container, spool, fileMap };
  const upkeeping = { upkeep, quarantine, repairs, scrubs, copies, orphans, rebuild };
  const giving = { retention, retirement, compaction, tidying };
  return {
    ...stores,
    keys,
    background,
    acceptance,
    local,
    deletions,
    merging,
    ...upkeeping,
    ...giving,
  };
}
