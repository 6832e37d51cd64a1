import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atMost } from '../harness/goals.js';
import { Nodes } from '../harness/nodes.js';
import type { Stored, Target } from '../servers/content.js';
import type { LoadHandlers } from '../servers/load-process.js';
import type { GatewayHandlers, StartOptions } from './gateway-process.js';

/** Several gateways with one map: what a second one gives, what a foreign key and the map cost. */

interface Plan {
  readonly runs: number;
  readonly files: number;
  /** So many that starting a process and compiling its code count for little. */
  readonly mapFiles: number;
}

const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { runs: 5, files: 8_000, mapFiles: 100_000 },
  quick: { runs: 3, files: 4_000, mapFiles: 8_000 },
  smoke: { runs: 1, files: 50, mapFiles: 50 },
};

const FILE_BYTES = 16_384;
/** The map costs the same whatever the size. */
const MAP_FILE_BYTES = 2_048;
const CONCURRENCY = 16;
const MAX_FOREIGN = 1.3;
const MAX_MAP_MICROSECONDS = 10;
const MIN_IDLE_MS = 1_500;
/** Of a database for the map; it is left with what was published. */
const MAP_URL = process.env.STEVEDORE_BENCH_MAP ?? '';

export const deployment: Benchmark = {
  durability: 'on the medium of the gateway',
  introduce({ scale }) {
    const { runs, files, mapFiles } = PLANS[scale];
    return `${runs} runs${remarkOn(scale)} with ${files} files (for the map's cost ${mapFiles}) of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time; gateways, storage, database and load share this machine. The map is ${MAP_URL === '' ? 'a SQLite file; STEVEDORE_BENCH_MAP names a PostgreSQL' : 'the database of STEVEDORE_BENCH_MAP'}.`;
  },
  parts: (scale) => ({
    reads: {
      goals: [
        atMost(
          'foreign-cached',
          `a foreign key's read from cache: at most ${MAX_FOREIGN} x the time of an own one`,
          MAX_FOREIGN,
        ),
      ],
      run: (context) => measureReads(context, PLANS[scale]),
    },
    map: {
      goals: [
        atMost(
          'map-cpu',
          `the map's CPU at the gateway: at most ${MAX_MAP_MICROSECONDS} µs a file`,
          MAX_MAP_MICROSECONDS,
        ),
      ],
      run: (context) => measureMap(context, PLANS[scale]),
    },
  }),
};

/** Processes of one run: a storage and gateways. */
class Running implements AsyncDisposable {
  readonly gateways: Child<GatewayHandlers>[] = [];
  /** Of the load, in the order of the gateways. */
  readonly targets: Target[] = [];
  readonly #map: string;
  readonly #nodes = new Nodes();
  readonly #options: Omit<StartOptions, 'map'>[] = [];

  private constructor(mapFile: string) {
    this.#map = MAP_URL === '' ? `sqlite:${mapFile}` : MAP_URL;
  }

  static async start({ workspace }: BenchmarkContext, gateways: number, hasMap: boolean) {
    const directory = workspace.fresh('deployment');
    const running = new Running(`${directory}.db`);
    try {
      const trackers = [await running.#nodes.cluster(join(directory, 'node'))];
      for (const [index, port] of (await freePorts(gateways)).entries()) {
        const own = { directory: join(directory, `gateway-${index}`), trackers, port };
        running.#options.push(own);
        await running.#begin(index, hasMap);
      }
      return running;
    } catch (error) {
      await running[Symbol.asyncDispose]();
      throw error;
    }
  }

  get first(): Child<GatewayHandlers> {
    const [gateway] = this.gateways;
    if (!gateway) throw new Error('no gateway runs');
    return gateway;
  }

  /** Starts the only gateway again, in a new process. */
  async restart(hasMap: boolean): Promise<Child<GatewayHandlers>> {
    await this.gateways.pop()?.[Symbol.asyncDispose]();
    this.targets.pop();
    return this.#begin(0, hasMap);
  }

  async #begin(index: number, hasMap: boolean): Promise<Child<GatewayHandlers>> {
    const gateway = new Child<GatewayHandlers>(new URL('./gateway-process.js', import.meta.url));
    this.gateways.push(gateway);
    const map = hasMap ? this.#map : undefined;
    const options = this.#options[index]!;
    await gateway.call('start', { ...options, map });
    this.targets.push({ port: options.port, headers: {} });
    return gateway;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const gateway of this.gateways) await gateway[Symbol.asyncDispose]();
    await this.#nodes[Symbol.asyncDispose]();
  }
}

