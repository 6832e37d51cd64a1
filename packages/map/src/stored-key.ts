/**
 * Keys as a map's tables have them: in hex for a statement, and, in a map whose keys are
 * spread, with the random half first, so that a database that keeps ranges of keys on
 * different nodes does not write all new ones to the same node.
 */
export class StoredKeys {
  readonly #isSpread: boolean;

  constructor(isSpread: boolean) {
    this.#isSpread = isSpread;
  }

  /** The 16 bytes as they are stored. */
  bytes(key: Uint8Array): Buffer {
    const bytes = Buffer.from(key);
    return this.#isSpread ? swapped(bytes) : bytes;
  }

  hex(key: Uint8Array): string {
    return this.bytes(key).toString('hex');
  }

  key(stored: Uint8Array): Buffer {
    return this.bytes(stored);
  }
}

/** The second half first; twice gives the same again. */
function swapped(key: Buffer): Buffer {
  return Buffer.concat([key.subarray(8), key.subarray(0, 8)]);
}
