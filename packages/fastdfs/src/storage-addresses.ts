import { BlockList, isIP } from 'node:net';
import type { ServerAddress } from '@stevedore/protocol';
import { type Address, addressKey, hasPort, makeAddress, parseAddress } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { FastdfsError } from './errors.js';

/** Converts an address from a tracker to the address to connect to. */

interface AddressRules {
  readonly mapAddress: MapAddress | undefined;
  readonly allowList: AllowList | undefined;
}

/** More than any cluster has; beyond it, the table is cleared. */
const MAX_KNOWN = 4096;

export class StorageAddresses {
  readonly #rules: AddressRules;
  readonly #known = new Map<string, Address>();

  constructor(rules: AddressRules) {
    this.#rules = rules;
  }

  /** For a storage that the caller names. Throws `invalid_argument`, `address_not_allowed`. */
  named(server: ServerAddress, deadline: Deadline): Address {
    if (!makeAddress(server.address, server.port)) {
      const message = `the storage "${server.address}", port ${server.port}`;
      throw deadline.error('invalid_argument', message);
    }
    return this.#find(server, '', deadline);
  }

  /**
   * Throws `bad_reply` for an invalid address, `address_not_allowed` for one that is not listed.
   */
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
    const { mapAddress, allowList } = this.#rules;
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

  /** Those that the client may connect to. */
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

/**
 * Other addresses of storages, for clients outside the cluster's network: behind NAT, or beside
 * containers.
 *
 * From `ip:port` or `ip` to `host:port` or `host`, which keeps the port; the longer key wins. A
 * function gets `ip:port` and returns undefined for an address that stays as it is.
 */
export type AddressMap =
  | Readonly<Record<string, string>>
  | ((address: string) => string | undefined);

/** The address to connect to; undefined when the map answered something impossible. */
export type MapAddress = (address: Address) => Address | undefined;

export function checkAddressMap(
  map: AddressMap,
  invalid: (message: string) => FastdfsError,
): MapAddress {
  if (typeof map === 'function') return (address) => translated(address, map(address.text));
  if (typeof map !== 'object' || map === null) {
    throw invalid('addressMap must be a table of addresses or a function');
  }
  const table = new Map<string, string>();
  for (const [from, to] of Object.entries(map)) {
    const key = addressKey(from);
    if (key === undefined) throw invalid(`addressMap: "${from}" is neither host nor host:port`);
    if (typeof to !== 'string' || !parseAddress(to, 1)) {
      throw invalid(`addressMap: "${to}" is neither host nor host:port`);
    }
    table.set(key, to);
  }
  return (address) => translated(address, table.get(address.text) ?? table.get(address.host));
}

function translated(address: Address, to: string | undefined): Address | undefined {
  if (to === undefined) return address;
  if (typeof to !== 'string') return undefined;
  return parseAddress(to, hasPort(to) ? 1 : address.port);
}

/**
 * Storages that a client may connect to. A tracker's reply decides where a client connects next;
 * this keeps a wrong or forged reply from leading it to other services. A name is compared as text
 * and never resolved, so only a listed name passes.
 */

const NETWORK = /^(.+)\/(\d{1,3})$/;

export class AllowList {
  readonly #exact = new Set<string>();
  readonly #networks = new BlockList();

  constructor(entries: readonly string[], invalid: (message: string) => FastdfsError) {
    if (!Array.isArray(entries)) throw invalid('allowedStorages must be a list');
    for (const entry of entries) {
      if (!this.#add(entry)) {
        throw invalid(`allowedStorages: "${entry}" is no address, network or name`);
      }
    }
  }

  has(address: Address): boolean {
    if (this.#exact.has(address.text) || this.#exact.has(address.host)) return true;
    const family = familyOf(address.host);
    return family !== undefined && this.#networks.check(address.host, family);
  }

  #add(entry: unknown): boolean {
    if (typeof entry !== 'string') return false;
    const network = NETWORK.exec(entry);
    if (network) return this.#addNetwork(network[1]!, Number(network[2]));
    const key = addressKey(entry);
    if (key === undefined) return false;
    // An IPv6 address has several forms, which would not match as text.
    const family = familyOf(key);
    if (family === undefined) this.#exact.add(key);
    else this.#networks.addAddress(key, family);
    return true;
  }

  #addNetwork(host: string, bits: number): boolean {
    const family = familyOf(host);
    if (family === undefined || bits > (family === 'ipv4' ? 32 : 128)) return false;
    this.#networks.addSubnet(host, bits, family);
    return true;
  }
}

function familyOf(host: string): 'ipv4' | 'ipv6' | undefined {
  const version = isIP(host);
  if (version === 0 || host.includes('%')) return undefined;
  return version === 4 ? 'ipv4' : 'ipv6';
}
