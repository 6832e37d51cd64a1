import type { ForwardTarget } from '@stevedore/protocol';
import type { Environment } from '../environment.js';
import { randomName } from '../environment.js';
import type { ForwardingStatus } from '../migration/status.js';
import type { PeerAccess } from '../net/frame-client.js';
import type { Endpoint } from '../options.js';
import { ForwardReports } from './forward-reports.js';
import type { GuestHosts } from './guest-hosts.js';
import { LeaseConnections } from './lease-connections.js';
import { LeasedFiles } from './leased-files.js';
import { Leases, type LentFile } from './leases.js';
import { PassOn } from './pass-on.js';

/**
 * All that belongs to files that another storage answers for, in both directions: those
 * of this storage that others have, and those of others that this one has.
 */

export interface LendingOptions {
  readonly trackers: readonly Endpoint[];
  readonly localAddress?: string;
  readonly timeoutMs: number;
  readonly access: PeerAccess;
  readonly environment: Environment;
  readonly hosts: GuestHosts;
  readonly self: () => (ForwardTarget & { readonly port: number }) | undefined;
  readonly describe: (path: string) => LentFile | undefined;
  readonly earlier: () => readonly string[] | undefined;
}

const MAX_PASSED_ON = 64;
const RANDOM_LIMIT = 2 ** 32;

export interface Lending {
  /** Files of this storage that others answer for. */
  readonly leases: Leases;
  /** Files of others that this storage answers for. */
  readonly leased: LeasedFiles;
  readonly passOn: PassOn;
  status(): ForwardingStatus;
  close(): Promise<void>;
}

export function openLending(options: LendingOptions): Lending {
  const { environment, hosts, describe, earlier } = options;
  const nowMs = (): number => performance.now();
  const passOn = new PassOn({ ...options, maxAtOnce: MAX_PASSED_ON });
  const connections = new LeaseConnections({
    ...options,
    endpointOf: (server) => hosts.endpointOf(server),
  });
  const reports = new ForwardReports(options);
  const leases = new Leases({
    send: (to, request) => connections.send(to, request),
    describe,
    earlier,
    onForward: (name, target) => reports.set(name, target),
    nowMs,
    newSession: () => randomName(environment),
  });
  const leased = new LeasedFiles(nowMs, () => environment.random(RANDOM_LIMIT) / RANDOM_LIMIT);
  return {
    leases,
    leased,
    passOn,
    status: () => ({ given: leases.granted, taken: leased.count, passedOn: passOn.passed }),
    close: async () => {
      leases.close();
      connections.close();
      passOn.close();
      await reports.close();
    },
  };
}
