import { subscribe } from 'node:diagnostics_channel';
import { syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import promises from 'node:timers/promises';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile } from '@stevedore/disk';

/**
 * A clock that jumps to the next timer whenever nothing is left to do, so that a week passes in the
 * time that its work takes. It takes the place of the process's timers; work is what runs, what
 * waits for its turn of the event loop, and what a disk that was watched has not answered.
 */

interface Timer {
  readonly at: number;
  readonly everyMs: number | undefined;
  readonly run: () => void;
}

const realImmediate = setImmediate;
/** Turns of the event loop without any work: nothing is left to do. */
const QUIET_TURNS = 2;
/** What Node has asked the system for, and is not answered yet; of writes see `Wires`. */
const UNANSWERED = /^FS|Req|Connect|Shutdown/;
const ROOM_BYTES = 2 ** 40;

/** The sockets of this process, whose other ends are in it as well. */
class Wires {
  readonly #open = new Set<Socket>();
  readonly #ends = new Map<string, Socket>();

  constructor() {
    const add = (socket: Socket): void => {
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
    };
    subscribe('net.server.socket', (message) => {
      const { socket } = message as { readonly socket: Socket };
      this.#ends.set(`${socket.remotePort} ${socket.localPort}`, socket);
      add(socket);
    });
    const wires = this;
    const { connect } = Socket.prototype;
    Object.assign(Socket.prototype, {
      connect(this: Socket, ...given: Parameters<Socket['connect']>) {
        this.once('connect', () => {
          wires.#ends.set(`${this.remotePort} ${this.localPort}`, this);
          add(this);
        });
        return connect.apply(this, given);
      },
    });
  }

  /**
   * True while bytes are on their way to somebody who reads. A reader who has paused waits for
   * something else, often for time to pass: its bytes may stay where they are.
   */
  areBusy(): boolean {
    for (const from of this.#open) {
      const to = this.#ends.get(`${from.localPort} ${from.remotePort}`);
      const isRead = !to || (!to.destroyed && isReading(to));
      if (isRead && from.bytesWritten > (to?.bytesRead ?? 0)) return true;
    }
    return false;
  }
}

/** Not `isPaused`: a socket also stops by itself when what it has read is not taken. */
function isReading(socket: Socket): boolean {
  return (
    (socket as { readonly _handle?: { readonly reading?: boolean } })._handle?.reading === true
  );
}

export class VirtualTime {
  #now: number;
  #underWay = 0;
  #ids = 0;
  readonly #timers = new Map<number, Timer>();
  #isBusy = (): boolean => false;

  /** Unix milliseconds. */
  constructor(now: number) {
    this.#now = now;
  }

  readonly now = (): number => this.#now;

  /**
   * Must come before the modules are loaded that are to live in this time. What is repeated more
   * often than `leastIntervalMs` is repeated that often.
   */
  install(leastIntervalMs: number): void {
    const add = (run: () => void, ms: number | undefined, isRepeated: boolean) => {
      const everyMs = Math.max(isRepeated ? leastIntervalMs : 1, Math.ceil(ms ?? 0));
      const id = ++this.#ids;
      const at = this.#now + everyMs;
      this.#timers.set(id, { at, everyMs: isRepeated ? everyMs : undefined, run });
      const handle = { id, ref: () => handle, unref: () => handle, hasRef: () => false };
      return handle;
    };
    const remove = (handle: unknown): void => {
      if (handle instanceof Object && 'id' in handle) this.#timers.delete(handle.id as number);
    };
    const timers = {
      setTimeout: (run: () => void, ms?: number) => add(run, ms, false),
      setInterval: (run: () => void, ms?: number) => add(run, ms, true),
      clearTimeout: remove,
      clearInterval: remove,
      setImmediate: (run: () => void) => realImmediate(this.#counted(run)),
    };
    Object.assign(globalThis, timers);
    Object.assign(promises, {
      setTimeout: (ms?: number, value?: unknown, { signal }: { signal?: AbortSignal } = {}) =>
        new Promise((resolve, reject) => {
          const stop = (): void => {
            remove(handle);
            reject(signal?.reason);
          };
          const handle = add(
            () => {
              signal?.removeEventListener('abort', stop);
              resolve(value);
            },
            ms,
            false,
          );
          if (signal?.aborted) stop();
          else signal?.addEventListener('abort', stop, { once: true });
        }),
      setImmediate: (value?: unknown) =>
        new Promise((resolve) => realImmediate(this.#counted(() => resolve(value)))),
    });
    syncBuiltinESMExports();
  }

  /**
   * Of a whole system in this process, sockets and all: every clock of Node tells this time, work
   * takes none of it, and all that the system has not answered is waited for.
   */
  installClocks(): void {
    const start = this.#now;
    const idle = { idle: 1, active: 0, utilization: 0 };
    performance.now = () => this.#now - start;
    performance.eventLoopUtilization = () => idle;
    Date.now = this.now;
    const wires = new Wires();
    this.#isBusy = () =>
      wires.areBusy() || process.getActiveResourcesInfo().some((each) => UNANSWERED.test(each));
  }

  /** Passes until the work is done. */
  async passDuring<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false;
    const end = (): void => {
      isDone = true;
    };
    work.then(end, end);
    for (await this.#quiet(); !isDone; ) {
      if (!(await this.#step(Number.POSITIVE_INFINITY))) await this.#quiet();
    }
    return work;
  }

  /** Passes until then; resolves when all that was to happen has happened. */
  async passUntil(end: number): Promise<void> {
    await this.#quiet();
    while (await this.#step(end));
    this.#now = end;
  }

  /** The next timer, unless it is later; false: there is none. */
  async #step(end: number): Promise<boolean> {
    let next: readonly [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].at <= end && (!next || entry[1].at < next[1].at)) next = entry;
    }
    if (!next) return false;
    const [id, timer] = next;
    this.#now = Math.max(this.#now, timer.at);
    if (timer.everyMs === undefined) this.#timers.delete(id);
    else this.#timers.set(id, { ...timer, at: this.#now + timer.everyMs });
    timer.run();
    await this.#quiet();
    return true;
  }

  /** The disk, whose work is waited for. */
  watched(disk: Disk): Disk {
    const all = <T extends object>(of: T, names: readonly (string & keyof T)[]): T =>
      Object.fromEntries(
        names.map((name) => {
          const call = of[name] as (...given: unknown[]) => Promise<unknown>;
          return [name, (...given: unknown[]) => this.#during(call.apply(of, given))];
        }),
      ) as T;
    const calls = all(disk, Object.keys(decoratedDisk(disk, {})) as (keyof Disk)[]);
    const space = async () => ({ totalBytes: ROOM_BYTES, freeBytes: ROOM_BYTES });
    return decoratedDisk(calls, { space }, (file) => {
      const names = Object.keys(decoratedFile(file, {})) as (keyof DiskFile)[];
      return decoratedFile(file, all(file, names));
    });
  }

  #counted(run: () => void): () => void {
    this.#underWay += 1;
    return () => {
      this.#underWay -= 1;
      run();
    };
  }

  async #during<Result>(work: Promise<Result>): Promise<Result> {
    this.#underWay += 1;
    try {
      return await work;
    } finally {
      this.#underWay -= 1;
    }
  }

  async #quiet(): Promise<void> {
    for (let turns = 0; turns < QUIET_TURNS; ) {
      await new Promise((resolve) => realImmediate(resolve));
      turns = this.#underWay > 0 || this.#isBusy() ? 0 : turns + 1;
    }
  }
}
