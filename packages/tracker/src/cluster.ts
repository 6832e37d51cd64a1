import { isGroupName, type JoinRequest, Status, StorageStatus } from '@stevedore/protocol';
import { nowSeconds, StatusError } from '@stevedore/wire';
import { Group, type StoreChoice } from './group.js';
import type { Member } from './member.js';
import type { TrackerSettings } from './tracker-options.js';

/** All groups of a tracker, sorted by name. In memory only: after a restart, storages rejoin. */

const MAX_GROUPS = 512;
const MAX_MEMBERS = 32;
const MAX_STORE_PATHS = 256;
const MAX_SUBDIRECTORIES = 256;

export class Cluster {
  readonly log = new ChangeLog();
  readonly #settings: TrackerSettings;
  #groups: readonly Group[] = [];
  #groupTurn = 0;

  constructor(settings: TrackerSettings) {
    this.#settings = settings;
  }

  get groups(): readonly Group[] {
    return this.#groups;
  }

  /** Status 2 if there is no such group. */
  group(name: string): Group {
    const group = this.#find(name);
    if (!group) throw new StatusError(Status.notFound, `no group ${name}`);
    return group;
  }

  /** Status 2 if there is no such group or member. */
  member(group: string, id: string): Member {
    const member = this.group(group).find(id);
    if (!member) throw new StatusError(Status.notFound, `no storage ${id} in ${group}`);
    return member;
  }

  /** Admits a storage; `link` identifies its connection. */
  join(
    request: JoinRequest,
    address: string,
    link: object,
    nowMs: number,
  ): { group: Group; member: Member; status: number } {
    checkJoin(request);
    const { storageIds } = this.#settings;
    const id = storageIds.idOf(address, request.port, request.group, request.storageId);
    const known = this.#find(request.group);
    if (!known?.find(id) && !request.initial && !canBeUnknown(request.status)) {
      throw new StatusError(Status.badAddress, `status ${request.status} of an unknown storage`);
    }
    if (known) checkFits(request, id, known, storageIds.used);
    else if (this.#groups.length >= MAX_GROUPS) {
      throw new StatusError(Status.noSpace, 'too many groups');
    }
    const group = known ?? this.#add(request.group);
    const member = group.member(id, address, storageIds.readWriteModeOf(id));
    return { group, member, status: member.join(request, address, link, nowMs) };
  }

  /** Chooses the group, storage and store path for an upload. */
  chooseStore(nowMs: number): StoreChoice {
    return this.#inGroups(nowMs, (group) => group.chooseStore(nowMs));
  }

  /** As `chooseStore`, with every storage of the group that has space. */
  chooseStoreAll(nowMs: number): {
    readonly group: Group;
    readonly members: readonly Member[];
    readonly storePathIndex: number;
  } {
    return this.#inGroups(nowMs, (group) => {
      const choice = group.chooseStoreAll(nowMs);
      return choice && { group, ...choice };
    });
  }

  /** Removes a group; status 16 while it has any storage, even a deleted one. */
  deleteGroup(name: string): void {
    const group = this.group(name);
    if (group.members.length > 0) throw new StatusError(Status.busy, `${name} has storages`);
    this.#groups = this.#groups.filter((each) => each !== group);
  }

  /** Marks a storage as deleted; status 16 if it is alive, 114 if it is deleted, 2 if it moved. */
  deleteStorage(group: string, id: string, nowMs: number): void {
    const member = this.member(group, id);
    const { online, active, recovery, deleted, ipChanged } = StorageStatus;
    const status = member.statusAt(nowMs, this.#settings.checkActiveIntervalMs);
    if (status === online || status === active || status === recovery) {
      throw new StatusError(Status.busy, `storage ${id} is at work`);
    }
    if (status === deleted) throw new StatusError(Status.already, `storage ${id} is deleted`);
    if (status === ipChanged) throw new StatusError(Status.notFound, `storage ${id} has moved`);
    member.changeStatus(deleted);
    this.log.add(nowSeconds(this.#settings.environment), group, id, deleted);
  }

  /** The first choice of a writable group, in the order of the lookup rule. */
  #inGroups<Choice>(nowMs: number, choose: (group: Group) => Choice | undefined): Choice {
    const { storeLookup, storeGroup } = this.#settings;
    const active = this.#groups.filter(
      (group) =>
        group.writable(nowMs).length > 0 && (storeLookup !== 'group' || group.name === storeGroup),
    );
    if (active.length === 0) throw new StatusError(Status.notFound, 'no active storage');
    for (const group of this.#inOrder(active, nowMs)) {
      const choice = choose(group);
      if (choice) return choice;
    }
    throw new StatusError(Status.noSpace, 'every group is full');
  }

  #inOrder(groups: readonly Group[], nowMs: number): readonly Group[] {
    if (this.#settings.storeLookup === 'most-free') {
      const free = new Map(groups.map((group) => [group, group.room(nowMs).freeMegabytes]));
      return [...groups].sort((one, other) => (free.get(other) ?? 0) - (free.get(one) ?? 0));
    }
    const turn = this.#groupTurn++ % groups.length;
    return [...groups.slice(turn), ...groups.slice(0, turn)];
  }

  #find(name: string): Group | undefined {
    return this.#groups.find((group) => group.name === name);
  }

  #add(name: string): Group {
    const group = new Group(name, this.#settings);
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

/**
 * Without ids, addresses alone identify storages, so the members of a group share one port.
 * To hold the files of the others, a member needs as many store paths and subdirectories.
 */
function checkFits(request: JoinRequest, id: string, group: Group, usesIds: boolean): void {
  const others = group.members.filter((member) => member.connected && member.id !== id);
  const same = group.find(id);
  if (!usesIds && [...others, ...(same?.connected ? [same] : [])].some(otherPort)) {
    throw new StatusError(Status.invalid, `another port than that of group ${group.name}`);
  }
  const needed = Math.max(0, ...others.map(({ joinRequest }) => joinRequest?.storePathCount ?? 0));
  const subdirectories = others[0]?.joinRequest?.subdirectoriesPerPath;
  if (
    request.storePathCount < needed ||
    (subdirectories !== undefined && subdirectories !== request.subdirectoriesPerPath)
  ) {
    throw new StatusError(Status.invalid, `other store paths than those of group ${group.name}`);
  }
  if (group.members.length >= MAX_MEMBERS && !same) {
    throw new StatusError(Status.noSpace, `group ${group.name} has ${MAX_MEMBERS} storages`);
  }

  function otherPort(member: Member): boolean {
    return member.port !== request.port;
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

/**
 * The deletions and address changes of storages, for storages to read. Each is a line
 *
 *     timestamp group id status [new address]
 *
 * and the last `MAX_LINES` are kept.
 */

const MAX_LINES = 1000;

class ChangeLog {
  readonly #lines: string[] = [];
  /** Number of lines that are no longer kept. */
  #dropped = 0;

  add(atSeconds: number, group: string, id: string, status: number, argument = ''): void {
    this.#lines.push(
      `${atSeconds} ${group} ${id} ${status}${argument === '' ? '' : ` ${argument}`}\n`,
    );
    if (this.#lines.length > MAX_LINES) {
      this.#lines.shift();
      this.#dropped += 1;
    }
  }

  /** Number of lines so far: the position of a reader that is up to date. */
  get end(): number {
    return this.#dropped + this.#lines.length;
  }

  /** The lines after a reader's position. */
  since(position: number): string {
    return this.#lines.slice(Math.max(position - this.#dropped, 0)).join('');
  }
}
