import {
  decodeFields,
  type FileName,
  fileKind,
  ProtocolError,
  parseFileName,
  parseSliceId,
  Status,
  StorageStatus,
} from '@stevedore/protocol';
import { type Environment, nowSeconds, StatusError } from '@stevedore/wire';
import { Member } from './member.js';

/** A member for an upload, and the store path that the upload names. */
export interface StoreChoice {
  readonly group: Group;
  readonly member: Member;
  readonly storePathIndex: number;
}

/** When members count as active and as full. */
export interface ChoiceRules {
  readonly checkActiveIntervalMs: number;
  readonly reservedSpaceMegabytes: number;
  readonly environment: Environment;
}

const READS = 4;
const WRITES = 2;

/** The storages of one group, sorted by id, and whose turn it is. */
export class Group {
  readonly name: string;
  readonly #rules: ChoiceRules;
  #members: readonly Member[] = [];
  #storeTurn = 0;
  #fetchTurn = 0;

  constructor(name: string, rules: ChoiceRules) {
    this.name = name;
    this.#rules = rules;
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  /** Index among the writable members of the one for the next upload. */
  currentWriteServer(nowMs: number): number {
    return this.#storeTurn % Math.max(this.writable(nowMs).length, 1);
  }

  member(id: string, address: string, readWriteMode: number): Member {
    const known = this.find(id);
    if (known) return known;
    const { environment } = this.#rules;
    const member = new Member(id, address, readWriteMode, () => nowSeconds(environment));
    this.#members = [...this.#members, member].sort((a, b) => (a.id < b.id ? -1 : 1));
    return member;
  }

  find(id: string): Member | undefined {
    return this.#members.find((member) => member.id === id);
  }

  statusOf(member: Member, nowMs: number): number {
    return member.statusAt(nowMs, this.#rules.checkActiveIntervalMs);
  }

  /** The active members, whether they are readable, writable or neither. */
  serving(nowMs: number): readonly Member[] {
    return this.#members.filter((each) => this.statusOf(each, nowMs) === StorageStatus.active);
  }

  readable(nowMs: number): readonly Member[] {
    return this.serving(nowMs).filter((each) => (each.readWriteMode & READS) !== 0);
  }

  writable(nowMs: number): readonly Member[] {
    return this.serving(nowMs).filter((each) => (each.readWriteMode & WRITES) !== 0);
  }

  /** Space in MiB: that of the member with least, as every member stores every file. */
  room(nowMs: number): { readonly totalMegabytes: number; readonly freeMegabytes: number } {
    const sums = this.serving(nowMs).map(({ usage }) => ({
      total: usage.reduce((sum, path) => sum + path.totalMegabytes, 0),
      free: usage.reduce((sum, path) => sum + path.freeMegabytes, 0),
    }));
    if (sums.length === 0) return { totalMegabytes: 0, freeMegabytes: 0 };
    return {
      totalMegabytes: Math.min(...sums.map(({ total }) => total)),
      freeMegabytes: Math.min(...sums.map(({ free }) => free)),
    };
  }

  /** Chooses a member for an upload; undefined if the group is full. */
  chooseStore(nowMs: number): StoreChoice | undefined {
    const { reservedSpaceMegabytes } = this.#rules;
    const candidates = this.#withRoom(nowMs);
    const member = candidates[this.#storeTurn++ % Math.max(candidates.length, 1)];
    const storePathIndex = member?.nextStorePath(reservedSpaceMegabytes);
    if (!member || storePathIndex === undefined) return undefined;
    return { group: this, member, storePathIndex };
  }

  /** All members with space, and the first one's store path; undefined if none has space. */
  chooseStoreAll(
    nowMs: number,
  ): { readonly members: readonly Member[]; readonly storePathIndex: number } | undefined {
    const members = this.#withRoom(nowMs);
    const storePathIndex = members[0]?.nextStorePath(this.#rules.reservedSpaceMegabytes);
    return storePathIndex === undefined ? undefined : { members, storePathIndex };
  }

  /** Chooses a member to read from, in turns among those that have the file. */
  chooseFetch(file: NamedFile | undefined, nowMs: number): Member {
    const { best } = this.#holders(file, nowMs);
    // All readers of a changing file ask the same member, so that nobody sees a change undone.
    const chosen = best[file?.onlyAtSource ? 0 : this.#fetchTurn++ % best.length];
    if (!chosen) throw this.#nobody();
    return chosen;
  }

  /** All members that may have the file, the mostLikelyFirst first; at least one. */
  chooseFetchAll(file: NamedFile | undefined, nowMs: number): readonly Member[] {
    const { best, others } = this.#holders(file, nowMs);
    return [...best, ...others];
  }

  /**
   * Chooses the member to change or delete the file on: its source if that is writable, else
   * one that has it, which can delete it but may refuse to change it.
   */
  chooseUpdate(file: NamedFile | undefined, nowMs: number): Member {
    const writable = this.writable(nowMs);
    const source = writable.find((each) => file && isSource(file, each));
    const holder = (): Member | undefined =>
      this.chooseFetchAll(file, nowMs).find((each) => writable.includes(each));
    const chosen = source ?? holder() ?? writable[0];
    if (!chosen) throw this.#nobody();
    return chosen;
  }

  /**
   * The members that have the file; if none is known to, all that may, the mostLikelyFirst first.
   */
  #holders(file: NamedFile | undefined, nowMs: number): Holders {
    const readable = this.readable(nowMs);
    if (readable.length === 0) throw this.#nobody();
    const source = file && this.#members.find((each) => isSource(file, each));
    if (file?.onlyAtSource) {
      const others = mostLikelyFirst(readable, source?.id);
      const best = source && readable.includes(source) ? [source] : others;
      return { best, others: readable.filter((each) => !best.includes(each)) };
    }
    const atSeconds = nowSeconds(this.#rules.environment);
    const known = file ? readable.filter((each) => holds(file, each, source?.id, atSeconds)) : [];
    if (known.length > 0) return { best: known, others: [] };
    const likely = source ? mostLikelyFirst(readable, source.id) : [];
    const hasReported = source && likely.some((each) => each.syncedFrom(source.id) > 0);
    const turn = this.#storeTurn % readable.length;
    const best = hasReported ? likely : readable.slice(turn, turn + 1);
    return { best, others: file ? readable.filter((each) => !best.includes(each)) : [] };
  }

  #nobody(): StatusError {
    return new StatusError(Status.notFound, `no active storage in ${this.name}`);
  }

  #withRoom(nowMs: number): readonly Member[] {
    const { reservedSpaceMegabytes } = this.#rules;
    return this.writable(nowMs).filter((each) => each.hasRoom(reservedSpaceMegabytes));
  }
}

/** Members to ask for a file first, and those to ask if they lack it. */
interface Holders {
  readonly best: readonly Member[];
  readonly others: readonly Member[];
}

/**
 * Which members have a file, inferred from its name and the storages' reports: its source,
 * and those that report to have all changes up to its time.
 */

export interface NamedFile {
  /** Address or id of the storage that it was uploaded to. */
  readonly source: string;
  readonly createdAtSeconds: number;
  /** True for appenders and slaves, which appear or change later than their names say. */
  readonly onlyAtSource: boolean;
}

/** An older file is on every member, if replication works at all. */
export const SYNC_MAX_DELAY_SECONDS = 86_400;
/** An older file counts as synced even if the sync timestamp equals its time. */
const SYNC_MAX_TIME_SECONDS = 300;

/** What a name says; undefined for a malformed one. */
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

function isSource(file: NamedFile, holder: Member): boolean {
  return holder.id === file.source || holder.address === file.source;
}

/**
 * True if the member has the file. A member that has never reported a sync timestamp counts
 * as having no files of others, however old. `sourceId` is the file's source, if it still is
 * a member: then only the timestamp for that source counts, not the file's age, as the holder
 * may have been away for long.
 */
function holds(
  file: NamedFile,
  holder: Member,
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
 * The members that have most of a source's changes, for when the source is away and no member
 * is known to have its file, or when the source has lost its files.
 */
export function mostLikelyFirst(
  holders: readonly Member[],
  sourceId: string | undefined,
): readonly Member[] {
  const most = Math.max(...holders.map((each) => syncedUntil(each, sourceId)));
  return holders.filter((each) => syncedUntil(each, sourceId) === most);
}

function syncedUntil(holder: Member, sourceId: string | undefined): number {
  return sourceId === undefined ? holder.syncedSeconds : holder.syncedFrom(sourceId);
}
