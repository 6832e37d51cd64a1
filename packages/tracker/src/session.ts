import { addressText, type ChangeList, type ServerBrief, Status } from '@stevedore/protocol';
import { type ConnectionEnds, StatusError } from '@stevedore/wire';
import type { Group } from './group.js';
import type { Member } from './member.js';

/** A connection to the tracker, and after a join the storage that it belongs to. */
export class TrackerSession {
  readonly #ends: ConnectionEnds;
  #joined: { readonly group: Group; readonly member: Member } | undefined;
  #sentLeader = false;
  /** The members that were last sent on this connection, as JSON. */
  #sentMembers = '';

  constructor(ends: ConnectionEnds) {
    this.#ends = ends;
  }

  /** The peer's address, which identifies a storage. */
  get address(): string {
    return this.#ends.peerAddress;
  }

  /** This tracker, which is alone and so the leader, at the address that the peer uses. */
  leader(): ServerBrief {
    const { localAddress, localPort } = this.#ends;
    return { status: 0, port: localPort, id: localAddress.slice(0, 15), address: localAddress };
  }

  leaderText(): string {
    const { address, port } = this.leader();
    return addressText(address, port);
  }

  enter(group: Group, member: Member): void {
    if (this.#joined && this.#joined.member !== member) this.#joined.member.leave(this);
    this.#joined = { group, member };
    this.#sentLeader = false;
    this.#sentMembers = '';
  }

  get hasJoined(): boolean {
    return this.#joined !== undefined;
  }

  /** The storage that has joined on this connection; status 13 if none has. */
  joined(): { readonly group: Group; readonly member: Member } {
    if (!this.#joined) throw new StatusError(Status.accessDenied, 'the connection has not joined');
    return this.#joined;
  }

  /** What is new to the storage: the leader once, the members after every change. */
  changes(nowMs: number): ChangeList {
    const { group } = this.joined();
    const members = group.members.map((each) => ({
      ...each.brief(),
      status: group.statusOf(each, nowMs),
    }));
    const text = JSON.stringify(members);
    const changes = {
      ...(this.#sentLeader ? {} : { leader: this.leader() }),
      ...(this.#sentMembers === text ? {} : { members }),
    };
    this.#sentLeader = true;
    this.#sentMembers = text;
    return changes;
  }

  end(): void {
    this.#joined?.member.leave(this);
  }
}
