import type { Acceptance } from '../accept/acceptance.js';
import { type NewFile, planRecord, smallFile } from '../container/records.js';
import type { State } from '../state.js';
import type { HeldIndex } from './held-index.js';

/**
 * Stages the files of a held copy in this container, each once, under its own key. Files known
 * here, from a trunk or an earlier attempt, are skipped; deleted files stay deleted. The takeover
 * can be repeated as a whole.
 */
export interface TakenOver {
  readonly files: number;
  /** Files without sound bytes here. */
  readonly lost: readonly { readonly key: Buffer; readonly name: string }[];
}

const BATCH_BYTES = 4 * 2 ** 20;
const BATCH_FILES = 256;

export async function takeOver(
  state: State,
  acceptance: Acceptance,
  index: HeldIndex,
): Promise<TakenOver> {
  const { fileMap, copies } = state;
  const lost: { readonly key: Buffer; readonly name: string }[] = [];
  const taken: Pick<NewFile, 'key' | 'at'>[] = [];
  let batch: NewFile[] = [];
  let bytes = 0;
  let files = 0;
  const stage = async (): Promise<void> => {
    if (batch.length > 0) await acceptance.stage(batch);
    files += batch.length;
    batch = [];
    bytes = 0;
  };
  for (const row of index.waiting()) {
    if (fileMap.isDeleted(row.key)) continue;
    // One that an interrupted run has staged may have no second copy yet.
    if (fileMap.find(row.key)) {
      taken.push({ key: row.key, at: 'container' });
      continue;
    }
    const body = row.local.at === 'container' ? await index.read(row) : undefined;
    if (!body) {
      lost.push({ key: row.key, name: row.name });
      continue;
    }
    batch.push(smallFile(row, [body]));
    taken.push({ key: row.key, at: 'container' });
    bytes += body.length;
    if (bytes >= BATCH_BYTES || batch.length >= BATCH_FILES) await stage();
  }
  await stage();
  await copies?.secure(taken);
  await takePlans(state, index);
  return { files, lost };
}

/** FastDFS may have these trunks: they are looked up, then adopted or deleted. */
async function takePlans({ container, fileMap, now }: State, index: HeldIndex) {
  for (const plan of index.plans()) {
    if (fileMap.trunkByTask(plan.taskId)) continue;
    await container.append([planRecord(plan, now())]);
    const taken = fileMap.trunkByTask(plan.taskId);
    if (taken) fileMap.abandonTrunk(now(), taken.id);
  }
}
