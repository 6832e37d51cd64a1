import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../random.js';
import { KillClient } from './client.js';
import { Cluster, type Part, type SetUp } from './cluster.js';
import { Ledger, type LedgerFile } from './ledger.js';
import { LANES, Load } from './load.js';
import { forAll, verify } from './verify.js';

/**
 * Real kills: load, SIGKILL at a random moment, restart (and now and then a kill
 * in the middle of that), comparison of what was acknowledged, load again. At the
 * end everything is compared, from the storage alone. Bounded in kills and in time.
 */

export interface KillsOptions {
  readonly setUps: readonly SetUp[];
  /** Over all set-ups. */
  readonly kills: number;
  readonly seed: number;
  /** No kill is begun later; what was acknowledged is compared in any case. */
  readonly maxSeconds: number;
  readonly folder: string;
  /** Some gateways find their FileMap gone after a kill. */
  readonly loseFileMap: boolean;
  readonly onProgress: (line: string) => void;
}

export interface KillsResult {
  readonly kills: number;
  /** Acknowledged. */
  readonly files: number;
  readonly deletions: number;
  readonly lost: number;
  readonly altered: number;
  readonly undead: number;
  /** Files that were compared by a FastDFS id too. */
  readonly byId: number;
  /** What is lost, altered or undead, and why it is thought so. */
  readonly findings: readonly string[];
  /** Failures that no kill explains. */
  readonly refusals: readonly string[];
}

const MIN_LOAD_MS = 80;
const MAX_LOAD_MS = 500;
const LEAST_FILES = 20;
const MAX_LOAD_WAIT_MS = 20_000;
const MAX_OUTAGE_MS = 300;
const MAX_START_MS = 600;
const START_KILL_SHARE = 0.25;
const LOST_FILEMAP_SHARE = 0.1;
const ID_SHARE = 0.15;
const SAMPLE_FILES = 150;
/** Files that come one after the other and are deleted together; a trunk holds about 400. */
const RUN_FILES = 700;
const RUN_SHARE = 0.25;
const MERGED_LIMIT_MS = 60_000;

export async function runKills(options: KillsOptions): Promise<KillsResult> {
  const results: KillsResult[] = [];
  const begun = Date.now();
  for (const [index, setUp] of options.setUps.entries()) {
    const left = options.setUps.length - index;
    const done = results.reduce((sum, { kills }) => sum + kills, 0);
    const share = {
      kills: Math.ceil((options.kills - done) / left),
      maxSeconds: (options.maxSeconds - (Date.now() - begun) / 1000) / left,
      seed: options.seed + index,
      folder: join(options.folder, setUp),
    };
    results.push(await new Kills(setUp, { ...options, ...share }).run());
  }
  return results.reduce(sumOf);
}

/** `kills 500, files 151032, lost 0, altered 0, undead 0` */
export function formatKills({ kills, files, lost, altered, undead }: KillsResult): string {
  return `kills ${kills}, files ${files}, lost ${lost}, altered ${altered}, undead ${undead}`;
}

class Kills {
  readonly #setUp: SetUp;
  readonly #options: KillsOptions;
  readonly #random: Random;
  readonly #ledger: Ledger;
  readonly #refusals: string[] = [];
  #disturbances = 0;
  #kills = 0;

  constructor(setUp: SetUp, options: KillsOptions) {
    this.#setUp = setUp;
    this.#options = options;
    this.#random = new Random(options.seed);
    this.#ledger = new Ledger(this.#random);
  }

