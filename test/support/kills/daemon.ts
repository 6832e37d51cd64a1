import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { COMMAND } from '../gateway-process.js';
import { readyAddress } from '../ready.js';

/** Parts of the product as a user runs them, in processes that can be killed; each keeps its port. */

const STDERR_LINES = 40;
/** Below the ports that systems give to outgoing connections: nobody takes one over a restart. */
const FIRST_PORT = 10_000;
const PORTS = 20_000;

/** One part of the product: a process, and after a kill the next one. */
export class Daemon {
  readonly #args: () => readonly string[];
  readonly #folder: string;
  readonly #stderr: string[] = [];
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #ready: Promise<void> = Promise.resolve();
  #killed = true;
  /** Why it ended, unless it was killed. */
  failure: string | undefined;

  constructor(folder: string, args: () => readonly string[]) {
    this.#folder = folder;
    this.#args = args;
  }

  start(): void {
    const args = [COMMAND, ...this.#args()];
    const env = Object.entries(process.env).filter(([name]) => !name.startsWith('STEVEDORE_'));
    const child = spawn(process.execPath, args, {
      cwd: this.#folder,
      env: Object.fromEntries(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#killed = false;
    this.#exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        if (!this.#killed) this.failure = `${args[1]} ended by itself (${signal ?? code})`;
        resolve();
      });
    });
    createInterface({ input: child.stderr! }).on('line', (line) => {
      this.#stderr.push(line);
      if (this.#stderr.length > STDERR_LINES) this.#stderr.shift();
    });
    this.#ready = new Promise((resolve, reject) => {
      const lines = createInterface({ input: child.stdout! });
      lines.on('line', (line) => readyAddress(line) && resolve());
      void this.#exited.then(() => reject(new Error(`${args[1]} ended before it was ready`)));
    });
    // A start that is killed is nobody's concern.
    this.#ready.catch(() => {});
  }

  ready(): Promise<void> {
    return this.#ready;
  }

  get isAlive(): boolean {
    return !this.#killed;
  }

  async restart(): Promise<void> {
    this.start();
    await this.ready();
  }

  /** Resolves when the process is gone, and its ports and locks with it. */
  kill(): Promise<void> {
    this.#killed = true;
    this.#child?.kill('SIGKILL');
    return this.#exited;
  }

  /** Stops it as an operator does. Resolves when the process is gone. */
  stop(): Promise<void> {
    this.#killed = true;
    this.#child?.kill('SIGTERM');
    return this.#exited;
  }

  /** Stops it for a while, or lets it go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
  }

  lastLines(): string {
    return this.#stderr.join('\n');
  }
}

/** Starts daemons in a folder, one behind the other, until the test ends. */
export function daemonsIn(folder: string): (args: readonly string[]) => Promise<Daemon> {
  const daemons: Daemon[] = [];
  onTestFinished(async () => {
    await Promise.all(daemons.map((daemon) => daemon.kill()));
  });
  return async (args) => {
    const daemon = new Daemon(folder, () => args);
    daemons.push(daemon);
    await daemon.restart();
    return daemon;
  };
}

/** By their names. */
export async function startDaemons(
  folder: string,
  commands: Readonly<Record<string, readonly string[]>>,
): Promise<Map<string, Daemon>> {
  const start = daemonsIn(folder);
  const daemons = new Map<string, Daemon>();
  for (const [name, command] of Object.entries(commands)) daemons.set(name, await start(command));
  return daemons;
}

/** Their last lines of output, to find out what went wrong. */
export const lastLinesOf = (daemons: ReadonlyMap<string, Daemon>): string =>
  [...daemons].map(([name, daemon]) => `${name}: ${daemon.lastLines()}`).join('\n');

export async function freePorts(count: number): Promise<readonly number[]> {
  const found = new Set<number>();
  while (found.size < count) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    if (await isFree(port)) found.add(port);
  }
  return [...found];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
