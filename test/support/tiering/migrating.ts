import { join } from 'node:path';
import { type Costs, costOf } from '@stevedore/balance';
import { localDisk } from '@stevedore/disk';
import { vi } from 'vitest';
import { Migration } from '../../../packages/tiering/dist/migration/migration.js';
import { OwnRoom } from '../../../packages/tiering/dist/migration/rooms.js';
import {
  type RequestClass,
  Scheduler,
} from '../../../packages/tiering/dist/scheduler/scheduler.js';
import { type TierOptions, tierSettings } from '../../../packages/tiering/dist/tier-options.js';
import type { Records } from '../../../packages/tiering/dist/tiers/records.js';
import { until } from '../storage/support.js';
import { ofTest, temporaryFolder } from '../temporary.js';
import { OtherGroup, openIn, store, tierOf } from './harness.js';

/** A migration whose intervals end when a test says so, on a clock of its own. */

export const SECOND = 1000;
export const KIB = 1024;
/** B_logic of 1 MB, of which 80 % are to be used; an access costs 1000 bytes. */
const GIVEN: Costs = { bytesPerSecond: 1e6, readMs: 1, writeMs: 1 };

/** A line of the log. */
interface Move {
  readonly name: string;
  readonly to: string;
  readonly reason: string;
  readonly outcome: string;
  readonly [number: string]: unknown;
}

interface Environs {
  readonly costs?: Costs;
  readonly disk?: typeof localDisk;
  readonly further?: readonly string[];
  /** False: there are rows of before, and no new ones. */
  readonly isEnabled?: boolean;
  readonly onError?: (error: unknown) => void;
}

export async function migrationOf(
  options: TierOptions = {},
  {
    costs = GIVEN,
    disk = localDisk,
    further = [],
    isEnabled = true,
    onError = (error: unknown): void => {
      throw error;
    },
  }: Environs = {},
) {
  const folder = temporaryFolder();
  const remote = new OtherGroup();
  const clock = { ms: 1_700_000_000_000 };
  const now = () => clock.ms;
  const environment = { now, uptimeMs: now, random: () => 0 };
  const all = { thresholdBytes: 64 * KIB, movesPerSecond: 1000, ...options };
  const settings = tierSettings({ enabled: true, ...all }, 'group1');
  const late: { migration?: Migration } = {};
  const opened = await openIn(folder, {
    remote,
    disk,
    environment,
    further,
    options: all,
    events: {
      onAccess: (path, bytes, size, isNew) =>
        late.migration?.accessed(path, costOf(costs, 'write', bytes), size, isNew),
      onCut: (tier, name, size) => late.migration?.cut(tier, name, size),
      onGrown: (tier, name, size) => late.migration?.grown(tier, name, size),
    },
  });
  const scheduler = new Scheduler({ ...settings, now });
  const moves: Move[] = [];
  const ownRoom = new OwnRoom();
  const findRoom = vi.fn<
    (bytes: number) => Promise<{ group: string; roomBytes: number } | undefined>
  >(async () => undefined);
  const migration = new Migration({
    settings: { ...settings, enabled: isEnabled },
    tiers: opened.tiers,
    scheduler,
    audit: {
      write: (entry: Move) => moves.push(entry),
      flush: async () => {},
    } as never,
    costs,
    ownRoom,
    findRoom,
    orphans: () => 3,
    now,
    onError,
  });
  late.migration = migration;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= migration.close().then(() => opened.close());
    return closed;
  };
  ofTest(close);
  const records: Records = tierOf(opened).records;
  return {
    folder,
    remote,
    opened,
    close,
    records,
    migration,
    scheduler,
    moves,
    findRoom,
    ownRoom,
    clock,
    put: (name: string, size: number) => store(opened, folder, name, Buffer.alloc(size, 7)),
    /** Ends an interval in which so much of each class was served. */
    interval: async (served: Partial<Record<RequestClass, number>> = {}) => {
      // Whatever was allowed before.
      scheduler.allow(undefined);
      for (const [kind, cost] of Object.entries(served)) {
        await scheduler.run(kind as RequestClass, cost, async () => {});
      }
      clock.ms += SECOND;
      migration.endInterval();
    },
    /** A row is read so often. */
    read: (name: string, times = 1) => {
      const { size } = records.find(name)!;
      const load = costOf(costs, 'read', size);
      for (let n = 0; n < times; n += 1) {
        migration.accessed(join(folder, 'data', name), load, size, false);
      }
    },
    settled: () => until(() => migration.status().queued === 0),
  };
}
