import { isIP, isIPv6, SocketAddress } from 'node:net';
import { domainToASCII } from 'node:url';

/** Hosts and origins of requests and options, as texts that are compared: each has one form. */

export interface Host {
  /** In lower case, without brackets and the dot of the root. */
  readonly name: string;
  /** Empty if the text has none. */
  readonly port: string;
}

const HOST = /^(?:\[([^\]]+)\]|([^\s:/?#@[\]\\*]+))(?::(\d*))?$/;

/** `files.example.com`, `10.0.0.5:8080`, `[::1]:8080`, `::1`; undefined for anything else. */
export function parseHost(text: string): Host | undefined {
  if (isIPv6(text)) return { name: plainIPv6(text), port: '' };
  const [, bracketed, named = '', port = ''] = HOST.exec(text) ?? [];
  if (bracketed !== undefined) {
    return isIPv6(bracketed) ? { name: plainIPv6(bracketed), port } : undefined;
  }
  const name = isIP(named) === 4 ? named : domainToASCII(named).toLowerCase().replace(/\.$/, '');
  return name === '' ? undefined : { name, port };
}

function plainIPv6(address: string): string {
  return new SocketAddress({ address, family: 'ipv6' }).address;
}

export interface Origin extends Host {
  readonly scheme: string;
  /** As browsers send it. */
  readonly text: string;
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: '80', https: '443' };

/**
 * An origin of a web page, or of an app or extension: `https://app.example`,
 * `capacitor://localhost`. Undefined for anything else, such as `null`.
 */
export function parseOrigin(text: string): Origin | undefined {
  const [, given = '', rest = ''] = /^([a-z][a-z\d+.-]*):\/\/([^/]+)\/?$/i.exec(text) ?? [];
  const scheme = given.toLowerCase();
  const host = parseHost(rest);
  if (!host) return undefined;
  const { name } = host;
  const port = host.port === DEFAULT_PORTS[scheme] ? '' : host.port;
  const shown = isIPv6(name) ? `[${name}]` : name;
  return { scheme, name, port, text: `${scheme}://${shown}${port === '' ? '' : `:${port}`}` };
}

/** True if the page is of the server that was asked by this `Host`. */
export function isOwnPage({ scheme, name, port }: Origin, host: string | undefined): boolean {
  const usual = DEFAULT_PORTS[scheme];
  const asked = parseHost(host ?? '');
  // No page of an app is the server's own.
  if (usual === undefined || asked === undefined) return false;
  return asked.name === name && (asked.port || usual) === (port || usual);
}

/** The origins of `corsOrigins`. */
export class Origins {
  readonly #texts: ReadonlySet<string>;
  readonly isAll: boolean;

  constructor(texts: readonly string[]) {
    this.#texts = new Set(texts.map((text) => parseOrigin(text)?.text ?? text));
    this.isAll = this.#texts.has('*');
  }

  /** `origin` is the value of the header. */
  has(origin: string | undefined): boolean {
    if (this.isAll) return true;
    const parsed = origin === undefined ? undefined : parseOrigin(origin);
    return parsed !== undefined && this.#texts.has(parsed.text);
  }
}
