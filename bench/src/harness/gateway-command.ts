import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A gateway as a user starts it: by its command, on a free port. It does not outlive this process. */

const COMMAND = fileURLToPath(new URL('../../../gateway/dist/main.js', import.meta.url));
/** Asked to end, it gets so long. */
const CLOSE_LIMIT_MS = 20_000;

export interface GatewayCommandOptions {
  readonly directory: string;
  /** By their names in camel case. */
  readonly options?: Readonly<Record<string, string | number>>;
}

export class GatewayCommand implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #kill = () => void this.#process.kill('SIGKILL');
  #port = 0;

  private constructor({ directory, options = {} }: GatewayCommandOptions) {
    const flags = Object.entries({ directory, port: 0, ...options }).flatMap(([name, value]) => [
      `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      String(value),
    ]);
    this.#process = spawn(process.execPath, [COMMAND, 'gateway', ...flags], {
      env: { ...process.env, STEVEDORE_LOG: 'json' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    process.prependOnceListener('exit', this.#kill);
    this.#process.on('error', () => {});
  }

  static async start(options: GatewayCommandOptions): Promise<GatewayCommand> {
    const gateway = new GatewayCommand(options);
    try {
      await gateway.#ready();
      return gateway;
    } catch (error) {
      await gateway[Symbol.asyncDispose]();
      throw error;
    }
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off('exit', this.#kill);
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill();
    const timer = setTimeout(this.#kill, CLOSE_LIMIT_MS);
    await exited;
    clearTimeout(timer);
  }

  async #ready(): Promise<void> {
    const stdout = this.#process.stdout!;
    for await (const line of createInterface({ input: stdout })) {
      const { msg, address } = JSON.parse(line) as Readonly<Record<string, string>>;
      if (msg !== 'ready' || address === undefined) continue;
      this.#port = Number(new URL(address).port);
      stdout.resume();
      return;
    }
    throw new Error('the gateway did not start');
  }
}
