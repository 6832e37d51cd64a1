import { networkInterfaces } from 'node:os';
import { addressText } from '@stevedore/protocol';
import { isLoopback } from './access/origins.js';

/**
 * The URL at which other gateways of a deployment reach this one, if no option says it: where it listens.
 * On all addresses, the first one of this machine that others can reach.
 */
export function ownUrlOf(
  { host, port }: { readonly host: string; readonly port: number },
  interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): string {
  if (port === 0 || isLoopback(host)) return '';
  const isAny = host === '0.0.0.0' || host === '::';
  const address = isAny ? outsideAddress(interfaces) : host;
  return address === undefined ? '' : `http://${addressText(address, port)}`;
}

function outsideAddress(interfaces: ReturnType<typeof networkInterfaces>): string | undefined {
  const all = Object.values(interfaces).flatMap((some) => some ?? []);
  const reachable = all.filter(({ internal, address }) => !internal && !/^fe80:/i.test(address));
  const first = reachable.find(({ family }) => family === 'IPv4') ?? reachable[0];
  return first?.address;
}
