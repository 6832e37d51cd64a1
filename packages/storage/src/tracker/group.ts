import { Status, StorageStatus } from '@stevedore/protocol';
import { type Environment, nowSeconds } from '../environment.js';
import { StatusError } from '../errors.js';
import { Member } from './member.js';
import { holds, isSource, likeliest, type NamedFile } from './placement.js';

/** A member and the store path that an upload shall name. */
export interface StoreChoice {
  readonly group: Group;
  readonly member: Member;
  readonly storePathIndex: number;
}

/** When members count as there and as full, and who is taken. */
export interface ChoiceRules {
  readonly checkActiveIntervalMs: number;
  readonly reservedSpaceMegabytes: number;
  readonly storeServer: 'round-robin' | 'first' | 'priority';
  readonly storePath: 'round-robin' | 'most-free';
  readonly downloadServer: 'round-robin' | 'source';
  readonly environment: Environment;
}

const { deleted, ipChanged } = StorageStatus;

const READS = 4;
const WRITES = 2;

/** The storages of one group, in the order of their ids, and whose turn it is. */
export class Group {
  readonly name: string;
  readonly #rules: ChoiceRules;
  #members: readonly Member[] = [];
  /** By id, those that have answered changes without the member, which it still lacks. */
  readonly #out = new Map<string, Set<string>>();
  #storeTurn = 0;
  #fetchTurn = 0;

