import { environmentName, nearestName } from '@stevedore/options';
import { storageOptions, trackerOptions } from '../node-options.js';
import { gatewayOptions } from '../options.js';

/**
 * The environment variables of all commands together: one environment may be that of a
 * gateway, of a storage and of `put` at once.
 */

const OTHERS = ['STEVEDORE_URL', 'STEVEDORE_API_KEY', 'STEVEDORE_STORAGE'];
/** Of this repository's tests and benchmarks. */
const RESERVED = /^STEVEDORE_(?:TEST|BENCH)_/;
/** What Kubernetes sets in every container for a service whose name begins with stevedore. */
const SERVICE_LINK = /_(?:SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(?:TCP|UDP|SCTP)\w*)$/;
const SERVICE_LINK_URL = /^(?:tcp|udp|sctp):\/\//;

/** A sentence for each variable with our prefix that no command reads: most likely mistyped. */
export function unknownVariables(environment: NodeJS.ProcessEnv): readonly string[] {
  const options = [gatewayOptions, storageOptions, trackerOptions].flatMap(Object.keys);
  const known = [...new Set([...options.map(environmentName), ...OTHERS])];
  const isUnknown = ([name, value = '']: [string, string | undefined]): boolean =>
    name.startsWith('STEVEDORE_') &&
    value !== '' &&
    !known.includes(name) &&
    !RESERVED.test(name) &&
    !SERVICE_LINK.test(name) &&
    !SERVICE_LINK_URL.test(value);
  return Object.entries(environment)
    .filter(isUnknown)
    .map(([name]) => {
      const near = nearestName(name, known);
      const hint =
        near === undefined ? 'unset it, or give it another prefix' : `did you mean ${near}?`;
      return `no command reads ${name}; ${hint}`;
    });
}
