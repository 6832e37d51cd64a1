import { setImmediate as nextTurn } from 'node:timers/promises';
import { formatKey } from '../key.js';
import type { State } from '../state.js';
import { fileIdOf } from './trunk-plan.js';

/** Rows read at a time; other work runs in between. */
const PAGE_ROWS = 500;

/** Makes thin trunks final, whatever their size: they are not joined, and their files have ids. */
export async function keepThinTrunks({ fileMap, changes }: State): Promise<void> {
  const trunks = fileMap.thinTrunks();
  if (trunks.length === 0) return;
  fileMap.keepThinTrunks();
  if (changes.listenerCount('merged') === 0) return;
  for (const { id } of trunks) {
    for (let offset = -1; ; ) {
      const rows = fileMap.aliveIn(id, offset, PAGE_ROWS);
      for (const row of rows) {
        const fileId = fileIdOf(row);
        if (fileId !== undefined) changes.emit('merged', { key: formatKey(row.key), fileId });
      }
      if (rows.length < PAGE_ROWS) break;
      offset = rows.at(-1)?.trunk.offset ?? offset;
      await nextTurn();
    }
  }
}
