import type { StorageMember } from '@stevedore/client';
import type { MigrationStatus } from '@stevedore/tiering/control';

/**
 * The moves of the storages that have a metadata tier. A storage without one, or of another
 * program, is not asked again for a while. The number of requests is bounded, and a storage that
 * does not answer is left out.
 */

/** Undefined for a storage that moves nothing. */
export type AskMigration = (address: string) => Promise<MigrationStatus | undefined>;

export interface StorageMigration {
  /** `host:port` */
  readonly storage: string;
  readonly status: MigrationStatus;
}

/** Of both classes, as shares of what the disk can serve in an interval: 1 if more is asked for. */
export interface TierLoad {
  /** Of the last interval. */
  readonly load: number;
  /** The same, of the coming one. */
  readonly forecast: number;
}

const MAX_STORAGES = 16;
const ASK_AGAIN_MS = 600_000;
const MAX_KNOWN = 1000;

export class Migrations {
  readonly #ask: AskMigration;
  readonly #now: () => number;
  /** Storages that move nothing, and when they said so. */
  readonly #without = new Map<string, number>();

  constructor(ask: AskMigration, now: () => number) {
    this.#ask = ask;
    this.#now = now;
  }

  async of(members: readonly StorageMember[]): Promise<readonly StorageMigration[]> {
    const asked = members.filter(({ active, address }) => active && this.#mayMove(address));
    const answers = await Promise.all(
      asked.slice(0, MAX_STORAGES).map(({ address }) => this.#statusOf(address)),
    );
    return answers.filter((answer) => answer !== undefined);
  }

  #mayMove(address: string): boolean {
    return this.#now() - (this.#without.get(address) ?? Number.NEGATIVE_INFINITY) > ASK_AGAIN_MS;
  }

  async #statusOf(storage: string): Promise<StorageMigration | undefined> {
    try {
      const status = await this.#ask(storage);
      if (status) return { storage, status };
      if (this.#without.size >= MAX_KNOWN) this.#without.clear();
      this.#without.set(storage, this.#now());
    } catch {
      // It is down; the cluster's table shows that.
    }
    return undefined;
  }
}

export function loadOf({ load, capacityBytes }: MigrationStatus): TierLoad {
  const share = (bytes: number) => (capacityBytes === 0 ? 0 : Math.min(1, bytes / capacityBytes));
  const { smallFile, metadata } = load;
  return {
    load: share(smallFile.loadBytes + metadata.loadBytes),
    forecast: share(smallFile.forecastBytes + metadata.forecastBytes),
  };
}

/** The load of the storage with the highest forecast; undefined if none has a metadata tier. */
export function highestLoad(migrations: readonly StorageMigration[]): TierLoad | undefined {
  return migrations
    .map(({ status }) => loadOf(status))
    .reduce<TierLoad | undefined>(
      (highest, each) => (highest && highest.forecast >= each.forecast ? highest : each),
      undefined,
    );
}
