import { deletionRecord, type StoredTrunk, storedRecord } from '../container/records.js';
import type { TrunkRow } from '../filemap/filemap.js';
import type { State } from '../state.js';
import type { Deletions } from '../upkeep/deletions.js';
import { type Rebuild, settleKnown } from './rebuild.js';

/**
 * Takes over the trunks of a container that is gone, as if they had been stored here: writes
 * records of them and of the deletions of their files, then reads their directories as for a lost
 * FileMap. Idempotent: what is known already is skipped.
 */
export interface AdoptedTrunks {
  readonly trunks: readonly AdoptedTrunk[];
  /** Keys of deleted files in them. */
  readonly deleted: AsyncIterable<readonly Buffer[]>;
  /** FastDFS ids of files that nothing in the deployment needs: they are removed. */
  readonly unwanted: readonly string[];
}

export type AdoptedTrunk = Omit<StoredTrunk, 'doubtful' | 'blocks' | 'files'>;

/** Maximum trunks per append. */
const TRUNKS_AT_ONCE = 500;

export async function adopt(
  state: State,
  rebuild: Rebuild,
  deletions: Deletions,
  adopted: AdoptedTrunks,
): Promise<void> {
  const { fileMap, container, alone, now } = state;
  const isNew = ({ taskId }: AdoptedTrunk) => fileMap.trunkByTask(taskId) === undefined;
  const trunks = adopted.trunks.filter(isNew);
  // A deletion is kept for the trunks that have its file, so no segment is removed until these
  // trunks are recorded.
  await alone(async () => {
    for await (const keys of adopted.deleted) {
      const unknown: Buffer[] = [];
      for (const key of keys) {
        if (fileMap.find(key)) await deletions.delete(key);
        else if (!fileMap.isDeleted(key)) unknown.push(key);
      }
      if (unknown.length > 0) {
        await container.append(unknown.map((key) => deletionRecord(key, now())));
      }
    }
    for (let at = 0; at < trunks.length; at += TRUNKS_AT_ONCE) {
      const some = trunks.slice(at, at + TRUNKS_AT_ONCE);
      const stored = some.map((trunk) => ({
        ...trunk,
        files: trunk.kind === 'whole' ? 1 : 0,
        doubtful: false,
      }));
      await container.append(stored.map((trunk) => storedRecord(trunk, now())));
    }
  });
  for (const fileId of adopted.unwanted) fileMap.addUnwanted(fileId);
  const rows = trunks.flatMap(({ taskId }): TrunkRow[] => {
    const row = fileMap.trunkByTask(taskId);
    return row?.state === 'stored' ? [row] : [];
  });
  rebuild.add(await settleKnown(fileMap, rows));
}
