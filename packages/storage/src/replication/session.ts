import { Status } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';
import type { Members } from './members.js';

/** A connection to a storage: a client's, or another member's once it has said so. */
export class StorageSession {
  readonly address: string;
  /** The member's id; empty for a client. */
  peer = '';

  constructor(address: string) {
    this.address = address;
  }
}

/** How long a request waits for the trackers to tell of a new member. */
const NEWS_MS = 2000;

/**
 * Lets only members send copies: by the connection's address, which the trackers'
 * lists must have, with the id if one is given. Status 13 for everybody else.
 */
export async function admit(
  members: Members,
  session: StorageSession,
  id?: string,
): Promise<string> {
  const member = members.at(session.address, id) ?? (await news(members, session.address, id));
  if (!member) {
    throw new StatusError(Status.accessDenied, `${session.address} is no member of the group`);
  }
  return member.id;
}

/** A member that joined a moment ago is in no list yet. */
async function news(members: Members, address: string, id: string | undefined) {
  if (members.ownId === undefined) return undefined;
  const asked = members.asked(NEWS_MS);
  members.refresh();
  await asked;
  return members.at(address, id);
}
