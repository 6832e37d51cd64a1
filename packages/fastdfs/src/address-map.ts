import { type Address, addressKey, hasPort, parseAddress } from '@stevedore/wire';
import type { FastdfsError } from './errors.js';

/**
 * Translates the addresses that trackers give for storages, for clients outside of
 * the network of the cluster: behind NAT, or beside containers.
 */

/**
 * From `ip:port` or `ip` to `host:port` or `host`, which keeps the port; the longer
 * key wins. A function gets `ip:port` and answers undefined for an address that
 * stays as it is.
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
