import {
  type Command,
  decodeFields,
  type FetchTarget,
  type FileId,
  type FileName,
  listStorage,
  queryFetchAll,
  type ServerAddress,
  type StorageRecord,
  StorageStatus,
} from '@stevedore/protocol';
import type { Address } from '../address.js';
import type { CallOptions, Deadline } from '../deadline.js';
import { FastdfsError, isUnreachable } from '../errors.js';
import { type Context, nameOf } from './context.js';

/**
 * Reads that survive the loss of a storage. The storage that the tracker names is
 * asked first. When it gives no answer, the others that have the file are asked in
 * turn. When one has no such file, the storage that took it first is asked, because
 * a copy may not have arrived yet; its address comes from the tracker, never from
 * the file id itself, which anybody can write.
 */

/** What one storage is given at least, before another is asked. */
const MIN_STEP_MS = 5_000;

export type Attempt<T> = (storage: Address, stepMs: number) => Promise<T>;

/** Of reads that one storage is to answer. */
export interface ReadOptions extends CallOptions {
  /** This storage is asked and no other. Default: the tracker's choice, then the others. */
  readonly storage?: ServerAddress | undefined;
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
    if (isNotFound(error)) return askSource(context, id, deadline, attempt, tried, error);
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

async function askSource<T>(
  context: Context,
  id: FileId,
  deadline: Deadline,
  attempt: Attempt<T>,
  tried: ReadonlySet<string>,
  notFound: unknown,
): Promise<T> {
  const source = await sourceOf(context, id, deadline);
  if (!source || tried.has(source.text)) throw notFound;
  return attempt(source, deadline.remainingMs);
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

/** The active storage that the id names as its source, be it by address or by storage id. */
async function sourceOf(
  context: Context,
  id: FileId,
  deadline: Deadline,
): Promise<Address | undefined> {
  const { source } = decodeFields(id.base);
  const request = { group: id.group, id: '' };
  const answer = await context.trackers.ask(listStorage, request, deadline).catch(() => null);
  deadline.throwIfEnded();
  const record = answer?.reply.find((each) => isActive(each) && names(each, source));
  if (!answer || !record) return undefined;
  const server = { address: record.address, port: record.storagePort };
  return context.addresses.allowed([server], answer.tracker, deadline)[0];
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

function isNotFound(error: unknown): boolean {
  return error instanceof FastdfsError && error.code === 'not_found';
}
