import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../random.js';
import { forgetFileMap } from '../staging.js';
import { temporaryFolder } from '../temporary.js';
import { type Daemon, freePorts, lastLinesOf, startDaemons } from './daemon.js';
import { ask, DeployedLoad, type Kept } from './load.js';

/**
 * Real kills of a gateway with its embedded node, or of a tracker, a storage and a gateway: load,
 * SIGKILL at a random moment, restart (and now and then a kill in the middle of that), comparison of
 * what was acknowledged, load again. At the end everything is compared, from the storage alone.
 */

export type SetUp = 'embedded' | 'separate';

export interface KillsOptions {
  readonly kills: number;
  readonly seed: number;
  /** No kill is begun later; what was acknowledged is compared in any case. */
  readonly maxSeconds: number;
  /** Some gateways find their FileMap gone after a kill. */
  readonly loseFileMap: boolean;
}

export interface KillsResult {
  readonly kills: number;
  /** Acknowledged. */
  readonly files: number;
  readonly deletions: number;
  /** Files that were compared by a FastDFS id too. */
  readonly byId: number;
  /** What is lost, altered or undead, and failures that no kill explains. */
  readonly findings: readonly string[];
}

/** Small limits: merging, confirming and dropping of segments never pause. */
const LIMITS = [
  ...['--small-file-limit', '256KiB', '--trunk-size', '2MiB', '--merge-max-age', '200ms'],
  // Thin trunks are joined, and files are asked for by their ids soon.
  ...['--id-max-age', '5s'],
];
const LOAD = {
  ...{ lanes: 16, weights: { upload: 6, read: 1, delete: 3 }, idShare: 0.2 },
  ...{ maxBytes: 12_000, largeShare: 0.003, largeBytes: 300_000 },
};
const MIN_LOAD_MS = 80;
const MAX_LOAD_MS = 500;
const LEAST_FILES = 20;
const MAX_LOAD_WAIT_MS = 20_000;
const MAX_OUTAGE_MS = 300;
const MAX_START_MS = 600;
const START_KILL_SHARE = 0.25;
const LOST_FILEMAP_SHARE = 0.1;
const SAMPLE_FILES = 150;
/** Files that come one after the other and are deleted together; a trunk holds about 350. */
const RUN_FILES = 600;
const RUN_SHARE = 0.25;
/** How long what has just come back may make readers wait, and how long merging may take. */
const RETURN_LIMIT_MS = 30_000;
const MERGED_LIMIT_MS = 60_000;

