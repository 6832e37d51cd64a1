import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Wire } from './wire.js';

/**
 * A wire between machines, as a process: what passes it is delayed and limited, each way for itself,
 * all connections together. A connection begins with its target, see `wire.ts`. It spends its own CPU,
 * so measure that apart, too.
 */

const HEADER_BYTES = 6;
/** A connection is read on while so many of its pieces have not left. */
const PIECES = 2;
/** Timers have whole milliseconds; the rest of a wait is slept in steps. */
const TIMER_MS = 2;
const STEP_MS = 0.05;
const cell = new Int32Array(new SharedArrayBuffer(4));

/** One way of the wire. All pieces arrive in the order in which they set out. */
class Way {
  readonly #wire: Wire;
  readonly #underWay: { readonly atMs: number; readonly arrive: () => void }[] = [];
  #freeAtMs = 0;
  #isRunning = false;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  send(bytes: number, arrive: () => void): void {
    this.#freeAtMs = Math.max(this.#freeAtMs, performance.now());
    this.#freeAtMs += (bytes / this.#wire.bytesPerSecond) * 1000;
    this.#underWay.push({ atMs: this.#freeAtMs + this.#wire.delayMs, arrive });
    if (this.#isRunning) return;
    this.#isRunning = true;
    setImmediate(this.#run);
  }

  readonly #run = (): void => {
    let next = this.#underWay[0];
    for (; next && next.atMs <= performance.now(); next = this.#underWay[0]) {
      this.#underWay.shift();
      next.arrive();
    }
    this.#isRunning = next !== undefined;
    if (!next) return;
    const waitMs = next.atMs - performance.now();
    if (waitMs > TIMER_MS) return void setTimeout(this.#run, waitMs - TIMER_MS);
    if (waitMs > 0) Atomics.wait(cell, 0, 0, Math.min(waitMs, STEP_MS));
    setImmediate(this.#run);
  };
}

function relay(from: Socket, to: Socket, way: Way): void {
  let underWay = 0;
  from.on('data', (piece: Buffer) => {
    underWay += 1;
    if (underWay >= PIECES) from.pause();
    way.send(piece.length, () => {
      underWay -= 1;
      if (underWay < PIECES) from.resume();
      if (!to.destroyed) to.write(piece);
    });
  });
  from.on('end', () => way.send(0, () => to.end()));
  from.on('error', () => to.destroy());
  from.on('close', () => way.send(0, () => to.destroySoon()));
}

let server: Server | undefined;

/** Answers with the port of the wire's near end. */
export async function start(wire: Wire): Promise<number> {
  const [there, back] = [new Way(wire), new Way(wire)];
  const started = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    const onTarget = (): void => {
      const target: Buffer | null = near.read(HEADER_BYTES);
      if (!target) return;
      near.off('readable', onTarget);
      const host = target.subarray(0, 4).join('.');
      const port = target.readUInt16BE(4);
      const far = connect({ host, port, noDelay: true, allowHalfOpen: true });
      relay(near, far, there);
      relay(far, near, back);
      near.resume();
    };
    near.on('readable', onTarget);
    near.on('error', () => near.destroy());
  });
  server = started;
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
  return (started.address() as { readonly port: number }).port;
}

export const close = () => server?.close();
