import { type Load, spareLoad } from '@stevedore/balance';
import { type MigrationRoom, migrationRoom } from '@stevedore/protocol';
import { control, type Handler } from '@stevedore/wire';

/**
 * What this metadata server has room for. It takes load from one other server in an
 * interval at most, and none while it has load to move itself.
 */
export class OwnRoom {
  #load: Load = { metadataBytes: 0, smallFileBytes: 0 };
  /** Nothing is known before the first interval has ended. */
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

  /** Answers who asks for room for so much, and takes it where there is some. */
  take(wantedBytes: number): MigrationRoom {
    const spare = this.#mayTake ? spareLoad(this.#load, this.#capacityBytes, this.#mark) : 0;
    const takenBytes = Math.floor(Math.min(wantedBytes, spare));
    if (takenBytes > 0) this.#mayTake = false;
    return {
      capacityBytes: Math.max(1, Math.round(this.#capacityBytes)),
      metadataBytes: Math.round(this.#load.metadataBytes),
      smallFileBytes: Math.round(this.#load.smallFileBytes),
      // Who takes nothing is no target.
      markPerMille: spare > 0 ? Math.round(this.#mark * 1000) : 0,
      takenBytes,
    };
  }
}

/** MIGRATION_ROOM. */
export function roomHandler<Session>(room: OwnRoom): Handler<Session> {
  return control(migrationRoom, (wantedBytes) => room.take(wantedBytes));
}
