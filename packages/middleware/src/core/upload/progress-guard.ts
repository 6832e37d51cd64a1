import type { IncomingMessage } from 'node:http';
import type { BodyLimits } from '../limits.js';

/**
 * Ends bodies that arrive too slowly. One timer looks at all of them; an upload
 * that is over before it fires costs two operations on a set. Only the client
 * is blamed: time in which bytes wait for the store does not count.
 */

interface Watched {
  readonly request: IncomingMessage;
  readonly onSlow: () => void;
  readonly firstByte: number;
  /** Milliseconds spent waiting for the client. */
  waitedMs: number;
}

export class ProgressGuard {
  readonly #limits: BodyLimits;
  readonly #uploads = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Calls `onSlow` once if the body starves; returns what ends the watch. */
  watch(request: IncomingMessage, onSlow: () => void): () => void {
    const upload = { request, onSlow, firstByte: request.socket.bytesRead, waitedMs: 0 };
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
    const { bodyGraceMs, minBodyBytesPerSecond, checkIntervalMs } = this.#limits;
    for (const upload of this.#uploads) {
      const { request, onSlow, firstByte } = upload;
      if (request.complete || request.readableLength > 0) continue;
      upload.waitedMs += checkIntervalMs;
      const arrivedBytes = request.socket.bytesRead - firstByte;
      const owedBytes = ((upload.waitedMs - bodyGraceMs) / 1000) * minBodyBytesPerSecond;
      if (upload.waitedMs > bodyGraceMs && arrivedBytes < owedBytes) {
        this.#uploads.delete(upload);
        onSlow();
      }
    }
  }
}
