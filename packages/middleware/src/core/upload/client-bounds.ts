import type { IncomingMessage } from 'node:http';
import type { TransferLimits } from '../limits.js';

/**
 * What one client may take with uploads that it does not finish: time and room.
 */

/**
 * Ends bodies that arrive too slowly: in any window of time spent waiting for the client, its
 * rate must be kept. One timer looks at all of them; an upload that is over before it fires
 * costs two operations on a set. Time in which bytes wait for the store does not count.
 */

interface Watched {
  readonly request: IncomingMessage;
  readonly onSlow: () => void;
  /** Bytes of the connection at the checks of the last window in which the client was waited for. */
  readonly marks: number[];
}

export class ProgressGuard {
  readonly #limits: TransferLimits;
  readonly #uploads = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: TransferLimits) {
    this.#limits = limits;
  }

  /** Calls `onSlow` once if the body starves; returns what ends the watch. */
  watch(request: IncomingMessage, onSlow: () => void): () => void {
    const upload = { request, onSlow, marks: [request.socket.bytesRead] };
    this.#uploads.add(upload);
    this.#timer ??= setInterval(() => this.#check(), this.#limits.checkIntervalMs).unref();
    return () => {
      this.#uploads.delete(upload);
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#uploads.clear();
  }

  #check(): void {
    const { bodyWindowMs, minBodyBytesPerSecond, checkIntervalMs } = this.#limits;
    const checks = Math.max(1, Math.round(bodyWindowMs / checkIntervalMs));
    const owedBytes = ((checks * checkIntervalMs) / 1000) * minBodyBytesPerSecond;
    for (const upload of this.#uploads) {
      const { request, onSlow, marks } = upload;
      if (request.complete || request.readableLength > 0) continue;
      const bytes = request.socket.bytesRead;
      marks.push(bytes);
      if (marks.length <= checks) continue;
      if (bytes - marks.shift()! < owedBytes) {
        this.#uploads.delete(upload);
        onSlow();
      }
    }
  }
}

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