/** A gateway has to say where it is reached before it listens. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  return ports;
}

/** Each read is followed by the same ones again, and once more. */
const READS = ['first', 'again', 'third'] as const;
const PLACES = ['own-staged', 'foreign-staged', 'own-merged', 'foreign-merged'] as const;

async function measureReads(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`reads of own and foreign keys, run ${run + 1} of ${plan.runs}`);
    await using running = await Running.start(context, 2, true);
    const module = new URL('../servers/load-process.js', import.meta.url);
    await using load = new Child<LoadHandlers>(module);
    const [own, foreign] = running.targets as [Target, Target];
    const [home, other] = running.gateways;
    if (!home || !other) throw new Error('two gateways were started');
    const contents = Array.from({ length: plan.files }, (_, number) => ({
      number,
      bytes: FILE_BYTES,
    }));
    const store = (): Promise<readonly Stored[]> =>
      load.call('store', { target: own, files: contents });
    /** Each file once; every byte of it is compared. */
    const rateOf = async (target: Target, files: readonly Stored[]) => {
      const { seconds } = await load.call('run', { target, files, connections: CONCURRENCY });
      return files.length / seconds;
    };
    const read = async (place: string, files: readonly Stored[]) => {
      const isOwn = place.startsWith('own');
      const [asked, peer] = isOwn ? [home, other] : [other, home];
      for (const which of READS) {
        const before = { asked: await asked.cpuSeconds(), peer: await peer.cpuSeconds() };
        const rate = await rateOf(isOwn ? own : foreign, files);
        const micros = (now: number, then: number) => ((now - then) / files.length) * 1e6;
        figures.addAll(`reads.${place}.${which}`, {
          rate: [rate, 'files/s'],
          asked: [micros(await asked.cpuSeconds(), before.asked), 'µs'],
          peer: [micros(await peer.cpuSeconds(), before.peer), 'µs'],
        });
      }
    };
    // Code that has not run yet is not measured.
    const warm = await store();
    for (const target of [own, foreign]) await rateOf(target, warm);
    // The first reader of a file finds it in no cache, so each has files of its own.
    const [ofOwn, ofForeign, unread] = [await store(), await store(), await store()];
    await read('own-staged', ofOwn);
    await read('foreign-staged', ofForeign);
    await running.first.call('merge');
    await read('own-merged', ofOwn);
    await read('foreign-merged', unread);
    figures.addRatio(
      'foreign-cached',
      'reads.own-merged.third.rate',
      'reads.foreign-merged.third.rate',
    );
  }
  print('## Reads');
  table('reads', {
    head: '',
    rows: PLACES.flatMap((place) =>
      READS.map((which): [string, string] => [`${place}, ${which}`, `reads.${place}.${which}`]),
    ),
    columns: [
      ['Files/s', 'rate'],
      ['CPU of the gateway asked, µs', 'asked'],
      ['of the other one', 'peer'],
    ],
  });
}

/**
 * Merged files are published by a gateway that starts with a map for the first time; the CPU of a
 * start without a map is subtracted. Beside uploads the difference would be lost in the noise.
 */
async function measureMap(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`the cost of the map, run ${run + 1} of ${plan.runs}`);
    await using running = await Running.start(context, 1, false);
    await running.first.call('store', { files: plan.mapFiles, bytes: MAP_FILE_BYTES });
    await running.first.call('merge');
    const cpuOfStart = async (hasMap: boolean) => {
      const gateway = await running.restart(hasMap);
      await gateway.call('publish', MIN_IDLE_MS);
      return gateway.cpuSeconds();
    };
    const without = await cpuOfStart(false);
    figures.add('map-cpu', 'µs', (((await cpuOfStart(true)) - without) / plan.mapFiles) * 1e6);
  }
  print('## The map');
  table('map', {
    head: 'Files',
    rows: [[String(plan.mapFiles), 'map-cpu']],
    columns: [['CPU of the gateway, µs a file', '']],
  });
}
