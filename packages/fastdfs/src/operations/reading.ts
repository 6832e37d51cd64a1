import {
  type Command,
  DownloadFlag,
  decodeFields,
  type FetchTarget,
  type FileId,
  type FileName,
  fileKind,
  formatFileId,
  listStorage,
  parseSliceId,
  queryFetchAll,
  type ServerAddress,
  type StorageRecord,
  StorageStatus,
} from '@stevedore/protocol';
import type { Address } from '@stevedore/wire';
import type { CallOptions, Deadline } from '../deadline.js';
import { Elsewhere, FastdfsError, isUnreachable } from '../errors.js';
import { nameOf } from '../file-ids.js';
import type { Context } from './context.js';

/**
 * Reads that survive the loss of a storage. The storage that the tracker names is
 * asked first. When it gives no answer, the others that have the file are asked in
 * turn. When one has no such file, the storage that took it first is asked, because
 * a copy may not have arrived yet, and if that is away, the others; addresses come
 * from the tracker, never from the file id itself, which anybody can write.
 */

/** What one storage is given at least, before another is asked. */
const MIN_STEP_MS = 5_000;

export type Attempt<T> = (storage: Address, stepMs: number) => Promise<T>;

/** Of reads that one storage is to answer. */
export interface ReadOptions extends CallOptions {
  /** This storage is asked and no other. Default: the tracker's choice, then the others. */
  readonly storage?: ServerAddress | undefined;
}

export interface InfoOptions extends ReadOptions {
  /**
   * Whether the storage reads an appender or slave file for its CRC-32, which can take
   * long. Default true; the CRC-32 of such files is 0 otherwise.
   */
  readonly computeCrc?: boolean | undefined;
}

/** Calls `attempt` with one storage after the other. It must not have handed out any byte. */
export async function readFromAny<T>(
  context: Context,
  locate: Command<FileName, FetchTarget>,
  id: FileId,
  deadline: Deadline,
  attempt: Attempt<T>,
  only?: ServerAddress,
): Promise<T> {
  if (only) return attempt(context.addresses.named(only, deadline), deadline.remainingMs);
  const { reply, tracker } = await context.trackers.ask(locate, nameOf(id), deadline);
  const first = context.addresses.of(reply, tracker, deadline);
  try {
    return await attempt(first, stepOf(deadline, 2));
  } catch (error) {
    deadline.throwIfEnded();
    const tried = new Set([first.text]);
    if (isNotFound(error)) return askForCopy(context, id, deadline, attempt, tried, error);
    if (isUnreachable(error)) return askOthers(context, id, deadline, attempt, tried, error);
    throw error;
  }
}

async function askOthers<T>(
  context: Context,
  id: FileId,
  deadline: Deadline,
  attempt: Attempt<T>,
  tried: Set<string>,
  failure: FastdfsError,
): Promise<T> {
  const others = await untried(context, id, deadline, tried);
  let last = failure;
  for (const [index, storage] of others.entries()) {
    tried.add(storage.text);
    try {
      return await attempt(storage, stepOf(deadline, others.length - index));
    } catch (error) {
      deadline.throwIfEnded();
      // That a copy is missing says nothing about the file while another is out of reach.
      if (isNotFound(error)) continue;
      if (!isUnreachable(error)) throw error;
      last = error;
    }
  }
  throw last;
}

/**
 * One storage has no such file. That is so if the source says it too, or if the source
 * is a member no more and nobody has it; as long as the source cannot be asked, the
 * file may be there, and the failure is one that passes. Any member may have taken a
 * slave, so that no single answer is enough for it.
 */
async function askForCopy<T>(
  context: Context,
  id: FileId,
  deadline: Deadline,
  attempt: Attempt<T>,
  tried: Set<string>,
  notFound: FastdfsError,
): Promise<T> {
  const { source, isAway, active } = await membersFor(context, id, deadline);
  const isDecisive = fileKind(id) !== 'slave';
  if (isDecisive && source && tried.has(source.text)) throw notFound;
  const others = await untried(context, id, deadline, tried);
  const storages = [...new Set([...(source ? [source] : []), ...others, ...active])].filter(
    ({ text }) => !tried.has(text),
  );
  let failure = isAway ? sourceAway(deadline, notFound) : undefined;
  for (const [index, storage] of storages.entries()) {
    tried.add(storage.text);
    try {
      return await attempt(storage, stepOf(deadline, storages.length - index));
    } catch (error) {
      deadline.throwIfEnded();
      if (isNotFound(error)) {
        if (isDecisive && storage === source) throw error;
        continue;
      }
      if (!isUnreachable(error)) throw error;
      failure = error;
    }
  }
  throw failure ?? notFound;
}

