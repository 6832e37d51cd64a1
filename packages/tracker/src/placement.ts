import {
  decodeFields,
  type FileName,
  fileKind,
  ProtocolError,
  parseFileName,
  parseSliceId,
} from '@stevedore/protocol';

/**
 * Who has a file, as far as its name and the storages' reports tell: the storage
 * it came from, and those that say they have got everything up to its time.
 */

export interface NamedFile {
  /** Address or id of the storage that first took it. */
  readonly source: string;
  readonly createdAtSeconds: number;
  /** Appenders and slaves come or change later than their names say. */
  readonly onlyAtSource: boolean;
}

/** Anyone who may have a file. */
export interface Holder {
  readonly id: string;
  readonly address: string;
  /** What its peers changed up to then has come to it; 0: unknown. */
  readonly syncedSeconds: number;
  /** As `syncedSeconds`, of one member. */
  syncedFrom(sourceId: string): number;
}

/** A file older than this is everywhere where copying works at all. */
export const SYNC_MAX_DELAY_SECONDS = 86_400;
/** A file older than this is not younger than its storage's last report says. */
const SYNC_MAX_TIME_SECONDS = 300;

/** What a name says; undefined for one that cannot be read. */
export function readName({ group, name }: FileName): NamedFile | undefined {
  const id = parseFileName(group, name);
  if (!id) return undefined;
  try {
    const { source, createdAtSeconds } = decodeFields(id.base);
    const kind = fileKind(id);
    const onlyAtSource = !parseSliceId(id) && (kind === 'appender' || kind === 'slave');
    return { source, createdAtSeconds, onlyAtSource };
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

export function isSource(file: NamedFile, holder: Holder): boolean {
  return holder.id === file.source || holder.address === file.source;
}

/**
 * True if the file can be read there. A storage that has never reported what has come
 * to it is not believed to have another's file, however old that is. `sourceId` is
 * the file's source, if it is a member still: then only what has come from there
 * counts, and age says nothing, as the holder may have been away for long.
 */
export function holds(
  file: NamedFile,
  holder: Holder,
  sourceId: string | undefined,
  nowSeconds: number,
): boolean {
  if (isSource(file, holder)) return true;
  const syncedSeconds = syncedUntil(holder, sourceId);
  if (file.onlyAtSource || syncedSeconds === 0) return false;
  const ageSeconds = nowSeconds - file.createdAtSeconds;
  return (
    (sourceId === undefined && ageSeconds > SYNC_MAX_DELAY_SECONDS) ||
    syncedSeconds > file.createdAtSeconds ||
    (syncedSeconds === file.createdAtSeconds && ageSeconds > SYNC_MAX_TIME_SECONDS)
  );
}

/**
 * The order of storages when a source is away and no member is known to have one of its
 * files, or when it has lost them: the ones that have got most from there.
 */
export function likeliest<Each extends Holder>(
  holders: readonly Each[],
  sourceId: string | undefined,
): readonly Each[] {
  const most = Math.max(...holders.map((each) => syncedUntil(each, sourceId)));
  return holders.filter((each) => syncedUntil(each, sourceId) === most);
}

function syncedUntil(holder: Holder, sourceId: string | undefined): number {
  return sourceId === undefined ? holder.syncedSeconds : holder.syncedFrom(sourceId);
}
