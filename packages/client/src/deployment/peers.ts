import type { Gateway } from '@stevedore/map';
import { StoreError } from '@stevedore/staging';
import type { Deployment } from './deployment.js';
import { GatewayFiles } from './gateway-files.js';

/** The other gateways of the deployment, by the origins of their files and by their URLs. */

const PEER_LIMITS = {
  connections: 64,
  maxRequests: 256,
  connectTimeoutMs: 2_000,
  answerTimeoutMs: 10_000,
};

export class OtherServers {
  readonly #deployment: Deployment;
  readonly #gateways = new Map<string, GatewayFiles>();

  constructor(deployment: Deployment) {
    this.#deployment = deployment;
  }

  /** Undefined if no server of the deployment issues keys of this origin. */
  async of(origin: number, what: string): Promise<GatewayFiles | undefined> {
    const deployment = this.#deployment;
    let gateway: Gateway | undefined;
    let secret: string | undefined;
    try {
      gateway = await deployment.gatewayOf(origin);
      secret = deployment.secret;
    } catch (error) {
      throw mapUnavailable(error);
    }
    if (!gateway) return undefined;
    if (gateway.origin === deployment.origin) {
      // The files of that origin are this server's: it would have found this one.
      if (deployment.isAuthoritativeFor(origin)) return undefined;
      throw beingAdopted(origin, what);
    }
    if (gateway.url === null || secret === undefined) {
      throw new StoreError(
        'storage_unavailable',
        `${what} is not merged yet, and the server that has it (origin ${gateway.origin}) has no peerUrl`,
      );
    }
    return this.at(gateway.url);
  }

  /** Undefined until the map has answered once. */
  at(url: string): GatewayFiles | undefined {
    const deployment = this.#deployment;
    const known = this.#gateways.get(url);
    if (known || deployment.secret === undefined) return known;
    const files = new GatewayFiles(url, { ...PEER_LIMITS, peers: deployment });
    this.#gateways.set(url, files);
    return files;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#gateways.values()].map((each) => each.close()));
  }
}

function beingAdopted(origin: number, what: string): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the files of origin ${origin} are being adopted, and ${what} is not known yet`,
  );
}

export function mapUnavailable(cause: unknown): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the map does not answer: ${(cause as Error).message}`,
    { cause },
  );
}
