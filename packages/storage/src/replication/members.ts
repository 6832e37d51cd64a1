import { Listeners } from '@stevedore/async';
import { type ServerBrief, Status, StorageStatus } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';

/**
 * The members of the group, from the trackers' answers to heartbeats. Only members may send
 * changes here; their addresses identify them.
 */
export class Members {
  /** The latest list of each tracker. */
  readonly #lists = new Map<string, readonly ServerBrief[]>();
  readonly #listeners = new Set<() => void>();
  /** Callers of `asked`. */
  readonly #waiting = new Listeners();
  readonly #askers: (() => void)[] = [];
  #ownId: string | undefined;

  get ownId(): string | undefined {
    return this.#ownId;
  }

  learnOwnId(id: string): void {
    if (this.#ownId === id) return;
    this.#ownId = id;
    this.#notify();
  }

  learn(tracker: string, members: readonly ServerBrief[]): void {
    const valid = members.filter(({ id }) => isMemberId(id));
    this.#lists.set(tracker, valid);
    this.#notify();
  }

  /** True once a tracker has listed them. */
  get areKnown(): boolean {
    return this.#lists.size > 0;
  }

  /** A tracker has answered that nothing changed. */
  unchanged(): void {
    this.#waiting.wake();
  }

  /** All members but this storage and those that have left for good. */
  get others(): readonly ServerBrief[] {
    return this.#all().filter(({ id, status }) => id !== this.#ownId && !GONE.includes(status));
  }

  /** This storage's status, if a tracker has sent it. */
  get ownStatus(): number | undefined {
    return this.#all().find(({ id }) => id === this.#ownId)?.status;
  }

  find(id: string): ServerBrief | undefined {
    return this.others.find((each) => each.id === id);
  }

  /** The member at this address and, if given, with this id. */
  at(address: string, id?: string): ServerBrief | undefined {
    return this.others.find(
      (each) => each.address === address && (id === undefined || each.id === id),
    );
  }

  /** Makes the links ask every tracker soon. */
  refresh(): void {
    for (const ask of this.#askers) ask();
  }

  onRefresh(ask: () => void): void {
    this.#askers.push(ask);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when a tracker has answered, or after `withinMs`. */
  async asked(withinMs: number): Promise<void> {
    await this.#waiting.next(withinMs);
  }

  /** If trackers disagree, the highest status wins. */
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

/** True for a member whose first copy is not complete. */
export function isUnfinished(status: number): boolean {
  return status === init || status === waitSync || status === syncing;
}

/** Ids become file names, so only these characters are allowed. */
export function isMemberId(id: string): boolean {
  return /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,14}$/.test(id);
}

/** A connection of a client, or of another member once it has identified itself. */
export interface StorageSession {
  readonly address: string;
  /** The member's id; empty for a client. */
  peer: string;
}

/** How long a request waits for a tracker to list a new member. */
const REFRESH_MS = 2000;

/**
 * Admits only members: the trackers must list the connection's address and, if given, the
 * id. Status 13 for everybody else.
 */
export async function admit(
  members: Members,
  session: StorageSession,
  id?: string,
): Promise<string> {
  const { address } = session;
  const member = members.at(address, id) ?? (await afterRefresh(members, address, id));
  if (!member) {
    throw new StatusError(Status.accessDenied, `${address} is no member of the storage group`);
  }
  return member.id;
}

/** Asks the trackers again, for a member that joined a moment ago. */
async function afterRefresh(members: Members, address: string, id: string | undefined) {
  if (members.ownId === undefined) return undefined;
  const asked = members.asked(REFRESH_MS);
  members.refresh();
  await asked;
  return members.at(address, id);
}
