import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net';
import { parseAddress, plainAddress } from '@stevedore/wire';

/** Addresses of clients and proxies, as texts that are compared: each has one form. */

/** Any port: it is ignored. */
const ANY_PORT = 1;

/**
 * The address of a client as a proxy writes it, perhaps with a port: `203.0.113.9:4711`,
 * `[2001:db8::1]:5`. Undefined if there is none.
 */
export function parseClient(text: string): string | undefined {
  const host = plainAddress(parseAddress(text.trim(), ANY_PORT)?.host ?? '');
  if (isIPv6(host)) return new SocketAddress({ address: host, family: 'ipv6' }).address;
  return isIP(host) === 0 ? undefined : host;
}

/** `X-Forwarded-For` with one form of each address. What has none is one client. */
export function forwardedFor(header: string): string {
  return header
    .split(',')
    .map((each) => parseClient(each) ?? 'unknown')
    .join(', ');
}

export type Trusts = (address: string | undefined) => boolean;

/** Throws for anything but addresses, networks (`10.0.0.0/8`) and `loopback`. */
export function trustedProxies(names: readonly string[]): Trusts {
  const list = new BlockList();
  const networks = names.flatMap((name) => (name === 'loopback' ? ['127.0.0.0/8', '::1'] : [name]));
  for (const network of networks) {
    const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(network) ?? [];
    if (isIP(address) === 0) throw new TypeError(`"${network}" is no address`);
    const family = familyOf(address);
    list.addSubnet(address, Number(bits ?? (family === 'ipv4' ? 32 : 128)), family);
  }
  return (text = '') => {
    const address = parseClient(text);
    return address !== undefined && list.check(address, familyOf(address));
  };
}

/** The address of a request's client. */
export type ClientAddress = (request: IncomingMessage) => string;

/** The nearest address that is no trusted proxy's. Without `trusts`, no proxy is trusted. */
export function clientAddressBy(trusts: Trusts | undefined): ClientAddress {
  return ({ headers, socket }) => {
    let address = socket.remoteAddress ?? '';
    const named = headers['x-forwarded-for'];
    if (!trusts || named === undefined) return address;
    for (const next of forwardedFor(`${named}`).split(', ').reverse()) {
      if (!trusts(address)) break;
      address = next;
    }
    return address;
  };
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
