import { Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { Member } from './member.js';

/** A member and the store path that an upload shall name. */
export interface StoreChoice {
  readonly group: Group;
  readonly member: Member;
  readonly storePathIndex: number;
}

/** When members count as there and as full. */
export interface ChoiceRules {
  readonly checkActiveIntervalMs: number;
  readonly reservedSpaceMegabytes: number;
}

/** The storages of one group, in the order of their ids, and whose turn it is. */
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

  /** The member of this address, made if there is none. */
  member(address: string): Member {
    const known = this.#members.find((member) => member.address === address);
    if (known) return known;
    const member = new Member(address);
    this.#members = [...this.#members, member].sort((a, b) => (a.address < b.address ? -1 : 1));
    return member;
  }

  /** Members that take requests. */
  serving(nowMs: number): readonly Member[] {
    return this.#members.filter((member) =>
      member.serves(nowMs, this.#rules.checkActiveIntervalMs),
    );
  }

  /** A member for an upload, in turns; undefined if the group is full. */
  chooseStore(nowMs: number): StoreChoice | undefined {
    const { reservedSpaceMegabytes } = this.#rules;
    const candidates = this.serving(nowMs).filter((each) => each.hasRoom(reservedSpaceMegabytes));
    const member = candidates[this.#storeTurn++ % Math.max(candidates.length, 1)];
    const storePathIndex = member?.nextStorePath(reservedSpaceMegabytes);
    if (!member || storePathIndex === undefined) return undefined;
    return { group: this, member, storePathIndex };
  }

  /** The member to read from: the one the file came from if it serves, else in turns. */
  chooseFetch(source: string | undefined, nowMs: number): Member {
    const serving = this.serving(nowMs);
    const member =
      serving.find((each) => each.address === source) ??
      serving[this.#fetchTurn++ % Math.max(serving.length, 1)];
    if (!member) throw new StatusError(Status.notFound, `no active storage in ${this.name}`);
    return member;
  }

  /** The member to change the file on: its source if it serves, else the next one. */
  chooseUpdate(source: string | undefined, nowMs: number): Member {
    return this.chooseFetch(source, nowMs);
  }
}
