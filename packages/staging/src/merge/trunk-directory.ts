import {
  ProtocolError,
  parseTrunkDirectory,
  parseTrunkEnd,
  TAIL_BYTES,
  type TrunkEntry,
} from '@stevedore/protocol';
import { KEY_BYTES } from '../container/constants.js';
import { readFileMeta, readPlaces } from '../container/records.js';
import type { AdoptedFile, TrunkRow } from '../filemap/filemap.js';
import { parseKey } from '../key.js';
import type { TrunkStore } from './trunk-store.js';

/** A trunk's directory, read back from FastDFS: what a lost FileMap is made from. */

/** Characters of a key in an entry's name. */
const KEY_CHARS = Math.ceil((KEY_BYTES * 4) / 3);

/** Throws ProtocolError for a trunk that is not one of ours. */
export async function readTrunkDirectory(
  store: TrunkStore,
  trunk: Pick<TrunkRow, 'fileId' | 'size' | 'taskId'>,
  signal: AbortSignal,
): Promise<AdoptedFile[]> {
  const fileId = trunk.fileId!;
  const tailBytes = Math.min(TAIL_BYTES, trunk.size);
  const tail = await store.read(fileId, trunk.size - tailBytes, tailBytes, signal);
  const end = parseTrunkEnd(tail, trunk.size);
  checkTask(fileId, end.comment, trunk.taskId);
  const bytes = await store.read(fileId, end.directoryOffset, end.directoryBytes, signal);
  return parseTrunkDirectory(bytes, end).map((entry) => adopt(fileId, entry));
}

function checkTask(fileId: string, comment: string, taskId: Buffer): void {
  const found = readJson(comment).taskId;
  if (found === taskId.toString('base64url')) return;
  throw new ProtocolError(`${fileId} is the trunk of another task (${String(found)})`);
}

function adopt(fileId: string, entry: TrunkEntry): AdoptedFile {
  const key = parseKey(entry.name.slice(0, KEY_CHARS));
  if (!key) throw new ProtocolError(`entry "${entry.name}" of ${fileId} is not named by a key`);
  const comment = readJson(entry.comment);
  return {
    file: {
      ...readFileMeta(comment),
      key,
      size: entry.size,
      crc32: entry.crc32,
      stagedAt: Number(comment.stagedAt ?? 0),
    },
    offset: entry.offset,
    was: readPlaces(comment.was),
  };
}

function readJson(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
