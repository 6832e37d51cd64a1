import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { readyAddress } from '../ready.js';

/**
 * The product as a user runs it, in processes that can be killed: the gateway with
 * its embedded node, or a tracker, a storage and a gateway of their own. Every part
 * comes back on the port it had. No process outlives this one.
 */

export type SetUp = 'embedded' | 'separate';
export type Part = 'tracker' | 'storage' | 'gateway';

/** Small limits: merging, confirming and dropping of segments never pause. */
const LIMITS = [
  ['--small-file-limit', '256KiB'],
  ['--trunk-size', '2MiB'],
  ['--merge-max-age', '200ms'],
  // Thin trunks are joined, and files are asked for by their ids soon.
  ['--id-max-age', '5s'],
].flat();
const RETAIN_SOME = ['--retain', '4MiB'];
/** Nothing is kept on the gateway: what it serves comes from the storage. */
const RETAIN_NOTHING = ['--retain', '0B', '--cache-size', '0B'];

const START_LIMIT_MS = 60_000;
const STDERR_LINES = 40;
/** Below the ports that systems give to outgoing connections: nobody takes one over a restart. */
const FIRST_PORT = 10_000;
const PORTS = 20_000;

const require = createRequire(import.meta.url);
const COMMAND = join(dirname(require.resolve('@stevedore/gateway')), 'main.js');

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

export class Cluster {
  readonly url: string;
  readonly #directory: string;
  readonly #daemons = new Map<Part, Daemon>();
  readonly #killAll = (): void => {
    for (const daemon of this.#daemons.values()) void daemon.kill();
  };
  #retain = RETAIN_SOME;

  private constructor(setUp: SetUp, folder: string, ports: readonly number[]) {
    const [port, trackerPort, storagePort] = ports.map(String) as [string, string, string];
    const tracker = `127.0.0.1:${trackerPort}`;
    this.url = `http://127.0.0.1:${port}`;
    this.#directory = join(folder, 'data');
    mkdirSync(folder, { recursive: true });
    const add = (part: Part, args: () => readonly string[]) =>
      this.#daemons.set(part, new Daemon(folder, () => [part, ...args()]));
    if (setUp === 'separate') {
      const storage = ['--port', storagePort, '--trackers', tracker];
      add('tracker', () => ['--port', trackerPort]);
      add('storage', () => [...storage, '--store-paths', join(folder, 'store')]);
    }
    const node =
      setUp === 'separate'
        ? ['--trackers', tracker]
        : ['--tracker-port', trackerPort, '--storage-port', storagePort];
    const gateway = ['--directory', this.#directory, '--port', port, ...node, ...LIMITS];
    add('gateway', () => [...gateway, ...this.#retain]);
    process.once('exit', this.#killAll);
  }

  /** Nothing runs yet. */
  static async inFolder(folder: string, setUp: SetUp): Promise<Cluster> {
    return new Cluster(setUp, folder, await freePorts(3));
  }

  get parts(): readonly Part[] {
    return [...this.#daemons.keys()];
  }

  start(parts: readonly Part[]): void {
    for (const part of parts) this.#daemons.get(part)!.start();
  }

  /** SIGKILL to all of them before any of them is gone. */
  async kill(parts: readonly Part[]): Promise<void> {
    await Promise.all(parts.map((part) => this.#daemons.get(part)!.kill()));
  }

  isAlive(part: Part): boolean {
    return this.#daemons.get(part)!.isAlive;
  }

  /** Resolves once all parts run; rejects, with what they last said, if one does not. */
  async ready(): Promise<void> {
    const started = Promise.all([...this.#daemons.values()].map((daemon) => daemon.ready()));
    const late = rejectedAfter(START_LIMIT_MS, 'not ready in time');
    try {
      await Promise.race([started, late.promise]);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.lastLines()}`);
    } finally {
      late.cancel();
    }
  }

  /** Throws if a part has ended without having been killed. */
  check(): void {
    for (const { failure } of this.#daemons.values()) {
      if (failure !== undefined) throw new Error(`${failure}\n${this.lastLines()}`);
    }
  }

  lastLines(): string {
    return [...this.#daemons].map(([part, one]) => `${part}: ${one.lastLines()}`).join('\n');
  }

  /** Of a gateway that does not run. */
  loseFileMap(): void {
    for (const suffix of ['', '-wal', '-shm']) {
      rmSync(join(this.#directory, `filemap.sqlite${suffix}`), { force: true });
    }
  }

  /** From the next start of the gateway on. */
  retainNothing(): void {
    this.#retain = RETAIN_NOTHING;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off('exit', this.#killAll);
    await this.kill(this.parts);
  }
}

function rejectedAfter(ms: number, message: string) {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), ms);
  });
  return { promise, cancel: () => clearTimeout(timer) };
}

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
