/**
 * Bytes of uploads that have not ended, by client: one client must not take all the room
 * with uploads that it never finishes.
 */
export class ClientRoom {
  readonly #maxBytes: number;
  readonly #bytes = new Map<string, number>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** For one upload of the client. */
  of(client: string): UploadRoom {
    let heldBytes = 0;
    return {
      maxBytes: this.#maxBytes,
      take: (bytes) => {
        const sum = (this.#bytes.get(client) ?? 0) + bytes;
        if (sum > this.#maxBytes) return false;
        this.#bytes.set(client, sum);
        heldBytes += bytes;
        return true;
      },
      release: () => {
        const left = (this.#bytes.get(client) ?? 0) - heldBytes;
        heldBytes = 0;
        if (left > 0) this.#bytes.set(client, left);
        else this.#bytes.delete(client);
      },
    };
  }
}

export interface UploadRoom {
  readonly maxBytes: number;
  /** False if the client holds too much already. */
  take(bytes: number): boolean;
  release(): void;
}
