import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileRow } from '@stevedore/staging';
import type { GroupOptions, GroupPage } from '../store/types.js';
import {
  demandComplete,
  LAST,
  type ListSources,
  limitOf,
  MAX_EXAMINED,
  ROWS_AT_ONCE,
} from './listing.js';
import { folded } from './texts.js';

/**
 * Lists the groups that have a living file, in the order of their names. Every group costs one step
 * of the index on groups, and one to its newest file: no other file is looked at, unless that one has
 * expired. A page examines a bounded number of groups, as one of files does.
 */

/** Groups examined before other work runs. */
const GROUPS_AT_ONCE = 50;

type Sources = Pick<ListSources, 'all' | 'now' | 'isRemoved'>;

/** Rejects with `invalid_option`, and with `storage_unavailable` while a FileMap is rebuilt. */
export async function listGroups(options: GroupOptions, sources: Sources): Promise<GroupPage> {
  const limit = limitOf(options);
  const part = folded(options.nameContains ?? '');
  demandComplete(sources);
  const groups: string[] = [];
  let after = (options.after ?? '').toWellFormed();
  for (let examined = 0; examined < MAX_EXAMINED; examined += 1) {
    if (examined % GROUPS_AT_ONCE === GROUPS_AT_ONCE - 1) await nextTurn();
    const behind = sources.all.flatMap(({ fileMap }) => fileMap.groupBehind(after) ?? []);
    const [group] = behind.sort(byBytes);
    if (group === undefined) return { groups };
    if (groups.length === limit) break;
    after = group;
    if (folded(group).includes(part) && (await isAlive(group, sources))) groups.push(group);
  }
  return { groups, next: after };
}

/** SQLite's order. That of JavaScript differs for characters beyond U+FFFF. */
function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** Begins with the newest file: the oldest ones expire first. */
async function isAlive(group: string, { all, now, isRemoved }: Sources): Promise<boolean> {
  const at = now();
  const isListed = ({ key, expiresAt = Number.POSITIVE_INFINITY }: FileRow): boolean =>
    expiresAt > at && !isRemoved(key);
  for (const { fileMap } of all) {
    let before: Buffer = LAST;
    for (let most = 1; ; most = ROWS_AT_ONCE) {
      const rows = fileMap.pageOfGroupBefore(group, before, most);
      if (rows.some(isListed)) return true;
      if (rows.length < most) break;
      before = rows.at(-1)!.key;
      if (most > 1) await nextTurn();
    }
  }
  return false;
}
