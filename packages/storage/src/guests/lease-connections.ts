import { guestLease, type LeaseReply, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import { type Endpoint, endpointText } from '../options.js';
import type { HomeId } from './guest-hosts.js';
import type { SessionRequest } from './lease-line.js';

/**
 * Connections for leases, one to each storage. What is sent is sent once, in order: after
 * any failure the connection is closed, and its session is over.
 */

export interface LeaseConnectionsOptions {
  readonly timeoutMs: number;
  readonly access: PeerAccess;
  /** This storage; undefined until a tracker has told. */
  readonly self: () => HomeId | undefined;
  readonly endpointOf: (server: HomeId) => Endpoint | undefined;
}

export class LeaseConnections {
  readonly #options: LeaseConnectionsOptions;
  readonly #clients = new Map<string, FrameClient>();
  readonly #stop = new AbortController();

  constructor(options: LeaseConnectionsOptions) {
    this.#options = options;
  }

  async send(to: HomeId, request: SessionRequest): Promise<LeaseReply> {
    const { self, endpointOf, timeoutMs, access } = this.#options;
    const home = self();
    const endpoint = endpointOf(to);
    if (!home || !endpoint) throw new StatusError(Status.tryAgain, `${to.id} is not known`);
    const key = endpointText(endpoint);
    const client =
      this.#clients.get(key) ??
      (await FrameClient.open({ ...endpoint, timeoutMs, access }, this.#stop.signal));
    this.#clients.set(key, client);
    try {
      return await client.ask(guestLease, {
        homeGroup: home.group,
        homeId: home.id,
        ...request,
      });
    } catch (error) {
      this.#clients.delete(key);
      client.close();
      throw error;
    }
  }

  close(): void {
    this.#stop.abort();
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }
}
