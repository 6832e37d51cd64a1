import { randomBytes } from 'node:crypto';
import { type FileMeta, storedRecord } from '../container/records.js';
import type { FileRow } from '../filemap/filemap.js';
import type { State } from '../state.js';
import { settleKnown } from './rebuild.js';

/**
 * Gives a file that another client stored in FastDFS a key of this store. Its bytes stay where they
 * are: it becomes a large file of this store, whatever its size. Resolves once that is durable.
 */
export interface RegisteredFile extends FileMeta {
  readonly key: Buffer;
  readonly fileId: string;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
}

const TASK_ID_BYTES = 16;

export async function register(
  { fileMap, container, now }: State,
  file: RegisteredFile,
): Promise<FileRow> {
  const { fileId, size, crc32 } = file;
  const taskId = randomBytes(TASK_ID_BYTES);
  const trunk = { taskId, kind: 'whole', fileId, size, crc32, files: 1, doubtful: false } as const;
  await container.append([storedRecord({ ...trunk, file: { ...file, was: [] } }, now())]);
  await settleKnown(fileMap, [fileMap.trunkByTask(taskId)!]);
  return fileMap.find(file.key)!;
}
