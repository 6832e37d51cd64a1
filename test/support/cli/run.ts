import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { execute } from '../../../gateway/dist/cli/command.js';
import { ROOT } from '../paths.js';
import { readyAddress } from '../ready.js';
import { type AtTheEnd, ofTest, temporaryFolder } from '../temporary.js';

/** Runs the `stevedore` command: in this process, or as one of its own. */

export const MAIN = join(ROOT, 'gateway/bin/stevedore.js');

/** Of the test or the suite that runs: what `put` remembers is forgotten after it. */
let stateHome: string | undefined;

/** The environment of a command, apart from what this machine's user has stored. */
export function commandEnvironment(
  more: NodeJS.ProcessEnv = {},
  atTheEnd = ofTest,
): NodeJS.ProcessEnv {
  if (stateHome === undefined) {
    stateHome = temporaryFolder(atTheEnd);
    atTheEnd(() => {
      stateHome = undefined;
    });
  }
  return { ...process.env, XDG_STATE_HOME: stateHome, ...more };
}

export interface Result {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** In place of `stevedore`. */
  readonly program?: readonly string[];
  /** A process is killed then. */
  readonly atTheEnd?: AtTheEnd;
}

export class Running {
  readonly process: ChildProcess;
  stdout = '';
  stderr = '';
  #exit: Promise<number | null>;

  constructor(args: readonly string[], options: RunOptions = {}) {
    const { atTheEnd = ofTest } = options;
    const [program = '', ...given] = options.program ?? [process.execPath, MAIN];
    const child = spawn(program, [...given, ...args], {
      env: commandEnvironment(options.env, atTheEnd),
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process = child;
    child.stdout.on('data', (chunk) => {
      this.stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      this.stderr += chunk;
    });
    this.#exit = new Promise((done) => child.once('close', done));
    atTheEnd(async () => {
      child.kill('SIGKILL');
      await this.#exit;
    });
  }

  /** Where it says that it answers. */
  async ready(): Promise<string> {
    for (;;) {
      const whole = this.stdout.slice(0, this.stdout.lastIndexOf('\n') + 1);
      const address = whole.split('\n').map(readyAddress).find(Boolean);
      if (address !== undefined) return address;
      const { exitCode, signalCode } = this.process;
      if (exitCode !== null || signalCode !== null) {
        throw new Error(`ended with ${signalCode ?? `code ${exitCode}`}: ${this.stderr}`);
      }
      await new Promise((done) => setTimeout(done, 10));
    }
  }

  async result(): Promise<Result> {
    return { code: await this.#exit, stdout: this.stdout, stderr: this.stderr };
  }
}

class Output extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  override toString(): string {
    return Buffer.concat(this.#chunks).toString();
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** In this process, one at a time: for commands that end by themselves. */
export async function run(
  args: readonly string[],
  { cwd, env }: Pick<RunOptions, 'cwd' | 'env'> = {},
): Promise<Result> {
  const own = { cwd: process.cwd(), env: process.env, exitCode: process.exitCode };
  const { stdout: ownStdout, stderr: ownStderr } = Object.getOwnPropertyDescriptors(process);
  const listeners = SIGNALS.flatMap((name) => process.listeners(name));
  const [stdout, stderr] = [new Output(), new Output()];
  Object.defineProperties(process, {
    stdout: { value: stdout, configurable: true },
    stderr: { value: stderr, configurable: true },
  });
  Object.assign(process, { env: commandEnvironment(env), exitCode: undefined });
  if (cwd !== undefined) process.chdir(cwd);
  try {
    await execute(args);
    const code = Number(process.exitCode ?? 0);
    return { code, stdout: String(stdout), stderr: String(stderr) };
  } finally {
    process.chdir(own.cwd);
    Object.assign(process, { env: own.env, exitCode: own.exitCode });
    Object.defineProperties(process, { stdout: ownStdout, stderr: ownStderr });
    for (const name of SIGNALS) {
      const added = process.listeners(name).filter((each) => !listeners.includes(each));
      for (const each of added) process.off(name, each);
    }
  }
}

/** As a process of its own. */
export function runApart(args: readonly string[], options?: RunOptions): Promise<Result> {
  return new Running(args, options).result();
}

/** Runs a line of Bash that has the command `stevedore`. */
export function shell(line: string, options?: RunOptions): Promise<Result> {
  const command = `stevedore() { '${process.execPath}' '${MAIN}' "$@"; }; ${line}`;
  return runApart([command], { ...options, program: ['bash', '-o', 'pipefail', '-c'] });
}

/** With the folder `d` of so many files in it. */
export async function folder(files: number): Promise<string> {
  const cwd = temporaryFolder();
  await mkdir(join(cwd, 'd'));
  for (let index = 0; index < files; index++) {
    await writeFile(join(cwd, 'd', String(index)), `file ${index}`);
  }
  return cwd;
}
