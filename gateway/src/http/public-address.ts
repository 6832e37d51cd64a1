import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { FastifyInstance } from 'fastify';

/**
 * Where clients reach the gateway. Behind a proxy that removes a path, such as `/storage`, a client
 * needs that path in every URL of an answer. It is the operator's `publicUrl`, or else what a
 * trusted proxy says in `X-Forwarded-Prefix`.
 */

declare module 'fastify' {
  interface FastifyRequest {
    /** What precedes the gateway's own paths in URLs for this client; never ends with a slash. */
    readonly publicBase: string;
  }
}

export type Trusts = (address: string | undefined) => boolean;

const MAX_PREFIX_CHARS = 256;
/** Without escapes, empty or dotted segments: a browser must not read another host or path in it. */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*\/?$/;

export type PublicBase = (request: IncomingMessage) => string;

/** `publicUrl` is a value that `parsePublicUrl` returned. */
export function publicBaseBy(publicUrl: string, trusts: Trusts): PublicBase {
  return ({ headers, socket }) => {
    if (publicUrl !== '') return publicUrl;
    const prefix = headers['x-forwarded-prefix'];
    return prefix !== undefined && trusts(socket.remoteAddress) ? parsePrefix(`${prefix}`) : '';
  };
}

export function addPublicBase(app: FastifyInstance, baseOf: PublicBase): void {
  app.decorateRequest('publicBase', {
    getter() {
      return baseOf(this.raw);
    },
  });
}

/** What precedes `/KEY` in the URL of a file. */
export function filesBase({ publicBase }: { readonly publicBase: string }): string {
  return `${publicBase}/files`;
}

/** Each proxy of a chain appends the path that it removed. Empty for anything but paths. */
function parsePrefix(header: string): string {
  if (header.length > MAX_PREFIX_CHARS) return '';
  const paths = header.split(',').map((path) => path.trim());
  return paths.every((path) => PATH.test(path)) ? paths.map(withoutSlash).join('') : '';
}

/** A path or an HTTP URL, without its last slash; undefined for anything else. */
export function parsePublicUrl(text: string): string | undefined {
  if (PATH.test(text)) return withoutSlash(text);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || !PATH.test(url.pathname)) return undefined;
  const plain = url.origin + url.pathname;
  return url.href === plain ? withoutSlash(plain) : undefined;
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, '');
}

/** Throws for anything but addresses, networks (`10.0.0.0/8`) and `loopback`. */
export function trustedProxies(names: readonly string[]): Trusts {
  const list = new BlockList();
  const networks = names.flatMap((name) => (name === 'loopback' ? ['127.0.0.0/8', '::1'] : [name]));
  for (const network of networks) {
    const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(network) ?? [];
    const family = familyOf(address);
    if (!family) throw new TypeError(`"${network}" is no address`);
    list.addSubnet(address, Number(bits ?? (family === 'ipv4' ? 32 : 128)), family);
  }
  return (address = '') => {
    const family = familyOf(address);
    return family !== undefined && list.check(address, family);
  };
}

/** The address of a request's client. */
export type ClientAddress = (request: IncomingMessage) => string;

/** The nearest address that is no trusted proxy's (`X-Forwarded-For`). */
export function clientAddressBy(trusts: Trusts): ClientAddress {
  return ({ headers, socket }) => {
    let address = socket.remoteAddress ?? '';
    if (!trusts(address)) return address;
    for (const name of `${headers['x-forwarded-for'] ?? ''}`.split(',').reverse()) {
      const next = name.trim();
      if (next === '' || !trusts(address)) break;
      address = next;
    }
    return address;
  };
}

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const version = isIP(address);
  return version === 0 ? undefined : version === 4 ? 'ipv4' : 'ipv6';
}
