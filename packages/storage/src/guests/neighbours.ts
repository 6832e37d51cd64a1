import type { MetadataServerLoad, MetadataServerRecord, TargetLease } from '@stevedore/protocol';
import type { Exchange } from './exchange.js';
import type { GuestGuard } from './guest-guard.js';
import type { GuestHosts, HomeId } from './guest-hosts.js';

/**
 * The other metadata servers, as the migration of this one sees them: it tells its load
 * at the end of an interval and hears whom it may give files to. One question is under
 * way at a time; an interval that ends meanwhile goes without.
 */

export type OwnLoad = Omit<MetadataServerLoad, 'group' | 'id' | 'port'>;

export interface NeighboursParts {
  readonly exchange: Exchange;
  readonly hosts: GuestHosts;
  readonly guard: GuestGuard;
  /** Undefined until a tracker has told. */
  readonly self: () => (HomeId & { readonly port: number }) | undefined;
}

export class Neighbours {
  readonly #parts: NeighboursParts;
  #asking: Promise<TargetLease | undefined> | undefined;

  constructor(parts: NeighboursParts) {
    this.#parts = parts;
  }

  /** Those of other groups, as they last told. */
  get others(): readonly MetadataServerRecord[] {
    const own = this.#parts.self();
    return this.#parts.hosts.servers.filter(({ group }) => group !== own?.group);
  }

  /** False for a group of which a tracker would have told, if it had a metadata server. */
  mayHave(group: string): boolean {
    const { hosts } = this.#parts;
    return !hosts.hasLearned || this.others.some((each) => each.group === group);
  }

  get guard(): GuestGuard {
    return this.#parts.guard;
  }

  get self(): HomeId | undefined {
    return this.#parts.self();
  }

  /** Whom files may be given to in the interval that begins; undefined: nobody. Never rejects. */
  async report(load: OwnLoad): Promise<TargetLease | undefined> {
    const self = this.#parts.self();
    if (!self || this.#asking) return undefined;
    this.#asking = this.#ask({ ...load, ...self });
    try {
      return await this.#asking;
    } finally {
      this.#asking = undefined;
    }
  }

  async close(): Promise<void> {
    this.#parts.exchange.close();
    await this.#asking?.catch(() => {});
    this.#parts.hosts.close();
  }

  async #ask(load: MetadataServerLoad): Promise<TargetLease | undefined> {
    const list = await this.#parts.exchange.report(load);
    if (!list) return undefined;
    this.#parts.hosts.learn(list.servers);
    return list.lease;
  }
}
