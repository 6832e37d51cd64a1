import type { UploadQuota } from '@stevedore/middleware/core';
import type { Ledger, Limited } from './ledger.js';

/** Reserved at a time for a body of unknown length. */
const STEP_BYTES = 256 * 1024;

/**
 * One upload's part in the ledger: it reserves bytes before they are written, in one piece if the
 * length is known, and settles at the end.
 */
export class UploadAccount implements UploadQuota {
  readonly #ledger: Ledger;
  readonly #key: Limited;
  #takenBytes = 0;
  #reservedBytes = 0;
  #isSettled = false;

  constructor(ledger: Ledger, key: Limited) {
    this.#ledger = ledger;
    this.#key = key;
  }

  take(bytes: number, expected?: number): void | Promise<void> {
    this.#takenBytes += bytes;
    const lack = this.#takenBytes - this.#reservedBytes;
    if (lack <= 0) return;
    const more = expected === undefined ? STEP_BYTES : expected - this.#reservedBytes;
    const reserving = this.#ledger.reserve(this.#key, lack, Math.max(lack, more));
    if (typeof reserving === 'number') this.#reservedBytes += reserving;
    else return reserving.then((reserved) => this.#add(reserved));
  }

  /** Refuses an upload of which at least so many bytes will be stored; reserves nothing. */
  async demand(bytes: number): Promise<void> {
    const reserved = await this.#ledger.reserve(this.#key, bytes, bytes);
    this.#ledger.settle(this.#key.id, reserved, 0);
  }

  /** Call it once, when nothing more is written. */
  settle(storedBytes: number): void {
    this.#isSettled = true;
    if (this.#reservedBytes === 0 && storedBytes === 0) return;
    this.#ledger.settle(this.#key.id, this.#reservedBytes, storedBytes);
  }

  #add(reservedBytes: number): void {
    // The client may have gone while the ledger was asked.
    if (this.#isSettled) this.#ledger.settle(this.#key.id, reservedBytes, 0);
    else this.#reservedBytes += reservedBytes;
  }
}
