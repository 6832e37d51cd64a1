import { setMaxListeners } from 'node:events';
import { chooseTarget, type Load, type ServerLoad, spareLoad } from '@stevedore/balance';
import { type MigrationRoom, migrationRoom } from '@stevedore/protocol';
import { type Address, control, type Handler, Peer, type PeerAccess } from '@stevedore/wire';

/**
 * The load that this metadata server can accept: from at most one other server in an interval, and
 * none while it has load to move itself.
 */
export class OwnRoom {
  #load: Load = { metadataBytes: 0, smallFileBytes: 0 };
  /** Unknown until the first interval has ended. */
  #capacityBytes = 0;
  #mark = 0;
  #mayTake = false;

  /** An interval has ended; loads in bytes a second. */
  begin(load: Load, capacityBytes: number, mark: number, mayTake: boolean): void {
    this.#load = load;
    this.#capacityBytes = capacityBytes;
    this.#mark = mark;
    this.#mayTake = mayTake;
  }

  /** Answers a request for room, and reserves it if there is some. */
  take(wantedBytes: number): MigrationRoom {
    const spare = this.#mayTake ? spareLoad(this.#load, this.#capacityBytes, this.#mark) : 0;
    const takenBytes = Math.floor(Math.min(wantedBytes, spare));
    if (takenBytes > 0) this.#mayTake = false;
    return {
      capacityBytes: Math.max(1, Math.round(this.#capacityBytes)),
      metadataBytes: Math.round(this.#load.metadataBytes),
      smallFileBytes: Math.round(this.#load.smallFileBytes),
      // A server that accepts nothing is no target.
      markPerMille: spare > 0 ? Math.round(this.#mark * 1000) : 0,
      takenBytes,
    };
  }
}

export function roomHandler<Session>(room: OwnRoom): Handler<Session> {
  return control(migrationRoom, (wantedBytes) => room.take(wantedBytes));
}

/**
 * Chooses the metadata server that takes a load (section 4.2.2): asks all storages of the sharing
 * groups for their forecasts, chooses one and asks it to take the load. A storage that is away, or
 * does not know the command, is skipped.
 */

export interface OtherRoomsParts {
  readonly groups: readonly string[];
  readonly storagesOf: (group: string) => Promise<readonly Address[]>;
  readonly access: PeerAccess;
}

export interface OtherRoom {
  readonly group: string;
  /** Load of an interval that it can take. */
  readonly roomBytes: number;
}

interface Asked {
  readonly group: string;
  readonly at: Address;
  readonly load: ServerLoad;
}

const TIMEOUT_MS = 1000;
const MAX_ASKED = 64;

export class OtherRooms {
  readonly #parts: OtherRoomsParts;
  readonly #closing = new AbortController();

  constructor(parts: OtherRoomsParts) {
    this.#parts = parts;
    // Every question that is under way listens.
    setMaxListeners(0, this.#closing.signal);
  }

  close(): void {
    this.#closing.abort();
  }

  /** The server that takes so much load of an interval; undefined if none has room. */
  async find(totalLoadBytes: number, intervalMs: number): Promise<OtherRoom | undefined> {
    const perSecond = 1000 / intervalMs;
    const wanted = Math.ceil(totalLoadBytes * perSecond);
    const asked = await this.#askAll();
    const loads = asked.map(({ load }) => load);
    const chosen = chooseTarget(wanted, loads);
    const target = asked.find(({ load }) => load.id === chosen?.id);
    if (!chosen || !target) return undefined;
    const answer = await this.#ask(target.at, Math.ceil(chosen.roomBytes));
    if (!answer || answer.takenBytes === 0) return undefined;
    return { group: target.group, roomBytes: answer.takenBytes / perSecond };
  }

  async #askAll(): Promise<Asked[]> {
    const { groups, storagesOf } = this.#parts;
    const lists = await Promise.all(
      groups.map(async (group) => {
        const storages = await storagesOf(group).catch(() => []);
        return storages.map((at) => ({ group, at }));
      }),
    );
    const answers = await Promise.all(
      lists
        .flat()
        .slice(0, MAX_ASKED)
        .map(async ({ group, at }, index) => {
          const room = await this.#ask(at, 0);
          return room && { group, at, load: serverLoad(String(index), room) };
        }),
    );
    return answers.filter((each) => each !== undefined);
  }

  async #ask(address: Address, load: number): Promise<MigrationRoom | undefined> {
    const { access } = this.#parts;
    try {
      const peer = { address, timeoutMs: TIMEOUT_MS, access };
      return await Peer.ask(peer, migrationRoom, load, this.#closing.signal);
    } catch {
      return undefined;
    }
  }
}

function serverLoad(id: string, { markPerMille, ...room }: MigrationRoom): ServerLoad {
  return { id, ...room, efficiencyMark: markPerMille / 1000 };
}
