import { originOf } from '@stevedore/map';
import { formatKey, isStoreError, StoreError } from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import type { Deployment } from '../deployment/deployment.js';
import { CLOCK_READ_MS } from '../deployment/map-cache.js';
import { mapUnavailable, notFound } from '../read/failures.js';
import { FileHandle, type Signal } from '../read/stored-file.js';
import type { FileInfo } from '../store/types.js';
import { type FoundFile, GatewayFiles } from './gateway-files.js';
import type { FindOptions, Found, Holder, HolderContext } from './holder.js';
import type { PeerPlace } from './place.js';
import { ReachOfOthers } from './reach.js';

/** Files that are staged at the other gateways of the deployment, where they are read in one hop. */

const PEER_LIMITS = {
  connections: 64,
  maxRequests: 256,
  connectTimeoutMs: 2_000,
  answerTimeoutMs: 10_000,
};
/** Facts of staged files are remembered as long as the map's answers. */
const STAGED = { max: 20_000, ttl: 60_000, ttlResolution: CLOCK_READ_MS };

export class PeerFiles implements Holder {
  readonly reach: ReachOfOthers;
  readonly #deployment: Deployment;
  readonly #context: HolderContext;
  readonly #gateways = new Map<string, GatewayFiles>();
  readonly #staged = new LRUCache<string, { info: FileInfo; gateway: GatewayFiles }>(STAGED);

  constructor(deployment: Deployment, context: HolderContext) {
    this.#deployment = deployment;
    this.#context = context;
    this.reach = new ReachOfOthers(deployment);
  }

  /** True if a recent answer says that it is staged at its gateway. */
  isKnown(key: Buffer): boolean {
    return this.#staged.has(formatKey(key));
  }

  /** Call it when the file was deleted. */
  forget(key: Buffer): void {
    this.#staged.delete(formatKey(key));
  }

  /** A file that a recent answer told of, and that is in memory here. */
  findNow(key: Buffer): Found | undefined {
    const name = formatKey(key);
    const staged = this.#staged.get(name);
    if (!staged || !this.#context.reader.cache.has(name)) return undefined;
    return this.file({ info: staged.info, bytes: undefined }, staged.gateway);
  }

  async find(key: Buffer, { signal, isStat }: FindOptions): Promise<Found | undefined> {
    const name = formatKey(key);
    const gateway = await this.of(originOf(key), name);
    if (!gateway) return undefined;
    try {
      const found = await (isStat ? gateway.facts(name, signal) : gateway.find(name, signal));
      if (this.#deployment.isKnownRemoved(key)) throw notFound(name);
      this.#staged.set(found.info.key, { info: found.info, gateway });
      return this.file(found, gateway);
    } catch (error) {
      if (isStoreError(error, 'storage_unavailable')) this.reach.suspect(gateway.url);
      throw error;
    }
  }

  async delete(key: Buffer): Promise<boolean> {
    const name = formatKey(key);
    const gateway = await this.of(originOf(key), name);
    if (!gateway) return false;
    await gateway.delete(name);
    this.#deployment.noteRemoved(key);
    return true;
  }

  /** Where its gateway says it is. */
  async placeOf(key: Buffer, signal: Signal): Promise<PeerPlace | undefined> {
    const name = formatKey(key);
    const gateway = await this.of(originOf(key), name);
    return gateway && placeOf(await gateway.find(name, signal), gateway);
  }

  /** A file that a gateway has told of; one without a gateway is held here. */
  file(found: FoundFile, gateway: GatewayFiles | undefined): Found {
    const { key, expiresAt } = found.info;
    if (expiresAt && expiresAt.getTime() <= this.#context.now()) throw notFound(key);
    return new FileHandle(found.info, placeOf(found, gateway), this.#context.reader);
  }

  /** True if the gateway of the key did not answer lately. */
  async isSuspect(key: Buffer): Promise<boolean> {
    const gateway = await this.of(originOf(key), '').catch(() => undefined);
    return gateway !== undefined && this.reach.isSuspect(gateway.url);
  }

  /** The gateway of this origin; undefined if no server of the deployment issues such keys. */
  async of(origin: number, what: string): Promise<GatewayFiles | undefined> {
    const deployment = this.#deployment;
    const gateway = await deployment.gatewayOf(origin).catch((error: unknown) => {
      throw mapUnavailable(error);
    });
    if (!gateway) return undefined;
    if (gateway.origin === deployment.origin) {
      // The files of that origin are this server's: it would have found this one.
      if (deployment.isAuthoritativeFor(origin)) return undefined;
      throw new StoreError(
        'storage_unavailable',
        `the files of origin ${origin} are being adopted, and ${what} is not known yet`,
      );
    }
    if (gateway.url !== null && deployment.secret !== undefined) return this.at(gateway.url);
    throw new StoreError(
      'storage_unavailable',
      `${what} is not merged yet, and the server that has it (origin ${gateway.origin}) has no peerUrl`,
    );
  }

  /** The gateway at this URL. Throws `storage_unavailable` until the map has answered once. */
  at(url: string): GatewayFiles {
    const known = this.#gateways.get(url);
    if (known) return known;
    if (this.#deployment.secret === undefined) {
      throw new StoreError('storage_unavailable', 'the map has not answered yet');
    }
    const files = new GatewayFiles(url, { ...PEER_LIMITS, peers: this.#deployment });
    this.#gateways.set(url, files);
    return files;
  }

  async close(): Promise<void> {
    await Promise.all([this.reach, ...this.#gateways.values()].map((each) => each.close()));
  }
}

function placeOf({ info, bytes }: FoundFile, gateway: GatewayFiles | undefined): PeerPlace {
  const { key, size, crc32 } = info;
  return { kind: 'peer', key, size, crc32, bytes, gateway };
}
