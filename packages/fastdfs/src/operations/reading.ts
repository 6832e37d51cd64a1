import {
  type Command,
  type FetchTarget,
  type FileId,
  type FileName,
  listStorage,
  parseSliceId,
  queryFetchAll,
  type ServerAddress,
  type StorageRecord,
  StorageStatus,
} from '@stevedore/protocol';
import type { Address } from '@stevedore/wire';
import type { CallOptions, Deadline } from '../deadline.js';
import { FastdfsError, isNotFound, isUnreachable } from '../errors.js';
import { type IdFacts, nameOf } from '../file-ids.js';
import type { TrackerReply } from '../trackers.js';
import type { Context } from './context.js';
import { alone, type Lease } from './shared-answers.js';

/**
 * Reads that survive the loss of a storage. The storage named by the tracker is asked first. If it
 * does not answer, the others that have the file are asked in turn. If it has no such file, the
 * source is asked, because a copy may not have arrived yet, and if the source is away, the others.
 * Addresses come from the tracker, never from the file id, which anyone can write.
 */

/** Least time for one storage before another is asked. */
const MIN_STEP_MS = 5_000;

/** Of reads that one storage is to answer. */
export interface ReadOptions extends CallOptions {
  /** Asks only this storage. Default: the tracker's choice, then the others. */
  readonly storage?: ServerAddress | undefined;
}

export interface InfoOptions extends ReadOptions {
  /**
   * True if the storage reads an appender or slave file for its CRC-32, which can take long.
   * Default true; otherwise their CRC-32 is 0.
   */
  readonly computeCrc?: boolean | undefined;
}

/** What is read, and how one storage is asked for it. */
export interface Read<T> {
  readonly context: Context;
  readonly id: FileId;
  readonly facts: IdFacts;
  readonly deadline: Deadline;
  /** Must not have passed on any byte when it fails. */
  readonly attempt: (storage: Address, stepMs: number) => Promise<T>;
}

/** Starts with the storage that `locate` returns; with `only`, asks only that one. */
export async function readFrom<T>(
  read: Read<T>,
  locate: Command<FileName, FetchTarget>,
  only?: ServerAddress,
): Promise<T> {
  const { context, deadline, attempt } = read;
  const { addresses, fetchAnswers } = context;
  if (only) return attempt(addresses.named(only, deadline), deadline.remainingMs);
  const lease = await storageFor(read, locate);
  const { reply, tracker } = lease.answer;
  const first = addresses.of(reply, tracker, deadline);
  try {
    const result = await attempt(first, stepOf(deadline, 2));
    fetchAnswers.done(lease, true);
    return result;
  } catch (error) {
    fetchAnswers.done(lease, false);
    deadline.throwIfEnded();
    return new Failover(read, first).after(error);
  }
}

/**
 * A tracker names a storage that is in sync with the file's source up to the file's time. It is
 * then in sync for earlier files of that source too, so concurrent reads share the answer. Files
 * that can change, or that another member stored, are asked for each time.
 */
function storageFor<T>(
  { context, id, facts, deadline }: Read<T>,
  locate: Command<FileName, FetchTarget>,
): Promise<Lease<TrackerReply<FetchTarget>>> {
  const ask = () => context.trackers.ask(locate, nameOf(id), deadline);
  if (facts.kind !== 'normal') return alone(ask);
  const { source, createdAtSeconds: time } = facts;
  const name = `${locate.code} ${id.group} ${source}`;
  return context.fetchAnswers.lease({ name, time, ask }, deadline);
}

/** A read that the storage of the tracker's choice did not answer. */
class Failover<T> {
  readonly #read: Read<T>;
  readonly #context: Context;
  readonly #id: FileId;
  readonly #deadline: Deadline;
  readonly #tried: Set<string>;

  constructor(read: Read<T>, first: Address) {
    this.#read = read;
    this.#context = read.context;
    this.#id = read.id;
    this.#deadline = read.deadline;
    this.#tried = new Set([first.text]);
  }

  async after(error: unknown): Promise<T> {
    if (isNotFound(error)) return this.#askForCopy(error);
    if (isUnreachable(error)) return this.#askEach(await this.#untried(), error);
    throw error;
  }

