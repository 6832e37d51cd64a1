import type { StoreStats } from '@stevedore/client';
import type { Figure } from './figures.js';

/** Figures of what may be in FastDFS twice or too seldom, and of damaged copies. */

export const INTEGRITY_GAUGES: readonly Figure<StoreStats>[] = [
  {
    name: 'stevedore_unconfirmed_trunks',
    help: 'Trunks that too few storages have shown to have; this disk keeps their files.',
    of: (stats) => stats.unconfirmedTrunks,
  },
  {
    name: 'stevedore_open_plans',
    help: 'Trunks that were given up and may be in FastDFS all the same.',
    of: (stats) => stats.orphans.openPlans,
  },
  {
    name: 'stevedore_damaged_copies',
    help: 'Copies of files that are not read because they are damaged.',
    of: (stats) => stats.damage.quarantined,
  },
];

export const INTEGRITY_COUNTERS: readonly Figure<StoreStats>[] = [
  {
    name: 'stevedore_orphans_adopted_total',
    help: 'Trunks found in FastDFS that no record named, and that were taken.',
    of: (stats) => stats.orphans.adopted,
  },
  {
    name: 'stevedore_orphans_deleted_total',
    help: 'Trunks found in FastDFS that no record named, and that were deleted.',
    of: (stats) => stats.orphans.deleted,
  },
  {
    name: 'stevedore_damage_found_total',
    help: 'Copies of files that were found damaged.',
    of: (stats) => stats.damage.found,
  },
  {
    name: 'stevedore_damage_repaired_total',
    help: 'Files with a damaged copy that were made good.',
    of: (stats) => stats.damage.repaired,
  },
  {
    name: 'stevedore_scrub_walks_total',
    help: 'Walks of the scrub in the background that came to their end.',
    of: (stats) => stats.scrub.walks,
  },
  {
    name: 'stevedore_scrub_files_total',
    help: 'Copies of files that those walks read.',
    of: (stats) => stats.scrub.files,
  },
  {
    name: 'stevedore_scrub_bytes_total',
    help: 'Bytes that those walks read.',
    of: (stats) => stats.scrub.bytes,
  },
];
