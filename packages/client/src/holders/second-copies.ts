import type { Duplex } from 'node:stream';
import { MapError, originOf } from '@stevedore/map';
import { formatKey, type HeldCopies, isStoreError } from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { mapUnavailable, notFound } from '../read/failures.js';
import { type FindOptions, type Found, type Holder, receiptOf } from './holder.js';
import type { PeerFiles } from './peer-files.js';

/** Staged files of a gateway that is not reached, in the copy that another one, or this one, holds. */
export class SecondCopies implements Holder {
  readonly #deployment: Deployment;
  readonly #peers: PeerFiles;
  readonly #held: HeldCopies | undefined;

  /** `held`: the copies that are held here. */
  constructor(deployment: Deployment, peers: PeerFiles, held: HeldCopies | undefined) {
    this.#deployment = deployment;
    this.#peers = peers;
    this.#held = held;
  }

  async find(key: Buffer, { signal }: FindOptions): Promise<Found | undefined> {
    const copies = this.#deployment.copiesOf(originOf(key));
    if (!copies) return undefined;
    const { of, at } = copies;
    try {
      if (at.origin === this.#deployment.origin) return await this.findHere(of, key);
      if (at.url === null) return undefined;
      const gateway = this.#peers.at(at.url);
      return this.#peers.file(await gateway.findCopy(of, formatKey(key), signal), gateway);
    } catch (error) {
      if (isStoreError(error, 'not_found')) throw error;
      return undefined;
    }
  }

  /** In the copy that is held here of that origin's container. Rejects with `not_found` if deleted. */
  async findHere(origin: number, key: Buffer): Promise<Found | undefined> {
    const found = await this.#held?.find(origin, key);
    if (!found) return undefined;
    if (found === 'deleted') throw notFound(formatKey(key));
    return this.#peers.file(
      { info: receiptOf(found.row, 'staged'), bytes: found.bytes },
      undefined,
    );
  }

  /** From the gateway of that origin, over this connection. */
  async receive(origin: number, stream: Duplex): Promise<void> {
    await this.#held?.receive(origin, stream, this.#deployment.isAdopted(origin));
  }

  /** Ends all connections; their gateways choose another partner. */
  leave(): void {
    this.#held?.leave();
  }

  async delete(key: Buffer): Promise<boolean> {
    if (!(await this.find(key, {}))) return false;
    await removeFromMap(key, this.#deployment);
    return true;
  }
}

/** A server that is down finds the deletion in the map once it is back. */
export async function removeFromMap(key: Buffer, deployment: Deployment): Promise<void> {
  if (deployment.isKnownRemoved(key)) return;
  await deployment.remove(key).catch((cause: unknown) => {
    throw cause instanceof MapError ? mapUnavailable(cause) : cause;
  });
}
