import { randomFillSync } from 'node:crypto';
import { type FileRow, Staging } from '@stevedore/staging';
import { FileMap } from '../../../packages/staging/dist/filemap/filemap.js';
import { bodyOf, generatedKey, newFile, stagingOptions } from './small-files.js';
import { absentTrunkStore, trunkFileId } from './trunk-stores.js';

/**
 * A directory whose FileMap has any number of merged files, in trunks of TRUNK_FILES,
 * made by the FileMap's own calls. The bodies of the first trunk's worth of files are
 * real records of a segment; all rows share them, so that only the index is large.
 */

export const TRUNK_FILES = 2_000;
export const BODY_BYTES = 100;
const CHECKPOINT_TRUNKS = 100;

/** `rows` is a multiple of TRUNK_FILES, two at the least. */
export async function makeLargeDirectory(directory: string, rows: number): Promise<void> {
  const bodies = await stageBodies(directory);
  const fileMap = FileMap.open(`${directory}/filemap.sqlite`);
  try {
    const { segment } = bodies[0]!.local;
    const indexed = fileMap.indexedBytes(segment);
    const trunks = rows / TRUNK_FILES - 1;
    for (let trunk = 0; trunk < trunks; trunk += 1) {
      addTrunk(fileMap, trunk, bodies, segment, indexed);
      if (trunk % CHECKPOINT_TRUNKS === 0) await fileMap.makeDurable();
    }
    await fileMap.makeDurable();
  } finally {
    await fileMap.close();
  }
}

async function stageBodies(directory: string): Promise<FileRow[]> {
  const staging = await Staging.open(stagingOptions(directory, absentTrunkStore()));
  const files = Array.from({ length: TRUNK_FILES }, (_, index) =>
    newFile(staging, index, bodyOf(index, BODY_BYTES)),
  );
  await staging.acceptance.stage(files);
  const rows = files.map(({ key }) => staging.fileMap.find(key)!);
  await staging.close();
  return rows;
}

function addTrunk(
  fileMap: FileMap,
  trunk: number,
  bodies: readonly FileRow[],
  segment: number,
  indexed: number,
): void {
  const taskId = randomFillSync(Buffer.alloc(16));
  const size = TRUNK_FILES * BODY_BYTES;
  const keys = bodies.map((_, index) => generatedKey(trunk * TRUNK_FILES + index));
  const changes = bodies.map(({ crc32, stagedAt, local }, index) => ({
    what: 'file' as const,
    key: keys[index]!,
    name: `upload-${trunk * TRUNK_FILES + index}.jpg`,
    ...{ type: 'image/jpeg', group: undefined, size: BODY_BYTES, crc32, stagedAt },
    position: local.position,
    at: 'container' as const,
  }));
  const stored = {
    ...{ what: 'stored' as const, taskId, kind: 'trunk' as const, size, file: undefined },
    fileId: trunkFileId(trunk, size, trunk),
    ...{ crc32: trunk, files: TRUNK_FILES },
  };
  fileMap.apply([...changes, stored], segment, indexed);
  const { id } = fileMap.trunkByTask(taskId)!;
  const members = keys.map((key, index) => ({ key, offset: index * BODY_BYTES, size: BODY_BYTES }));
  fileMap.confirmMembers(id, members);
  fileMap.finishTrunk(id, TRUNK_FILES, size);
}
