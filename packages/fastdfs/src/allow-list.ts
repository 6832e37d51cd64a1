import { BlockList, isIP } from 'node:net';
import { type Address, addressKey } from '@stevedore/wire';
import type { FastdfsError } from './errors.js';

/**
 * Storages that a client may connect to. A tracker's reply decides where a client
 * goes next; this keeps a wrong or forged one from leading it to other services. A
 * name is compared as text and never looked up, so only a name listed passes.
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
    // One form of several that an IPv6 address has would not match as text.
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
