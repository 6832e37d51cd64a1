import type { FastdfsClient } from '@stevedore/fastdfs';
import { formatFileId, parseFileId, parseSliceId, StorageStatus } from '@stevedore/protocol';
import { type FileRow, parseKey, type ReadableStaging } from '@stevedore/staging';
import { addressOf, type Clients, copyAt } from './cluster.js';
import type { Lookup } from './lookup.js';
import type { CopyAtStorage, DiskPlace, TrunkPlace } from './places.js';
import type { Siblings } from './siblings.js';
import { infoOf } from './stored-file.js';
import type { FileLocation, GetOptions } from './types.js';

/**
 * Where the bytes of a file are: on this server's disk, in a trunk, and at which storages. For
 * people who look at one file; it asks every storage of a group.
 */

export interface LocationParts {
  readonly staging: ReadableStaging;
  readonly clients: Pick<Clients, 'reading'>;
  readonly lookup: Pick<Lookup, 'find'>;
  readonly siblings: Pick<Siblings, 'ofKey'> | undefined;
}

const ASK_TIMEOUT_MS = 3_000;

/** `id` is a key or any FastDFS id. Rejects as `get`. */
export async function locate(
  id: string,
  options: GetOptions,
  parts: LocationParts,
): Promise<FileLocation> {
  const file = infoOf(await parts.lookup.find(id, options));
  const own = rowOf(file.key, parts);
  const disk = own && diskPlace(own.row, own.staging);
  const trunk = own ? ownTrunk(own.row, own.staging) : foreignTrunk(file.fileId);
  const found = { file, ...(disk && { disk }) };
  if (!trunk) return { ...found, storages: [] };
  const { fileId } = trunk;
  const client = parts.clients.reading;
  const { createdAt: storedAt } = client.describe(fileId);
  try {
    const storages = await copiesOf(fileId, client, options.signal);
    return { ...found, trunk: { ...trunk, storedAt }, storages };
  } catch (error) {
    options.signal?.throwIfAborted();
    const problem = (error as Error).message;
    return { ...found, trunk: { ...trunk, storedAt }, storages: [], problem };
  }
}

interface OwnRow {
  readonly row: FileRow;
  readonly staging: ReadableStaging;
}

/** Undefined for a file of another server, or one that only FastDFS knows. */
function rowOf(id: string, { staging: own, siblings }: LocationParts): OwnRow | undefined {
  const key = parseKey(id);
  if (!key) return undefined;
  const sibling = siblings?.ofKey(key, () => own.fileMap.isAlive(key));
  const staging = sibling?.staging ?? own;
  const row = staging.fileMap.find(key);
  return row && { row, staging };
}

function diskPlace(row: FileRow, { local }: ReadableStaging): DiskPlace | undefined {
  const { at, segment } = row.local;
  if (at === 'gone' || !local.has(row)) return undefined;
  return at === 'container' ? { at, segment } : { at };
}

type KnownTrunk = Omit<TrunkPlace, 'storedAt'>;

function ownTrunk({ trunk }: FileRow, { fileMap }: ReadableStaging): KnownTrunk | undefined {
  if (!trunk) return undefined;
  const { kind, fileId, offset } = trunk;
  const known = fileMap.trunkByFileId(fileId);
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
function foreignTrunk(id: string | undefined): KnownTrunk | undefined {
  const fileId = id === undefined ? undefined : parseFileId(id);
  if (!fileId) return undefined;
  const slice = parseSliceId(fileId);
  if (!slice) return { kind: 'whole', fileId: formatFileId(fileId), offset: 0 };
  return { kind: 'trunk', fileId: formatFileId(slice.trunk), offset: slice.offset };
}

/** Asks each storage of the group. Rejects with FastdfsError if no tracker answers. */
async function copiesOf(
  fileId: string,
  client: FastdfsClient,
  signal: AbortSignal | undefined,
): Promise<CopyAtStorage[]> {
  const { group } = client.describe(fileId);
  const options = { deadlineMs: ASK_TIMEOUT_MS, signal };
  const storages = await client.listStorages(group, undefined, options);
  return Promise.all(
    storages.map(async (storage) => {
      const active = storage.status === StorageStatus.active;
      const copy = active ? await copyAt(storage, fileId, client, options) : 'unknown';
      return { address: addressOf(storage), active, copy };
    }),
  );
}
