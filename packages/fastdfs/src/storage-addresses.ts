import type { ServerAddress } from '@stevedore/protocol';
import { type Address, makeAddress } from '@stevedore/wire';
import type { Deadline } from './deadline.js';

/** The address to connect to, for a storage that a tracker or the caller names. */

/** More than any cluster has; beyond it, the table is cleared. */
const MAX_KNOWN = 4096;

export class StorageAddresses {
  readonly #known = new Map<string, Address>();

  /** For a storage that the caller names. Throws `invalid_argument`. */
  named(server: ServerAddress, deadline: Deadline): Address {
    const address = this.#find(server);
    if (address) return address;
    const message = `the storage "${server.address}", port ${server.port}`;
    throw deadline.error('invalid_argument', message);
  }

  /** For a storage that a tracker names. Throws `bad_reply`. */
  of(server: ServerAddress, tracker: Address, deadline: Deadline): Address {
    const address = this.#find(server);
    if (address) return address;
    const message = `the tracker named the storage "${server.address}", port ${server.port}`;
    throw deadline.error('bad_reply', message, { address: tracker.text });
  }

  #find({ address: host, port }: ServerAddress): Address | undefined {
    const key = `${host} ${port}`;
    const known = this.#known.get(key);
    if (known) return known;
    const address = makeAddress(host, port);
    if (!address) return undefined;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, address);
    return address;
  }
}
