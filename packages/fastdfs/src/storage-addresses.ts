import type { ServerAddress } from '@stevedore/protocol';
import { type Address, makeAddress } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { FastdfsError } from './errors.js';
import type { Settings } from './options.js';

/** From what a tracker says about a storage to the address that is connected to. */

/** More than any cluster has; beyond it the table starts anew. */
const MAX_KNOWN = 4096;

export class StorageAddresses {
  readonly #settings: Pick<Settings, 'mapAddress' | 'allowList'>;
  readonly #known = new Map<string, Address>();

  constructor(settings: Pick<Settings, 'mapAddress' | 'allowList'>) {
    this.#settings = settings;
  }

  /** Of a storage that the caller names. Throws `invalid_argument`, `address_not_allowed`. */
  named(server: ServerAddress, deadline: Deadline): Address {
    if (!makeAddress(server.address, server.port)) {
      const message = `the storage "${server.address}", port ${server.port}`;
      throw deadline.error('invalid_argument', message);
    }
    return this.#find(server, '', deadline);
  }

  /** Throws `bad_reply` for what is no address, `address_not_allowed` for one not listed. */
  of(server: ServerAddress, tracker: Address, deadline: Deadline): Address {
    return this.#find(server, tracker.text, deadline);
  }

  #find(server: ServerAddress, tracker: string, deadline: Deadline): Address {
    const key = `${server.address} ${server.port}`;
    const known = this.#known.get(key);
    if (known) return known;
    const named = makeAddress(server.address, server.port);
    if (!named) {
      const message = `the tracker named the storage "${server.address}", port ${server.port}`;
      throw deadline.error('bad_reply', message, { address: tracker });
    }
    const { mapAddress, allowList } = this.#settings;
    const address = mapAddress ? mapAddress(named) : named;
    if (!address) {
      throw deadline.error('invalid_argument', `addressMap has no address for ${named.text}`, {
        address: named.text,
      });
    }
    if (allowList && !allowList.has(address)) {
      throw deadline.error('address_not_allowed', 'the storage is not among those allowed', {
        address: address.text,
      });
    }
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, address);
    return address;
  }

  /** Those that may be connected to, for a choice among several. */
  allowed(servers: readonly ServerAddress[], tracker: Address, deadline: Deadline): Address[] {
    return servers.flatMap((server) => {
      try {
        return [this.of(server, tracker, deadline)];
      } catch (error) {
        if (error instanceof FastdfsError && error.code === 'address_not_allowed') return [];
        throw error;
      }
    });
  }
}
