import { isOwnAddress } from '../options.js';
import type { Identity } from '../storage/identity.js';
import type { StorageSettings } from '../storage/options.js';
import type { Tier } from '../tiers/tier.js';
import { Exchange } from './exchange.js';
import { GuestGuard } from './guest-guard.js';
import { GuestHosts, type HomeId } from './guest-hosts.js';
import { Guests } from './guests.js';
import { MAX_LEASES } from './leases.js';
import { type Lending, openLending } from './lending.js';
import { lentFile } from './lent-file.js';
import { Neighbours } from './neighbours.js';

/** Other metadata servers, where there are trackers that could tell of them. */

export interface OpenedGuests {
  readonly neighbours: Neighbours;
  readonly guests: Guests;
  readonly lending: Lending;
}

/** What is there only once the storage has been put together is asked for each time. */
export interface GuestsPlaces {
  readonly settings: StorageSettings;
  /** This storage; undefined until a tracker has told. */
  readonly self: () => (HomeId & { readonly port: number }) | undefined;
  readonly tiers: () => readonly Tier[];
  readonly identity: () => Identity | undefined;
}

const TIMEOUT_MS = 5000;

/** Undefined without trackers. */
export function openGuests(places: GuestsPlaces): OpenedGuests | undefined {
  const { settings, self } = places;
  const { trackers, host, access, tiers, limits, environment } = settings;
  if (trackers.length === 0) return undefined;
  const timeoutMs = Math.min(limits.requestTimeoutMs, TIMEOUT_MS);
  const hosts = new GuestHosts({ timeoutMs, awayMs: tiers.guestAwayMs, access });
  const localAddress = isOwnAddress(host) ? { localAddress: host } : {};
  const exchange = new Exchange({ trackers, timeoutMs, access, ...localAddress });
  const lending = openLending({
    trackers,
    timeoutMs,
    access,
    environment,
    hosts,
    self,
    describe: (path) => {
      const identity = tiers.forwards ? places.identity() : undefined;
      return identity && lentFile(settings, places.tiers(), identity, path);
    },
    earlier: () => (self() && places.identity() ? guestsOf(places.tiers()) : undefined),
    ...localAddress,
  });
  return {
    neighbours: new Neighbours({ exchange, hosts, guard: new GuestGuard(), self }),
    guests: new Guests({ hosts, self, leases: lending.leases }),
    lending,
  };
}

/** Paths of files whose bytes others have. */
function guestsOf(tiers: readonly Tier[]): string[] {
  return tiers.flatMap((tier) =>
    tier.records.guests(MAX_LEASES).map(({ name }) => tier.pathOf(name)),
  );
}
