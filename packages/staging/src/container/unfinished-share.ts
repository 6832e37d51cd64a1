import assert from 'node:assert';
import { StoreError } from '../errors.js';

/**
 * Shares of the space and the number of unfinished uploads. A client's uploads can hold as many
 * bytes as are free for those of all others: alone half of the limit, beside another client that
 * holds its share a third. So no client can take the last byte from others. Bytes count from before
 * they are written.
 */

/** Maximum number of unfinished uploads, in addition to the limit on their bytes. */
const MAX_UNFINISHED = 10_000;

interface Share {
  uploads: number;
  bytes: number;
}

export class UnfinishedShares {
  readonly #limitBytes: number;
  readonly #owners = new Map<string, Share>();
  #uploads = 0;
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Throws `container_full`, `too_many_unfinished`, `client_room_exceeded` or `too_large`. */
  begin(owner: string | undefined, sizeBytes: number, maxOfOwner: number): void {
    if (this.#uploads >= MAX_UNFINISHED) {
      const message = `${MAX_UNFINISHED} uploads are unfinished; finish or remove some, or wait until they are too old`;
      throw new StoreError('container_full', message);
    }
    const { uploads = 0 } = this.#shareOf(owner) ?? {};
    if (owner !== undefined && uploads >= maxOfOwner) {
      const message = `${uploads} uploads of this client are unfinished; finish or remove some, or wait until they are too old`;
      throw new StoreError('too_many_unfinished', message);
    }
    const mostBytes = Math.floor(this.#limitBytes / (owner === undefined ? 1 : 2));
    if (sizeBytes > mostBytes) {
      const message = `a resumable upload can have at most ${mostBytes} bytes here, as unfinished ones share half of the container; send it in one request, or raise containerSize`;
      throw new StoreError('too_large', message);
    }
    this.#demand(owner, sizeBytes);
    this.change(owner, 1, 0);
  }

  /** Reserves bytes that will be written. Throws `container_full`, `client_room_exceeded`. */
  hold(owner: string | undefined, bytes: number): void {
    this.#demand(owner, bytes);
    this.change(owner, 0, bytes);
  }

  #demand(owner: string | undefined, bytes: number): void {
    const freeBytes = this.#limitBytes - this.#bytes - bytes;
    if (freeBytes < 0) {
      const message = `unfinished uploads hold ${this.#bytes} of ${this.#limitBytes} bytes, half of the container, and there is no room for ${bytes} more; finish or remove some, or wait until they are too old`;
      throw new StoreError('container_full', message);
    }
    const heldBytes = this.#shareOf(owner)?.bytes ?? 0;
    if (owner === undefined || heldBytes + bytes <= freeBytes) return;
    const message = `the unfinished uploads of this client hold ${heldBytes} bytes; with ${bytes} more they would leave less for all others; finish or remove some`;
    throw new StoreError('client_room_exceeded', message);
  }

  #shareOf(owner: string | undefined): Share | undefined {
    return owner === undefined ? undefined : this.#owners.get(owner);
  }

  /** Counts uploads and bytes that came or, if negative, went. */
  change(owner: string | undefined, uploads: number, bytes: number): void {
    this.#uploads += uploads;
    this.#bytes += bytes;
    if (owner === undefined) return;
    const share = this.#owners.get(owner) ?? { uploads: 0, bytes: 0 };
    share.uploads += uploads;
    share.bytes += bytes;
    assert(share.uploads >= 0 && share.bytes >= 0 && this.#bytes >= share.bytes);
    if (share.uploads === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, share);
  }
}