  async run(): Promise<KillsResult> {
    const { folder, kills, maxSeconds } = this.#options;
    const deadline = Date.now() + maxSeconds * 1000;
    await using cluster = await Cluster.inFolder(folder, this.#setUp);
    cluster.start(cluster.parts);
    await cluster.ready();
    let client = await this.#connect(cluster);
    try {
      while (this.#kills < kills && Date.now() < deadline) {
        client = await this.#round(cluster, client);
        this.#tell();
      }
      await client.close();
      await cluster.kill(cluster.parts);
      this.#kills += 1;
      cluster.retainNothing();
      cluster.start(cluster.parts);
      await cluster.ready();
      client = await this.#connect(cluster);
      await this.#verifyAll(client);
      cluster.check();
    } finally {
      await client.close();
    }
    this.#tell();
    return this.#result();
  }

  /** Gives the client of the gateway that runs in the end. */
  async #round(cluster: Cluster, client: KillClient): Promise<KillClient> {
    const random = this.#random;
    const ledger = this.#ledger;
    if (random.next() < RUN_SHARE) ledger.condemnRun(RUN_FILES);
    const gatewayLives = () => cluster.isAlive('gateway');
    const load = new Load({
      ...{ client, ledger, random, gatewayLives, refusals: this.#refusals },
      disturbances: () => this.#disturbances,
    });
    const before = ledger.files.length;
    await sleep(MIN_LOAD_MS + random.below(MAX_LOAD_MS - MIN_LOAD_MS));
    // On a busy machine nothing may be acknowledged yet, and a kill would prove nothing.
    const latest = Date.now() + MAX_LOAD_WAIT_MS;
    while (ledger.files.length < before + LEAST_FILES && Date.now() < latest) await sleep(10);
    const victims = this.#victims(cluster);
    await this.#kill(cluster, victims);
    const reconnects = victims.includes('gateway');
    if (reconnects) {
      await load.stop();
      await client.close();
    } else await sleep(random.below(MAX_OUTAGE_MS));
    await this.#restart(cluster, victims);
    await load.stop();
    cluster.check();
    const current = reconnects ? await this.#connect(cluster) : client;
    await current.ready();
    await this.#verify(current, ledger.worthALook(SAMPLE_FILES), ID_SHARE);
    ledger.endRound();
    return current;
  }

  #victims({ parts }: Cluster): readonly Part[] {
    const dice = this.#random.next();
    if (parts.length === 1 || dice < 0.3) return ['gateway'];
    if (dice < 0.6) return ['storage'];
    if (dice < 0.7) return ['tracker'];
    if (dice < 0.85) return ['storage', 'gateway'];
    return parts;
  }

  async #kill(cluster: Cluster, victims: readonly Part[]): Promise<void> {
    this.#kills += 1;
    if (this.#disturbances % 2 === 0) this.#disturbances += 1;
    await cluster.kill(victims);
  }

  /** Starts again what was killed, some starts in vain. */
  async #restart(cluster: Cluster, victims: readonly Part[]): Promise<void> {
    const { loseFileMap } = this.#options;
    const lost = loseFileMap && victims.includes('gateway');
    if (lost && this.#random.next() < LOST_FILEMAP_SHARE) cluster.loseFileMap();
    cluster.start(victims);
    while (this.#random.next() < START_KILL_SHARE) {
      await sleep(this.#random.below(MAX_START_MS));
      await this.#kill(cluster, victims);
      cluster.start(victims);
    }
    await cluster.ready();
    this.#disturbances += 1;
  }

  async #connect(cluster: Cluster): Promise<KillClient> {
    const client = new KillClient(cluster.url, LANES);
    await client.ready();
    return client;
  }

  /** Everything, once it is merged and the gateway has no bytes of its own any more. */
  async #verifyAll(client: KillClient): Promise<void> {
    const alive = this.#ledger.files.filter((file) => file.state === 'alive');
    const deadline = Date.now() + MERGED_LIMIT_MS;
    await forAll(alive.slice(-SAMPLE_FILES), async ({ key }) => {
      while ((await client.fileIdOf(key)) === undefined) {
        if (Date.now() > deadline) {
          this.#refusals.push(`${key} is not merged after ${MERGED_LIMIT_MS} ms`);
          return;
        }
        await sleep(50);
      }
    });
    await this.#verify(client, this.#ledger.files, ID_SHARE);
  }

  async #verify(client: KillClient, files: Iterable<LedgerFile>, idShare: number): Promise<void> {
    const wantsId = () => this.#random.next() < idShare;
    const refusals = this.#refusals;
    await verify(files, { client, ledger: this.#ledger, refusals, wantsId });
  }

  #tell(): void {
    this.#options.onProgress(`${this.#setUp}: ${formatKills(this.#result())}`);
  }

  #result(): KillsResult {
    const { files, deletions, counts, findings } = this.#ledger;
    return {
      kills: this.#kills,
      files: files.length,
      deletions,
      ...counts,
      byId: files.filter(({ fileIds }) => fileIds.length > 0).length,
      findings: findings.map((finding) => `${this.#setUp}: ${finding}`),
      refusals: this.#refusals.map((refusal) => `${this.#setUp}: ${refusal}`),
    };
  }
}

function sumOf(one: KillsResult, other: KillsResult): KillsResult {
  return {
    kills: one.kills + other.kills,
    files: one.files + other.files,
    deletions: one.deletions + other.deletions,
    lost: one.lost + other.lost,
    altered: one.altered + other.altered,
    undead: one.undead + other.undead,
    byId: one.byId + other.byId,
    findings: [...one.findings, ...other.findings],
    refusals: [...one.refusals, ...other.refusals],
  };
}
