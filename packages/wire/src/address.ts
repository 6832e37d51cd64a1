import { isIP, isIPv4, isIPv6 } from 'node:net';
import { crc32 } from 'node:zlib';
import { OptionError } from '@stevedore/options';
import { addressText, MAX_PORT } from '@stevedore/protocol';

/** Server addresses: the text that people write, and the canonical form that names a pool. */

export const DEFAULT_TRACKER_PORT = 22_122;

export interface Address {
  readonly host: string;
  readonly port: number;
  /** `host:port`, an IPv6 host in brackets. Equal addresses have equal text. */
  readonly text: string;
}

const BRACKETED = /^\[([^\]]+)\](?::(\d{1,5}))?$/;
const PLAIN = /^([A-Za-z0-9._-]+)(?::(\d{1,5}))?$/;

/** The address of a host as a tracker names it; undefined if host or port is invalid. */
export function makeAddress(host: string, port: number): Address | undefined {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  const ipv6 = isIPv6(bare);
  if (!ipv6 && !/^[A-Za-z0-9._-]+$/.test(bare)) return undefined;
  if (!Number.isInteger(port) || port < 1 || port > MAX_PORT) return undefined;
  return { host: bare, port, text: addressText(bare, port) };
}

/**
 * Parses `host`, `host:port`, `[::1]:port`, `[::1]` or a bare IPv6 address; undefined if the text
 * is none of them.
 */
export function parseAddress(text: string, defaultPort: number): Address | undefined {
  if (isIPv6(text)) return makeAddress(text, defaultPort);
  const bracketed = BRACKETED.exec(text);
  const [, host, port = defaultPort] = bracketed ?? PLAIN.exec(text) ?? [];
  if (host === undefined || (bracketed && !isIPv6(host))) return undefined;
  return makeAddress(host, Number(port));
}

/** As `parseAddress`; throws OptionError. */
export function checkAddress(text: string, defaultPort: number): Address {
  const address = parseAddress(text, defaultPort);
  if (address) return address;
  throw new OptionError(`"${text}" is not an address of the form host:port or [ipv6]:port`);
}

/** True for an address of one machine, to which peers can connect. */
export function isOwnAddress(host: string): boolean {
  return isIPv4(host) ? !host.startsWith('0.') : isIP(host) === 6 && host !== '::';
}

/** Maps `::ffff:10.0.0.1`, as dual-stack sockets report it, to 10.0.0.1. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}

/**
 * The id of a server without a configured one: its IPv4 address, or a short code for IPv6, which
 * would be too long.
 */
export function idOfAddress(address: string): string {
  if (!isIPv6(address)) return address;
  const code = Buffer.alloc(8);
  code.writeUInt32LE(~crc32(address) >>> 0, 0);
  return `${code.toString('base64url')}.`;
}