function sourceAway(deadline: Deadline, cause: FastdfsError): FastdfsError {
  const message = 'the storage that took the file is away, and no other has it';
  return deadline.error('no_storage', message, { cause });
}

/** Storages that have the file and were not asked; none when no tracker can tell. */
async function untried(
  context: Context,
  id: FileId,
  deadline: Deadline,
  tried: ReadonlySet<string>,
): Promise<Address[]> {
  const answer = await context.trackers.ask(queryFetchAll, nameOf(id), deadline).catch(() => null);
  deadline.throwIfEnded();
  if (!answer) return [];
  return context.addresses
    .allowed(answer.reply.servers, answer.tracker, deadline)
    .filter((address) => !tried.has(address.text));
}

interface MembersFor {
  /** The active storage that the id names as its source, be it by address or by storage id. */
  readonly source?: Address | undefined;
  /** The source is a member of the group, and not active. */
  readonly isAway: boolean;
  /** Where else the file may be, if its copies are all alike. */
  readonly active: readonly Address[];
}

async function membersFor(context: Context, id: FileId, deadline: Deadline): Promise<MembersFor> {
  const request = { group: id.group, id: '' };
  const answer = await context.trackers.ask(listStorage, request, deadline).catch(() => null);
  deadline.throwIfEnded();
  if (!answer) return { isAway: false, active: [] };
  const { reply, tracker } = answer;
  const { source } = decodeFields(id.base);
  const addresses = (records: readonly StorageRecord[]): Address[] => {
    const servers = records.map(({ address, storagePort: port }) => ({ address, port }));
    return context.addresses.allowed(servers, tracker, deadline);
  };
  const record = reply.find((each) => names(each, source) && !isGone(each));
  const kind = fileKind(id);
  // An appender may be an old one elsewhere; who has it as it is, the tracker tells.
  const isAlike = kind !== 'appender' || parseSliceId(id) !== undefined;
  return {
    source: record && isActive(record) ? addresses([record])[0] : undefined,
    isAway: record !== undefined && !isActive(record),
    active: isAlike ? addresses(reply.filter(isActive)) : [],
  };
}

const { ipChanged, deleted, none } = StorageStatus;

/** True for one that does not come back. */
function isGone({ status }: StorageRecord): boolean {
  return status === ipChanged || status === deleted || status === none;
}

function isActive({ status }: StorageRecord): boolean {
  return status === StorageStatus.active;
}

function names(record: StorageRecord, source: string): boolean {
  return record.id === source || record.address === source;
}

function stepOf(deadline: Deadline, shares: number): number {
  return Math.max(deadline.remainingMs / shares, MIN_STEP_MS);
}

function isNotFound(error: unknown): error is FastdfsError {
  return error instanceof FastdfsError && error.code === 'not_found';
}

/**
 * Reads a file whose bytes its storage has moved to another group. The first read of one is
 * answered with its place there, an id like any other, which is read from and remembered for
 * a while. Where a place does not answer, the file's own storage is asked, which fetches it.
 */
export async function readAtPlace<T>(
  { places, settings }: Context,
  id: FileId,
  deadline: Deadline,
  { storage }: ReadOptions,
  read: (at: FileId, flags: number) => Promise<T>,
): Promise<T> {
  // Who names a storage wants that one's answer.
  if (!settings.followMoves || storage) return read(id, 0);
  const key = formatFileId(id);
  let place = places.get(key);
  if (!place) {
    try {
      return await read(id, DownloadFlag.placeWanted);
    } catch (error) {
      if (!(error instanceof Elsewhere)) throw error;
      place = error.place;
      places.set(key, place);
    }
  }
  try {
    return await read(place, 0);
  } catch (error) {
    deadline.throwIfEnded();
    if (!(error instanceof FastdfsError) || error.code === 'too_large') throw error;
    places.delete(key);
    return read(id, 0);
  }
}
