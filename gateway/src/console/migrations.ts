import type { StorageMember } from '@stevedore/client';
import type { MigrationStatus } from '@stevedore/storage/migration';

/**
 * What the storages that have a metadata tier say about its moves. One that has none, or is another program's, is not asked again for a while; how many are asked is
 * bounded, and one that does not answer is left out.
 */

/** Undefined for a storage that moves nothing. */
export type AskMigration = (address: string) => Promise<MigrationStatus | undefined>;

export interface StorageMigration {
  /** `host:port` */
  readonly storage: string;
  readonly status: MigrationStatus;
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
      // It is away; the cluster's table says so.
    }
    return undefined;
  }
}
