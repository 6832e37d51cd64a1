import { crc32 } from 'node:zlib';
import { TRUNK_EXTENSION } from '@stevedore/protocol';
import type { NewFile } from '../container/records.js';
import type { FileRow } from '../filemap/filemap.js';
import { sliceIdOf } from './file-id.js';
import { encodeDirectory, encodeMemberHeader, planTrunk } from './trunk-plan.js';

/**
 * A trunk of files that are in memory and never were in the container: the same format,
 * a task that no FileMap knows. Pure.
 */
export interface DirectTrunk {
  /** Bytes of the trunk, and their CRC-32. */
  readonly size: number;
  readonly crc32: number;
  readonly extension: string;
  readonly chunks: readonly Uint8Array[];
  /** Ids of the files, in their order, once the trunk has one; undefined where none can be made. */
  sliceIds(trunkFileId: string): readonly (string | undefined)[];
}

/** All of the files must have their body. */
export function directTrunk(taskId: Buffer, files: readonly NewFile[]): DirectTrunk {
  const rows = files.map(rowOf);
  const plan = planTrunk(taskId, rows, TRUNK_EXTENSION);
  const chunks: Uint8Array[] = [];
  for (const [index, row] of rows.entries()) {
    chunks.push(encodeMemberHeader(row), ...files[index]!.body!);
  }
  chunks.push(encodeDirectory(plan));
  return {
    size: plan.size,
    crc32: chunks.reduce((sum, chunk) => crc32(chunk, sum), 0),
    extension: plan.extension,
    chunks,
    sliceIds: (trunkFileId) =>
      rows.map((row, index) => sliceIdOf(row, trunkFileId, plan.members[index]!.offset)),
  };
}

function rowOf(file: NewFile): FileRow {
  const { key, name, type, group, size, stagedAt, expiresAt } = file;
  const about = { key, name, type, group, size, crc32: file.crc32, stagedAt, expiresAt };
  const local = { at: 'container', segment: 0, position: 0 } as const;
  return { ...about, was: [], local, trunk: undefined };
}
