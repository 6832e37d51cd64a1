import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { deferred } from '@stevedore/async';
import {
  CopiesRefused,
  decodeState,
  encodeFrameHeader,
  type Frame,
  FrameReader,
  FrameType,
  payloadsOf,
} from './frames.js';

/**
 * A gateway's side of the connection to its partner. Frames are processed in order. If one is not
 * acknowledged within the deadline, the connection ends. Every wait settles when it ends.
 */

export interface PartnerState {
  /** Of the partner. */
  readonly origin: number;
  /** Bytes that it has of each segment. */
  readonly segments: ReadonlyMap<number, number>;
}

interface Waiting {
  /** Its last frame, counted from the start of the connection. */
  readonly frame: number;
  readonly since: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class CopyConnection {
  readonly #stream: Duplex;
  readonly #deadlineMs: number;
  readonly #waiting: Waiting[] = [];
  #sentFrames = 0;
  #failure: Error | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #ended = deferred<Error>();
  readonly #held = deferred<PartnerState>();
  /** Resolves with the reason when the connection ends. */
  readonly ended = this.#ended.promise;
  /** What the partner has at the start of the connection. */
  readonly held = this.#held.promise;

  constructor(stream: Duplex, deadlineMs: number) {
    this.#stream = stream;
    this.#deadlineMs = deadlineMs;
    const { reject } = this.#held;
    this.#waiting.push({ frame: 0, since: performance.now(), resolve: () => {}, reject });
    this.held.catch(() => undefined);
    this.#timer = setInterval(() => this.#checkTime(), deadlineMs / 4);
    this.#timer.unref();
    stream.on('error', (error) => this.close(error));
    void this.#read();
  }

  /** Resolves once the partner has made all of it durable. */
  send(
    type: number,
    segment: number,
    position: number,
    pieces: readonly Uint8Array[] = [],
  ): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const stream = this.#stream;
    stream.cork();
    const payloads = pieces.length === 0 ? [[]] : payloadsOf(pieces);
    let at = position;
    for (const payload of payloads) {
      stream.write(encodeFrameHeader(type, segment, at, payload));
      for (const piece of payload) {
        stream.write(piece);
        at += piece.length;
      }
    }
    stream.uncork();
    this.#sentFrames += payloads.length;
    const frame = this.#sentFrames;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ frame, since: performance.now(), resolve, reject });
    });
  }

  close(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    clearInterval(this.#timer);
    this.#stream.destroy();
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    this.#ended.resolve(error);
  }

  /** Ends the connection after the bytes sent so far have arrived, or at the deadline. */
  async finish(): Promise<void> {
    if (this.#failure) return;
    const nothing = (): void => {};
    const since = performance.now();
    this.#waiting.push({ frame: Infinity, since, resolve: nothing, reject: nothing });
    this.#stream.end();
    await Promise.race([once(this.#stream, 'close').catch(() => undefined), this.ended]);
    this.close(new Error('the connection was closed'));
  }

  async #read(): Promise<void> {
    const reader = new FrameReader();
    try {
      for await (const chunk of this.#stream) {
        for (const frame of reader.read(chunk as Buffer)) this.#take(frame);
      }
      this.close(new Error('the partner has closed the connection'));
    } catch (error) {
      this.close(error as Error);
    }
  }

  #take(frame: Frame): void {
    if (frame.type === FrameType.refused) {
      const reason = Buffer.concat(frame.payload).toString();
      throw new CopiesRefused(reason, frame.position);
    }
    if (frame.type === FrameType.state) {
      this.#held.resolve({ origin: frame.segment, segments: decodeState(frame) });
    }
    const done = this.#waiting.findIndex((each) => each.frame > frame.position);
    for (const { resolve } of this.#waiting.splice(0, done < 0 ? Infinity : done)) resolve();
  }

  /** The first wait is the longest. */
  #checkTime(): void {
    const [longest] = this.#waiting;
    if (longest && performance.now() - longest.since > this.#deadlineMs) {
      this.close(new Error(`no answer within ${this.#deadlineMs} ms`));
    }
  }
}
