import type { FastdfsClient } from '@stevedore/fastdfs';
import { formatFileId, parseFileId, parseSliceId } from '@stevedore/protocol';
import type { Found } from '../holders/holder.js';
import type { LocalPlace } from '../holders/place.js';
import { infoOf } from '../read/stored-file.js';
import { replicasOf } from './cluster.js';
import type { DiskPlace, TrunkPlace } from './places.js';
import type { FileLocation } from './types.js';

/**
 * Where the bytes of a file are: on this server's disk, in a trunk, and at which storages. For
 * people who look at one file; it asks every storage of a group.
 */

const ASK_TIMEOUT_MS = 3_000;

/** Rejects with what aborts it. */
export async function locate(
  found: Found,
  client: FastdfsClient,
  signal: AbortSignal | undefined,
): Promise<FileLocation> {
  const file = infoOf(found);
  const local = found.place.kind === 'local' ? found.place : undefined;
  const disk = local && diskPlace(local);
  const trunk = local ? trunkOf(local) : trunkIn(file.fileId);
  const known = { file, ...(disk && { disk }) };
  if (!trunk) return { ...known, storages: [] };
  const { fileId } = trunk;
  const { createdAt: storedAt } = client.describe(fileId);
  const located = { ...known, trunk: { ...trunk, storedAt } };
  try {
    return {
      ...located,
      storages: await replicasOf(fileId, client, { deadlineMs: ASK_TIMEOUT_MS, signal }),
    };
  } catch (error) {
    signal?.throwIfAborted();
    return { ...located, storages: [], problem: (error as Error).message };
  }
}

function diskPlace({ row, staging }: LocalPlace): DiskPlace | undefined {
  const { at, segment } = row.local;
  if (at === 'gone' || !staging.local.has(row)) return undefined;
  return at === 'container' ? { at, segment } : { at };
}

type KnownTrunk = Omit<TrunkPlace, 'storedAt'>;

function trunkOf({ row: { trunk }, staging }: LocalPlace): KnownTrunk | undefined {
  if (!trunk) return undefined;
  const { kind, fileId, offset } = trunk;
  const known = staging.fileMap.trunkByFileId(fileId);
  if (!known) return { kind, fileId, offset };
  const { files, deadFiles, copied } = known;
  return {
    kind,
    fileId,
    offset,
    files: files - deadFiles,
    isConfirmed: copied > 0,
    ...(copied > 0 && { confirmedAt: new Date(copied) }),
  };
}

/** As the id of the file says. */
function trunkIn(id: string | undefined): KnownTrunk | undefined {
  const fileId = id === undefined ? undefined : parseFileId(id);
  if (!fileId) return undefined;
  const slice = parseSliceId(fileId);
  if (!slice) return { kind: 'whole', fileId: formatFileId(fileId), offset: 0 };
  return { kind: 'trunk', fileId: formatFileId(slice.trunk), offset: slice.offset };
}