  constructor(name: string, rules: ChoiceRules) {
    this.name = name;
    this.#rules = rules;
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  /** Index among the writable members of the next that takes an upload. */
  currentWriteServer(nowMs: number): number {
    return this.#storeTurn % Math.max(this.writable(nowMs).length, 1);
  }

  /** The member of this id, made if there is none. */
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

  /** Members that answer requests, whichever they may take. */
  serving(nowMs: number): readonly Member[] {
    return this.#members.filter((each) => this.statusOf(each, nowMs) === StorageStatus.active);
  }

  readable(nowMs: number): readonly Member[] {
    return this.serving(nowMs).filter((each) => (each.readWriteMode & READS) !== 0);
  }

  writable(nowMs: number): readonly Member[] {
    return this.serving(nowMs).filter((each) => (each.readWriteMode & WRITES) !== 0);
  }

  /** Room that every serving member has, MiB; what one lacks the group cannot take. */
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

  /** A member for an upload; undefined if the group is full. */
  chooseStore(nowMs: number): StoreChoice | undefined {
    const { reservedSpaceMegabytes, storePath } = this.#rules;
    const member = this.#storeMember(nowMs);
    const storePathIndex = member?.nextStorePath(reservedSpaceMegabytes, storePath);
    if (!member || storePathIndex === undefined) return undefined;
    return { group: this, member, storePathIndex };
  }

  /** Every member for an upload; the store path is the first one's. Undefined if none has room. */
  chooseStoreAll(
    nowMs: number,
  ): { readonly members: readonly Member[]; readonly storePathIndex: number } | undefined {
    const { reservedSpaceMegabytes, storePath } = this.#rules;
    const members = this.writable(nowMs).filter((each) => each.hasRoom(reservedSpaceMegabytes));
    const storePathIndex = members[0]?.nextStorePath(reservedSpaceMegabytes, storePath);
    return storePathIndex === undefined ? undefined : { members, storePathIndex };
  }

  /** A member to read from, in turns over those that have the file. */
  chooseFetch(file: NamedFile | undefined, nowMs: number): Member {
    const { best } = this.#holders(file, nowMs);
    // Where a file may change, all ask the same one, and see no change undone.
    if (file?.onlyAtSource) return best[0]!;
    const source = file && best.find((each) => isSource(file, each));
    if (source && this.#rules.downloadServer === 'source') return source;
    return best[this.#fetchTurn++ % best.length]!;
  }

  /** Every member that has the file, the one to be asked first before the others; never none. */
  chooseFetchAll(file: NamedFile | undefined, nowMs: number): readonly Member[] {
    const { best, others } = this.#holders(file, nowMs);
    return [...best, ...others];
  }

  /**
   * The member to change the file on: its source if it serves, else the first one. One
   * that lacks changes that others have answered changes nothing; status 11 if all do.
   */
  chooseUpdate(file: NamedFile | undefined, nowMs: number): Member {
    const writable = this.writable(nowMs);
    if (writable.length === 0) throw this.#nobody(Status.notFound);
    const current = writable.filter((each) => this.isCurrent(each));
    const member = current.find((each) => file && isSource(file, each)) ?? current[0];
    if (!member) throw this.#nobody(Status.tryAgain);
    return member;
  }

  /** True if nobody has answered a change without this member that it still lacks. */
  isCurrent(member: Member): boolean {
    return this.outFor(member).length === 0;
  }

  /** Those who have, as long as they may come back. */
  outFor({ id }: Member): readonly string[] {
    return [...(this.#out.get(id) ?? [])].filter((byId) => {
      const by = this.find(byId);
      return by !== undefined && by.status !== deleted && by.status !== ipChanged;
    });
  }

  /** `byId` answers changes without the member, which may not have joined yet, or waits for it again. */
  setOut(id: string, byId: string, isOut: boolean): void {
    const out = this.#out.get(id) ?? new Set();
    if (isOut) out.add(byId);
    else out.delete(byId);
    if (out.size > 0) this.#out.set(id, out);
    else this.#out.delete(id);
  }

  /** One that has lost everything has answered nothing that others could lack. */
  forgetOut(byId: string): void {
    for (const id of [...this.#out.keys()]) this.setOut(id, byId, false);
  }

  /**
   * Where the file can be read; where nobody is known to have it, all that may, the
   * likeliest first. A member that lacks changes comes where nobody else has the file,
   * but for an appender, which it may have as it once was: status 11.
   */
  #holders(file: NamedFile | undefined, nowMs: number): Holders {
    const readable = this.readable(nowMs);
    if (readable.length === 0) throw this.#nobody(Status.notFound);
    const current = readable.filter((each) => this.isCurrent(each));
    const source = file && this.#sourceOf(file);
    if (file && (file.changes || (file.onlyAtSource && current.length > 0))) {
      if (current.length === 0) throw this.#nobody(Status.tryAgain);
      return { best: first(current, (each) => each === source), others: [] };
    }
    const atSeconds = nowSeconds(this.#rules.environment);
    const holders = file ? readable.filter((each) => holds(file, each, source?.id, atSeconds)) : [];
    const known = preferred(holders, current);
    if (known.length > 0) return { best: known, others: [] };
    const likely = source ? likeliest(readable, source.id) : [];
    const isTold = source && likely.some((each) => each.syncedFrom(source.id) > 0);
    const guess = isTold ? likely : [readable[this.#storeTurn % readable.length]!];
    const best = preferred(guess, current);
    return { best, others: file ? readable.filter((each) => !best.includes(each)) : [] };
  }

  #nobody(status: number): StatusError {
    return new StatusError(status, `no active storage in ${this.name}`);
  }

  #sourceOf(file: NamedFile): Member | undefined {
    return this.#members.find((each) => isSource(file, each));
  }

  #storeMember(nowMs: number): Member | undefined {
    const { reservedSpaceMegabytes, storeServer } = this.#rules;
    const roomy = this.writable(nowMs).filter((each) => each.hasRoom(reservedSpaceMegabytes));
    // What a member that is out takes, it may be the only one to have for a while.
    const current = roomy.filter((each) => this.isCurrent(each));
    const candidates = current.length > 0 ? current : roomy;
    const priority = (member: Member): number => member.joinRequest?.uploadPriority ?? 0;
    switch (storeServer) {
      case 'first':
        return candidates[0];
      case 'priority':
        return [...candidates].sort((a, b) => priority(a) - priority(b))[0];
      case 'round-robin':
        return candidates[this.#storeTurn++ % Math.max(candidates.length, 1)];
    }
  }
}

/** Those that are so before the others. */
function first(members: readonly Member[], isSo: (member: Member) => boolean): readonly Member[] {
  return [...members.filter(isSo), ...members.filter((each) => !isSo(each))];
}

/** Those that are among the others, if any is. */
function preferred(members: readonly Member[], among: readonly Member[]): readonly Member[] {
  const both = members.filter((each) => among.includes(each));
  return both.length > 0 ? both : members;
}

/** Who is asked for a file first, and who if they have not got it. */
interface Holders {
  readonly best: readonly Member[];
  readonly others: readonly Member[];
}
