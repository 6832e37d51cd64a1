import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { Trusts } from './addresses.js';

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