  /**
   * One storage has no such file. The file is missing if the source agrees, or if the source is no
   * longer a member and no member has it. While the source cannot be asked, the file may exist, and
   * the failure is temporary. A slave may be on any member, so no single answer decides.
   */
  async #askForCopy(notFound: FastdfsError): Promise<T> {
    const { source, isAway, active } = await this.#members();
    const decisive = this.#read.facts.kind === 'slave' ? undefined : source;
    if (decisive && this.#tried.has(decisive.text)) throw notFound;
    const others = await this.#untried();
    const storages = [...new Set([...(source ? [source] : []), ...others, ...active])].filter(
      ({ text }) => !this.#tried.has(text),
    );
    const message = 'the storage that took the file is away, and no other has it';
    const away = isAway && this.#deadline.error('no_storage', message, { cause: notFound });
    return this.#askEach(storages, away || notFound, decisive);
  }

  /**
   * The first result that one of them has, else the last failure. A missing copy decides nothing
   * while another storage is unreachable, unless `decisive` says so.
   */
  async #askEach(storages: readonly Address[], failure: Error, decisive?: Address): Promise<T> {
    let last = failure;
    for (const [index, storage] of storages.entries()) {
      this.#tried.add(storage.text);
      try {
        return await this.#read.attempt(storage, stepOf(this.#deadline, storages.length - index));
      } catch (error) {
        this.#deadline.throwIfEnded();
        if (isNotFound(error)) {
          if (storage === decisive) throw error;
          continue;
        }
        if (!isUnreachable(error)) throw error;
        last = error;
      }
    }
    throw last;
  }

  /** Storages that have the file and were not asked; none if no tracker knows. */
  async #untried(): Promise<Address[]> {
    const { trackers } = this.#context;
    const asked = trackers.ask(queryFetchAll, nameOf(this.#id), this.#deadline);
    const answer = await asked.catch(() => undefined);
    this.#deadline.throwIfEnded();
    if (!answer) return [];
    return answer.reply.servers
      .map((each) => this.#context.addresses.of(each, answer.tracker, this.#deadline))
      .filter((address) => !this.#tried.has(address.text));
  }

  /** Rejects while no tracker answers: then a missing copy decides nothing. */
  async #members(): Promise<MembersFor> {
    const id = this.#id;
    const group = { group: id.group, id: '' };
    const asked = this.#context.trackers.ask(listStorage, group, this.#deadline);
    const answer = await asked.catch((error: unknown) => {
      if (!(error instanceof FastdfsError) || error.retryable) throw error;
    });
    if (!answer) return { isAway: false, active: [] };
    const { reply, tracker } = answer;
    const { source, kind } = this.#read.facts;
    const addresses = (records: readonly StorageRecord[]): Address[] =>
      records.map(({ address, storagePort: port }) =>
        this.#context.addresses.of({ address, port }, tracker, this.#deadline),
      );
    // One that is gone will not return.
    const record = reply.find(
      ({ id, address, status }) => (id === source || address === source) && !GONE.includes(status),
    );
    // Other storages may have an older appender; only the tracker knows which are in sync.
    const isAlike = kind !== 'appender' || parseSliceId(id) !== undefined;
    return {
      source: record && isActive(record) ? addresses([record])[0] : undefined,
      isAway: record !== undefined && !isActive(record),
      active: isAlike ? addresses(reply.filter(isActive)) : [],
    };
  }
}

interface MembersFor {
  /** The active storage that the id names as its source, by address or by storage id. */
  readonly source?: Address | undefined;
  /** The source is a member of the group, and not active. */
  readonly isAway: boolean;
  /** Other places of the file, if its copies are all alike. */
  readonly active: readonly Address[];
}

const GONE: readonly number[] = [
  StorageStatus.ipChanged,
  StorageStatus.deleted,
  StorageStatus.none,
];

function isActive({ status }: StorageRecord): boolean {
  return status === StorageStatus.active;
}

function stepOf(deadline: Deadline, shares: number): number {
  return Math.max(deadline.remainingMs / shares, MIN_STEP_MS);
}
