import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { execFileSync } from '../child-process.js';
import { freePort } from '../free-port.js';
import { hasCommand, requirement } from '../requirements.js';

/** A real PostgreSQL server of a test. As root it runs as `nobody`, since it refuses root. */

export const needsPostgres = requirement('PostgreSQL (postgres, initdb)', () =>
  ['postgres', 'initdb'].every((command) => hasCommand(command, '--version')),
);

const isRoot = process.getuid?.() === 0;
const NOBODY = 65534;
const owner = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

export class PostgresServer {
  readonly port: number;
  readonly #folder: string;
  #databases = 0;
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string) {
    this.port = port;
    this.#folder = folder;
  }

  /** A new, empty server that ends with the test or, with `keep`, when it is stopped. */
  static async start(keep = false, parent = tmpdir()): Promise<PostgresServer> {
    const folder = mkdtempSync(join(parent, 'stevedore-pg-'));
    const data = join(folder, 'data');
    mkdirSync(data);
    for (const each of [folder, data]) if (isRoot) chownSync(each, NOBODY, NOBODY);
    const small = ['--wal-segsize=1', '--no-sync'];
    execFileSync('initdb', ['-D', data, '-U', 'test', '-A', 'trust', ...small], {
      stdio: 'ignore',
      ...owner,
    });
    const server = new PostgresServer(await freePort(), folder);
    await server.restart();
    if (!keep) onTestFinished(() => server.stop());
    return server;
  }

  get url(): string {
    return `postgres://test@127.0.0.1:${this.port}/postgres`;
  }

  /** The URL of a new, empty database, for tests that share the server. */
  newDatabase(): string {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    this.run(`CREATE DATABASE ${name}`);
    return `postgres://test@127.0.0.1:${this.port}/${name}`;
  }

  /** `isStandby`: it follows a server that is away, and accepts no writes. */
  async restart(isStandby = false): Promise<void> {
    const { port } = this;
    const data = join(this.#folder, 'data');
    const signal = join(data, 'standby.signal');
    if (isStandby) writeFileSync(signal, '');
    else rmSync(signal, { force: true });
    const options = ['-D', data, '-p', String(port), '-k', this.#folder];
    this.#process = spawn('postgres', [...options, '-h', '127.0.0.1', '-F'], {
      stdio: 'ignore',
      ...owner,
    });
    while (!(await this.#answers())) await sleep(50);
  }

  /** Whether it refuses every write, as when it has become a standby behind its connections. */
  readOnly(isReadOnly: boolean): void {
    const value = isReadOnly ? 'on' : 'off';
    this.run(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    this.run('SELECT pg_reload_conf()');
  }

  /** Runs a statement by another client; what it prints. */
  run(statement: string, database = 'postgres'): string {
    const args = ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'test', '-At', '-c', statement];
    return execFileSync('psql', [...args, database], { encoding: 'utf8' });
  }

  /** Ends it without a word, as a power failure does. */
  async kill(): Promise<void> {
    const ending = this.#process;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    this.signal('SIGCONT');
    ending.kill('SIGQUIT');
    await once(ending, 'exit');
  }

  /** Stops or continues every process of it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    const parent = String(this.#process?.pid);
    let children = '';
    try {
      children = execFileSync('pgrep', ['-P', parent], { encoding: 'utf8' });
    } catch {}
    for (const pid of [parent, ...children.split('\n')]) {
      if (pid === '') continue;
      try {
        process.kill(Number(pid), signal);
      } catch (error) {
        // One of its processes can have ended since it was listed.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #answers(): Promise<boolean> {
    return hasCommand('pg_isready', '-h', '127.0.0.1', '-p', String(this.port), '-q')
      ? true
      : (await this.#isOpen()) && !hasCommand('pg_isready', '--version');
  }

  #isOpen(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  }
}
