import { Listeners } from '@stevedore/async';
import { type ServerBrief, Status, StorageStatus } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';

/**
 * The members of the group, as the trackers tell them with every answer to a beat.
 * Only members may send copies here, and they are known by their addresses.
 */
export class Members {
  /** What each tracker last sent. */
  readonly #lists = new Map<string, readonly ServerBrief[]>();
  readonly #listeners = new Set<() => void>();
  /** Those who have asked for news. */
  readonly #waiting = new Listeners();
  readonly #askers = new Set<() => void>();
  #ownId: string | undefined;

  /** Ids become names of files. */
  static isId(id: string): boolean {
    return /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,14}$/.test(id);
  }

  get ownId(): string | undefined {
    return this.#ownId;
  }

  learnOwnId(id: string): void {
    if (this.#ownId === id) return;
    this.#ownId = id;
    this.#notify();
  }

  learn(tracker: string, members: readonly ServerBrief[]): void {
    this.#lists.set(
      tracker,
      members.filter(({ id }) => Members.isId(id)),
    );
    this.#notify();
  }

  /** True once a tracker has listed them. */
  get areKnown(): boolean {
    return this.#lists.size > 0;
  }

  /** A tracker has been asked and has no news. */
  unchanged(): void {
    this.#waiting.wake();
  }

  /** All but this storage and those that are gone for good. */
  get others(): readonly ServerBrief[] {
    return this.#all().filter(({ id, status }) => id !== this.#ownId && !GONE.includes(status));
  }

  /** Own status, if a tracker has sent it. */
  get ownStatus(): number | undefined {
    return this.#all().find(({ id }) => id === this.#ownId)?.status;
  }

  find(id: string): ServerBrief | undefined {
    return this.others.find((each) => each.id === id);
  }

  /** The member at this address, of this id if one is given. */
  at(address: string, id?: string): ServerBrief | undefined {
    return this.others.find(
      (each) => each.address === address && (id === undefined || each.id === id),
    );
  }

  /** Asks every tracker soon for news. */
  refresh(): void {
    for (const ask of this.#askers) ask();
  }

  onRefresh(ask: () => void): () => void {
    this.#askers.add(ask);
    return () => this.#askers.delete(ask);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when a tracker has been asked, or after so long. */
  async asked(withinMs: number): Promise<void> {
    await this.#waiting.next(withinMs);
  }

  /** Where trackers differ, the furthest status counts. */
  #all(): readonly ServerBrief[] {
    const byId = new Map<string, ServerBrief>();
    for (const list of this.#lists.values()) {
      for (const member of list) {
        const known = byId.get(member.id);
        if (!known || member.status > known.status) byId.set(member.id, member);
      }
    }
    return [...byId.values()];
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
    this.#waiting.wake();
  }
}

const { init, waitSync, syncing, ipChanged, deleted, none } = StorageStatus;
const GONE: readonly number[] = [ipChanged, deleted, none];

/** A member that has not got its first copy. */
export function isUnfinished(status: number): boolean {
  return status === init || status === waitSync || status === syncing;
}

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
