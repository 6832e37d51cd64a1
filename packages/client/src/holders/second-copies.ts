import type { Duplex } from 'node:stream';
import { MapError, originOf } from '@stevedore/map';
import {
  formatKey,
  type HeldCopies,
  isStoreError,
  type ReturnedFile,
  readAbout,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { mapUnavailable, notFound } from '../read/failures.js';
import { type FindOptions, type Found, type Holder, receiptOf } from './holder.js';
import type { PeerFiles } from './peer-files.js';

/**
 * Staged files of a gateway that is not reached, in the copy that another one, or this one, holds; and
 * those that an adopted one brings back.
 */
export class SecondCopies implements Holder {
  readonly #deployment: Deployment;
  readonly #peers: PeerFiles;
  readonly #held: HeldCopies | undefined;

  readonly #staging: Staging;

  /** `held`: the copies that are held here. */
  constructor(
    deployment: Deployment,
    peers: PeerFiles,
    staging: Staging,
    held: HeldCopies | undefined,
  ) {
    this.#staging = staging;
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

  /** A file of an adopted server that came back; false if it is known here, or deleted. */
  async takeBack(
    { about, ...file }: ReturnedFile,
    body: AsyncIterable<Uint8Array>,
  ): Promise<boolean> {
    const { key } = file;
    const [staging, deployment] = [this.#staging, this.#deployment];
    if (!deployment.isAuthoritativeFor(originOf(key)) || !staging.rebuild.isComplete) {
      const what = `the files of the server of ${formatKey(key)}`;
      const message = `${what} are not adopted here, or not all of them are known yet`;
      throw new StoreError('storage_unavailable', message);
    }
    if (staging.fileMap.find(key) || staging.fileMap.isDeleted(key)) return false;
    deployment.forget(key);
    const known = await deployment.find(key).catch((error: unknown) => {
      throw mapUnavailable(error);
    });
    if (known) return false;
    await staging.restore({ ...readAbout(about), ...file }, body);
    return true;
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
