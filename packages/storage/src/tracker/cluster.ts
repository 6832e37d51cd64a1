import { isGroupName, type JoinRequest, Status, StorageStatus } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { type ChoiceRules, Group, type StoreChoice } from './group.js';
import type { Member } from './member.js';

/** All groups of a tracker, in the order of their names. Kept in memory: storages join again. */

const MAX_GROUPS = 512;
const MAX_MEMBERS = 32;
const MAX_STORE_PATHS = 256;
const MAX_SUBDIRECTORIES = 256;

export class Cluster {
  readonly #rules: ChoiceRules;
  #groups: readonly Group[] = [];
  #groupTurn = 0;

  constructor(rules: ChoiceRules) {
    this.#rules = rules;
  }

  /** The group of this name; status 2 if there is none. */
  group(name: string): Group {
    const group = this.#find(name);
    if (!group) throw new StatusError(Status.notFound, `no group ${name}`);
    return group;
  }

  /** Takes a storage in. `link` stands for its connection. */
  join(
    request: JoinRequest,
    address: string,
    link: object,
    nowMs: number,
  ): { group: Group; member: Member; status: number } {
    checkJoin(request);
    const known = this.#find(request.group);
    const former = known?.members.find((each) => each.address === address);
    if (!former && !request.initial && !canBeUnknown(request.status)) {
      throw new StatusError(Status.badAddress, `status ${request.status} of an unknown storage`);
    }
    if (known) checkFits(request, address, known);
    else if (this.#groups.length >= MAX_GROUPS) {
      throw new StatusError(Status.noSpace, 'too many groups');
    }
    const group = known ?? this.#add(request.group);
    const member = group.member(address);
    return { group, member, status: member.join(request, link, nowMs) };
  }

  /** A storage for an upload, in turns over the groups that have room. */
  chooseStore(nowMs: number): StoreChoice {
    const active = this.#groups.filter((group) => group.serving(nowMs).length > 0);
    if (active.length === 0) throw new StatusError(Status.notFound, 'no active storage');
    const turn = this.#groupTurn++;
    for (let step = 0; step < active.length; step++) {
      const choice = active[(turn + step) % active.length]!.chooseStore(nowMs);
      if (choice) return choice;
    }
    throw new StatusError(Status.noSpace, 'every group is full');
  }

  #find(name: string): Group | undefined {
    return this.#groups.find((group) => group.name === name);
  }

  #add(name: string): Group {
    const group = new Group(name, this.#rules);
    this.#groups = [...this.#groups, group].sort((a, b) => (a.name < b.name ? -1 : 1));
    return group;
  }
}

function checkJoin(request: JoinRequest): void {
  const { group, storePathCount, subdirectoriesPerPath } = request;
  if (
    !isGroupName(group) ||
    !within(storePathCount, MAX_STORE_PATHS) ||
    !within(subdirectoriesPerPath, MAX_SUBDIRECTORIES)
  ) {
    throw new StatusError(Status.invalid, 'a join with an impossible group, path or directory');
  }
}

/** File names tell storages by address alone, so the members of a group share one port. */
function checkFits(request: JoinRequest, address: string, group: Group): void {
  const others = group.members.filter((member) => member.connected);
  if (others.some((member) => member.port !== request.port)) {
    throw new StatusError(Status.invalid, `another port than that of group ${group.name}`);
  }
  if (group.members.length >= MAX_MEMBERS && !group.members.some((m) => m.address === address)) {
    throw new StatusError(Status.noSpace, `group ${group.name} has ${MAX_MEMBERS} storages`);
  }
}

function canBeUnknown(status: number): boolean {
  return (
    status >= 0 &&
    status !== StorageStatus.deleted &&
    status !== StorageStatus.ipChanged &&
    status !== StorageStatus.none
  );
}

function within(value: number, most: number): boolean {
  return value >= 1 && value <= most;
}
