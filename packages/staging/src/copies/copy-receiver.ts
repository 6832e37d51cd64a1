import type { Duplex } from 'node:stream';
import {
  CopiesRefused,
  encodeFrameHeader,
  encodeState,
  type Frame,
  FrameReader,
  FrameType,
  Refusal,
} from './frames.js';
import type { HeldCopy } from './held-copy.js';

/**
 * The partner's side of the connection: writes frames to the held copy and acknowledges them. At
 * most a few writes are in flight; beyond that, it stops reading the connection. Any failure ends
 * the connection, and the next one begins with what is on disk.
 */

const WRITES_IN_FLIGHT = 4;

/** Resolves when the connection has ended. Never rejects. `own`: origin of this gateway. */
export async function receiveCopies(stream: Duplex, held: HeldCopy, own: number): Promise<void> {
  const reader = new FrameReader();
  const writes: Promise<void>[] = [];
  let frames = 0;
  const taken = (count: number): void => {
    if (stream.writable) stream.write(encodeFrameHeader(FrameType.taken, 0, count));
  };
  try {
    const state = encodeState(held.state());
    stream.write(encodeFrameHeader(FrameType.state, own, 0, [state]));
    stream.write(state);
    for await (const chunk of stream) {
      for (const frame of reader.read(chunk as Buffer)) {
        frames += 1;
        const count = frames;
        const { done } = await take(held, frame);
        const answered = done.then(() => taken(count));
        answered.catch((error) => refuseCopies(stream, error));
        writes.push(answered);
        if (writes.length >= WRITES_IN_FLIGHT) await writes.shift();
      }
    }
    await Promise.all(writes);
    stream.end();
  } catch (error) {
    refuseCopies(stream, error as Error);
  } finally {
    await Promise.allSettled(writes);
  }
}

/** Sends the reason and ends the connection. */
export function refuseCopies(stream: Duplex, error: Error): void {
  if (!stream.writable) return;
  const payload = [Buffer.from(error.message.slice(0, 1024))];
  const position = error instanceof CopiesRefused ? error.refusal : Refusal.forNow;
  stream.write(encodeFrameHeader(FrameType.refused, 0, position, payload));
  stream.end(payload[0]);
}

/** `done` resolves once this frame and all before it are durable. */
async function take(
  held: HeldCopy,
  { type, segment, position, payload, bytes }: Frame,
): Promise<{ readonly done: Promise<void> }> {
  if (type === FrameType.bytes) return held.write(segment, position, payload, bytes);
  if (type === FrameType.cut) await held.cut(segment, position);
  else if (type === FrameType.release) await held.release(segment);
  else throw new Error(`a frame of type ${type} is none for a partner`);
  return { done: Promise.resolve() };
}