export async function runKills(setUp: SetUp, options: KillsOptions): Promise<KillsResult> {
  const { seed, maxSeconds, loseFileMap } = options;
  const random = new Random(seed);
  const folder = temporaryFolder();
  const directory = join(folder, 'data');
  const [port, tracker, storage] = (await freePorts(3)).map(String) as [string, string, string];
  const trackers = ['--trackers', `127.0.0.1:${tracker}`];
  const ports = ['--tracker-port', tracker, '--storage-port', storage];
  const own = ['gateway', '--directory', directory, '--port', port, ...LIMITS];
  const gatewayCommand = [...own, ...(setUp === 'embedded' ? ports : trackers)];
  const keeps = ['--retain', '4MiB'];
  gatewayCommand.push(...keeps);
  const parts = {
    tracker: ['tracker', '--port', tracker],
    storage: ['storage', '--port', storage, ...trackers, '--store-paths', join(folder, 'store')],
  };
  const daemons = await startDaemons(folder, {
    ...(setUp === 'separate' ? parts : {}),
    gateway: gatewayCommand,
  });
  const gateway = daemons.get('gateway')!;
  const url = `http://127.0.0.1:${port}`;
  const disturbances = new Map<Daemon, number>();
  const calmOf = (daemon: Daemon) => (daemon.isAlive ? (disturbances.get(daemon) ?? 0) : NaN);
  const calm = (of: 'gateway' | 'all') => {
    const sum = [...daemons.values()]
      .filter((daemon) => of === 'all' || daemon === gateway)
      .reduce((total, daemon) => total + calmOf(daemon), 0);
    return Number.isNaN(sum) ? undefined : sum;
  };
  const load = new DeployedLoad([url], random, { ...LOAD, calm });
  const { files } = load;
  let kills = 0;

  const kill = async (victims: readonly Daemon[]): Promise<void> => {
    kills += 1;
    for (const victim of victims) disturbances.set(victim, (disturbances.get(victim) ?? 0) + 1);
    await Promise.all(victims.map((victim) => victim.kill()));
  };
  /** Resolves once files can be stored durably and the tracker answers. */
  const ready = async (): Promise<void> => {
    await Promise.all([...daemons.values()].map((daemon) => daemon.ready()));
    const end = performance.now() + RETURN_LIMIT_MS;
    for (;;) {
      const answer = await ask(`${url}/health/ready`);
      for (const { failure } of daemons.values()) if (failure) throw new Error(failure);
      if (answer?.status === 200) return;
      if (performance.now() > end) throw new Error(`it does not become ready: ${answer?.body}`);
      await sleep(50);
    }
  };
  const victims = (): readonly Daemon[] => {
    const dice = random.next();
    if (daemons.size === 1 || dice < 0.3) return [gateway];
    if (dice < 0.6) return [daemons.get('storage')!];
    if (dice < 0.7) return [daemons.get('tracker')!];
    if (dice < 0.85) return [daemons.get('storage')!, gateway];
    return [...daemons.values()];
  };
  /** All that the last two rounds touched, and some of any age. */
  const worthALook = (): Set<Kept> => {
    const chosen = new Set(files.filter(({ round }) => round >= load.round - 1));
    for (let n = 0; n < SAMPLE_FILES; n += 1) chosen.add(random.pick(files));
    return chosen;
  };
  const round = async (): Promise<void> => {
    if (random.next() < RUN_SHARE) {
      const from = random.below(Math.max(1, files.length - RUN_FILES));
      load.condemned = files.slice(from, from + RUN_FILES);
    }
    const before = files.length;
    load.begin();
    await sleep(MIN_LOAD_MS + random.below(MAX_LOAD_MS - MIN_LOAD_MS));
    // On a busy machine nothing may be acknowledged yet, and a kill would prove nothing.
    const latest = performance.now() + MAX_LOAD_WAIT_MS;
    while (files.length < before + LEAST_FILES && performance.now() < latest) await sleep(10);
    const killed = victims();
    await kill(killed);
    if (killed.includes(gateway)) {
      await load.stop();
      if (loseFileMap && random.next() < LOST_FILEMAP_SHARE) forgetFileMap(directory);
    } else await sleep(random.below(MAX_OUTAGE_MS));
    for (const daemon of killed) daemon.start();
    while (random.next() < START_KILL_SHARE) {
      await sleep(random.below(MAX_START_MS));
      await kill(killed);
      for (const daemon of killed) daemon.start();
    }
    await ready();
    await load.stop();
    await load.compare([url], RETURN_LIMIT_MS, worthALook());
    load.round += 1;
  };

  const deadline = performance.now() + maxSeconds * 1000;
  try {
    while (kills < options.kills && performance.now() < deadline) await round();
    // Everything, once it is merged and the gateway has no bytes of its own any more.
    await kill([...daemons.values()]);
    const nothing = ['--retain', '0B', '--cache-size', '0B'];
    gatewayCommand.splice(gatewayCommand.indexOf('--retain'), keeps.length, ...nothing);
    for (const daemon of daemons.values()) daemon.start();
    await ready();
    await load.merged(url, MERGED_LIMIT_MS, SAMPLE_FILES);
    await load.compare([url], RETURN_LIMIT_MS);
  } catch (error) {
    throw new Error(`${setUp}: ${(error as Error).message}\n${lastLinesOf(daemons)}`, {
      cause: error,
    });
  }
  const { deletions } = load.counts;
  const byId = files.filter(({ ids }) => ids.length > 0).length;
  return { kills, files: files.length, deletions, byId, findings: load.findings };
}
