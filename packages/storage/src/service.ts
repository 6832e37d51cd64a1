import type { FileCache } from '@stevedore/cache';
import { type FileId, type FileName, fileKind, parseSliceId } from '@stevedore/protocol';
import type { ChangingFiles } from './files/changing-files.js';
import { parseRequestedName } from './files/file-names.js';
import type { FileStore } from './files/file-store.js';
import type { MetadataStore } from './files/metadata-store.js';
import type { OpenFile } from './files/open-files.js';
import type { SmallFiles } from './files/small-files.js';
import type { FileParts } from './files/store-paths.js';
import type { Identity } from './identity.js';
import { ifThere } from './refusals.js';
import type { Replication } from './replication/replication.js';
import type { Slices } from './slices/slices.js';

/** The parts of a storage that its handlers use. */
export interface StorageService extends FileParts {
  readonly identity: Identity;
  readonly store: FileStore;
  readonly changing: ChangingFiles;
  readonly metadata: MetadataStore;
  readonly slices: Slices;
  readonly replication: Replication;
  readonly cache: FileCache;
  /** Whole small files, through the cache. */
  readonly small: SmallFiles;
}

/** The file that a request names; status 22 or 2 if there can be none. */
export function requestedFile(service: StorageService, request: FileName): FileId {
  return parseRequestedName(request, service.settings.group, service.storePaths.all.length);
}

/** Opens the file, or a slice's trunk; status 2 if there is none. */
export function openFile(service: StorageService, id: FileId): Promise<OpenFile> {
  const { store, slices, changing, files } = service;
  const slice = parseSliceId(id);
  if (slice) return slices.open(slice, store.pathOf(slice.trunk));
  const path = store.pathOf(id);
  return fileKind(id) === 'appender' ? changing.acquire(path) : files.acquire(path);
}

/** True if there is such a file or slice. */
export async function hasFile(service: StorageService, id: FileId): Promise<boolean> {
  const opened = await ifThere(openFile(service, id));
  opened?.release();
  return opened !== undefined;
}
