import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openDatabase } from '@stevedore/disk/sqlite';
import { openMap } from '@stevedore/map';
import { onTestFinished } from 'vitest';
import { BadLink } from '../bad-link.js';
import { COMMAND } from '../gateway-process.js';
import { Daemon, freePorts } from '../kills/daemon.js';
import { needsPostgres, PostgresServer } from '../map/postgres-server.js';
import type { Random } from '../random.js';
import { temporaryFolder } from '../temporary.js';
import { Balancer } from './balancer.js';

/** The processes of the drill: a tracker, two storages, a map and gateways with second copies. */

export interface DrillGateway {
  readonly name: string;
  readonly url: string;
  /** The way by which other gateways reach it. */
  readonly link: BadLink;
  readonly peerUrl: string;
  readonly directory: string;
  readonly workers: number;
  readonly daemon: Daemon;
  /** Options of every command for its directory. */
  readonly options: (map?: string) => readonly string[];
  /** That `--partner` names; empty: the deployment chooses. */
  partner: string;
  killedAt: number;
}

export interface PutReceipt {
  readonly key: string;
  readonly name: string;
  readonly copies: number;
}

/** So small that trunks are stored, joined, confirmed and dropped all the time. */
const LIMITS = [
  ...['--trunk-size', '4MiB', '--small-file-limit', '1MiB', '--merge-max-age', '15s'],
  ...['--id-max-age', '60s', '--adopt-after', '40s'],
  ...['--retain', '16MiB', '--cache-size', '16MiB'],
];
const READY_LIMIT_MS = 60_000;
const ADOPTION_LIMIT_MS = 300_000;
const PUT_LIMIT_MS = 120_000;

export class DrillDeployment {
  readonly balancer: Balancer;
  readonly gateways: DrillGateway[] = [];
  readonly storages: Daemon[] = [];
  readonly map: DrillMap;
  readonly #folder = temporaryFolder();
  readonly #daemons: Daemon[] = [];
  /** With those that are gone. */
  readonly #known: DrillGateway[] = [];
  #trackers: readonly string[] = [];
  #made = 0;

