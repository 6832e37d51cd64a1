import { type ServerBrief, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { ConnectionEnds } from '../net/frame-server.js';
import type { Group } from './group.js';
import type { Member } from './member.js';

/** A connection to the tracker: whose it is and, after a join, which storage's. */
export class TrackerSession {
  readonly #ends: ConnectionEnds;
  #joined: { readonly group: Group; readonly member: Member } | undefined;

  constructor(ends: ConnectionEnds) {
    this.#ends = ends;
  }

  /** The peer's address: what a storage is told apart by. */
  get address(): string {
    return this.#ends.peerAddress;
  }

  /** This tracker as the peer reaches it, and as the leader that a lone tracker is. */
  leader(): ServerBrief {
    const { localAddress, localPort } = this.#ends;
    return { status: 0, port: localPort, id: localAddress, address: localAddress };
  }

  enter(group: Group, member: Member): void {
    if (this.#joined && this.#joined.member !== member) this.#joined.member.leave(this);
    this.#joined = { group, member };
  }

  /** The storage that has joined on this connection; status 13 if none has. */
  joined(): { readonly group: Group; readonly member: Member } {
    if (!this.#joined) throw new StatusError(Status.accessDenied, 'the connection has not joined');
    return this.#joined;
  }

  end(): void {
    this.#joined?.member.leave(this);
  }
}
