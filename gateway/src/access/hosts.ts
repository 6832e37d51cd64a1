import { isIP } from 'node:net';
import { ProblemError } from '@stevedore/middleware/core';

/**
 * The host names that requests may be for. A page can have its own name lead to this
 * machine (DNS rebinding) and then reads answers as its own: a gateway that asks nobody who
 * he is, and trusts in being reached from this machine alone, answers to local names only.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;
  /** The last `Host` that was looked at: it is nearly always the same. */
  #last = '';
  #isLastKnown = false;

  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
  }

  /** `host` is the value of the header. */
  has(host: string): boolean {
    if (host === this.#last) return this.#isLastKnown;
    const name = nameOf(host);
    this.#isLastKnown = isLocal(name) || this.#names.has(name);
    this.#last = host;
    return this.#isLastKnown;
  }

  /** Throws `host_not_served`. */
  demand(host: string | undefined): void {
    if (host !== undefined && this.has(host)) return;
    throw new ProblemError(
      'host_not_served',
      'The gateway is open, and serves local names alone: name this host in hostNames, or ask for API keys.',
    );
  }
}

/** Addresses by which a machine reaches itself. */
export function isLoopback(address: string): boolean {
  return isLocal(nameOf(address));
}

/** Without port and brackets, in lower case. */
function nameOf(host: string): string {
  if (isIP(host) === 6) return host.toLowerCase();
  const match = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host);
  return (match?.[1] ?? match?.[2] ?? '').toLowerCase().replace(/\.$/, '');
}

function isLocal(name: string): boolean {
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return name === '::1' || (isIP(name) === 4 && name.startsWith('127.'));
}