  private constructor(random: Random, map: DrillMap) {
    this.balancer = new Balancer(random);
    this.map = map;
    onTestFinished(async () => {
      this.balancer.close();
      await Promise.all(this.#daemons.map((daemon) => daemon.kill()));
      for (const { link } of this.#known) link.close();
    });
  }

  /** `workers`: of each gateway. */
  static async start(random: Random, workers: readonly number[]): Promise<DrillDeployment> {
    const deployment = new DrillDeployment(random, await openDrillMap());
    const [tracker, port] = (await freePorts(2)).map(String) as [string, string];
    deployment.#trackers = ['--trackers', `127.0.0.1:${tracker}`];
    await deployment.#start(['tracker', '--port', tracker]);
    // Storages of one group listen at one port.
    for (const host of ['127.0.0.1', '127.0.0.2']) {
      const path = join(deployment.#folder, `storage-${host}`);
      const own = ['--host', host, '--port', port, '--store-paths', path];
      deployment.storages.push(
        await deployment.#start(['storage', ...own, ...deployment.#trackers]),
      );
    }
    for (const each of workers) await deployment.add(each);
    return deployment;
  }

  /** A new gateway; clients ask it once it is ready. */
  async add(workers: number): Promise<DrillGateway> {
    this.#made += 1;
    const name = `gateway ${this.#made}`;
    const directory = join(this.#folder, `g${this.#made}`);
    const [port] = (await freePorts(1)).map(String) as [string];
    const url = `http://127.0.0.1:${port}`;
    const link = await BadLink.to(Number(port));
    const peerUrl = `http://127.0.0.1:${link.port}`;
    const options = (map = this.map.url): readonly string[] => [
      ...['--directory', directory, '--peer-url', peerUrl, '--map', map],
      ...[...this.#trackers, ...LIMITS],
      ...(gateway.partner === '' ? [] : ['--partner', gateway.partner]),
    ];
    const serving = ['--port', port, '--workers', String(workers)];
    const daemon = new Daemon(this.#folder, () => ['gateway', ...options(), ...serving]);
    const gateway: DrillGateway = {
      ...{
        name,
        url,
        link,
        peerUrl,
        directory,
        workers,
        daemon,
        options,
        partner: '',
        killedAt: 0,
      },
    };
    this.#daemons.push(daemon);
    this.#known.push(gateway);
    await this.bringBack(gateway);
    return gateway;
  }

  /** Starts one that was dropped; clients ask it once it is ready. */
  async bringBack(gateway: DrillGateway): Promise<void> {
    await this.startAgain(gateway);
    this.gateways.push(gateway);
    this.balancer.add(gateway.url);
  }

  /** Resolves once all that it had before it was adopted is there again. */
  async returned({ name, directory }: DrillGateway, origins: readonly number[]): Promise<void> {
    const end = performance.now() + READY_LIMIT_MS;
    while (origins.some((origin) => existsSync(join(directory, 'returned', String(origin))))) {
      if (performance.now() > end) throw new Error(`${name} does not give back what it had`);
      await sleep(50);
    }
  }

  async startAgain(gateway: DrillGateway): Promise<void> {
    const { name, url, daemon } = gateway;
    daemon.start();
    await daemon.ready();
    const end = performance.now() + READY_LIMIT_MS;
    for (;;) {
      const answer = await fetch(`${url}/health/ready`).catch(() => undefined);
      const said = await answer?.text();
      if (answer?.status === 200) return;
      if (performance.now() > end) throw new Error(`${name} does not become ready: ${said}`);
      await sleep(50);
    }
  }

  kill(gateway: DrillGateway): Promise<void> {
    gateway.killedAt = performance.now();
    return gateway.daemon.kill();
  }

  /** No request goes there any more. */
  drop(gateway: DrillGateway): void {
    this.balancer.remove(gateway.url);
    this.gateways.splice(this.gateways.indexOf(gateway), 1);
  }

  /** True if the gateway was killed since. */
  wasKilled(url: string, since: number): boolean {
    return this.#known.some((each) => each.url === url && each.killedAt >= since);
  }

  nameOf(url: string): string {
    return this.#known.find((each) => each.url === url)?.name ?? url;
  }

  /** Of each worker. */
  origins({ directory, workers }: DrillGateway): number[] {
    const directories = [directory];
    for (let n = 2; n <= workers; n++) directories.push(join(directory, 'workers', String(n)));
    return directories.map((each) => Number(readFileSync(join(each, 'origin'), 'utf8')));
  }

  /** `stevedore put` of these; resolves with their receipts, in this order. */
  async put({ url }: DrillGateway, contents: readonly Buffer[]): Promise<PutReceipt[]> {
    const cwd = temporaryFolder();
    const names = contents.map((_, n) => String(n));
    await Promise.all(names.map((name, n) => writeFile(join(cwd, name), contents[n]!)));
    const args = [COMMAND, 'put', ...names, '--url', url, '--concurrency', '1', '--json'];
    const running = promisify(execFile)(process.execPath, args, { cwd, timeout: PUT_LIMIT_MS });
    const { stdout } = await running;
    const receipts: PutReceipt[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    return receipts.sort((one, other) => Number(one.name) - Number(other.name));
  }

  /** Resolves once another gateway has the files of all of these by itself. */
  async adopted(origins: readonly number[]): Promise<void> {
    const map = await openMap(this.map.url);
    try {
      const end = performance.now() + ADOPTION_LIMIT_MS;
      for (;;) {
        const gateways = await map.gateways();
        const adopted = gateways.filter(({ adoption }) => adoption?.isDone);
        if (origins.every((one) => adopted.some(({ origin }) => origin === one))) return;
        if (performance.now() > end) throw new Error(`nobody adopts ${origins.join(', ')}`);
        await sleep(500);
      }
    } finally {
      await map.close();
    }
  }

  /** Waits until the map takes the gateway for gone, and for all that the command waits for. */
  async adopt(origin: number): Promise<void> {
    const end = performance.now() + ADOPTION_LIMIT_MS;
    const args = [COMMAND, 'adopt', String(origin), '--map', this.map.url, '--json'];
    for (;;) {
      try {
        await promisify(execFile)(process.execPath, args, { timeout: ADOPTION_LIMIT_MS });
        return;
      } catch (error) {
        const { stderr = '' } = error as { stderr?: string };
        // It had stored everything, and nobody held copies: any of those that it names will do.
        const [, named] = /name one: (\d+) /.exec(stderr) ?? [];
        if (named !== undefined && !args.includes('--by')) args.push('--by', named);
        else if (!stderr.includes('alive') || performance.now() > end) {
          throw new Error(`adopt ${origin}: ${stderr}`, { cause: error });
        }
      }
      await sleep(1_000);
    }
  }

  /** Takes the stopped gateway out for good. Nothing needs its disk then, which goes with it. */
  async drain({ directory, options }: DrillGateway): Promise<void> {
    const args = [COMMAND, 'drain', ...options()];
    await promisify(execFile)(process.execPath, args, { timeout: ADOPTION_LIMIT_MS });
    await rm(directory, { recursive: true });
  }

  /** Resolves with what the stopped gateway says when it is started at a map that has nothing. */
  async startAtAnotherMap({ options }: DrillGateway): Promise<string> {
    const map = `sqlite:${join(temporaryFolder(), 'another.db')}`;
    const args = [COMMAND, 'gateway', ...options(map), '--port', '0'];
    return await promisify(execFile)(process.execPath, args, { timeout: READY_LIMIT_MS }).then(
      ({ stderr }) => stderr,
      ({ stderr, killed }: { readonly stderr: string; readonly killed: boolean }) =>
        killed ? 'it serves' : stderr,
    );
  }

  /** Throws if a process has ended by itself. */
  check(): void {
    for (const daemon of this.#daemons) {
      if (daemon.failure) throw new Error(`${daemon.failure}\n${daemon.lastLines()}`);
    }
  }

  lastLines(): string {
    return this.#daemons.map((daemon) => daemon.lastLines()).join('\n--\n');
  }

  async #start(args: readonly string[]): Promise<Daemon> {
    const daemon = new Daemon(this.#folder, () => args);
    this.#daemons.push(daemon);
    daemon.start();
    await daemon.ready();
    return daemon;
  }
}

interface DrillMap {
  readonly url: string;
  /** It does not answer for so long. */
  away(ms: number, isKilled: boolean): Promise<void>;
}

async function openDrillMap(): Promise<DrillMap> {
  if (!needsPostgres.missing) {
    const server = await PostgresServer.start();
    const away = async (ms: number, isKilled: boolean): Promise<void> => {
      if (isKilled) await server.kill();
      else server.signal('SIGSTOP');
      await sleep(ms);
      if (isKilled) await server.restart();
      else server.signal('SIGCONT');
    };
    return { url: server.url, away };
  }
  const path = join(temporaryFolder(), 'map.db');
  const away = async (ms: number): Promise<void> => {
    const database = openDatabase(path, { timeout: 10_000 });
    try {
      database.exec('BEGIN EXCLUSIVE');
      await sleep(ms);
      database.exec('ROLLBACK');
    } finally {
      database.close();
    }
  };
  return { url: `sqlite:${path}`, away };
}
