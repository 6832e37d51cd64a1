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
import { inTurn } from '../harness/load.js';
import { Nodes } from '../harness/nodes.js';
import type { GatewayHandlers, StartOptions } from './gateway-process.js';
import type { LoadHandlers, LoadOptions } from './load-process.js';

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
    uploads: { goals: [], run: (context) => measureUploads(context, PLANS[scale]) },
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

/** Processes of one run: a storage, gateways, the load. */
class Running implements AsyncDisposable {
  readonly gateways: Child<GatewayHandlers>[] = [];
  readonly urls: string[] = [];
  readonly #map: string;
  readonly #nodes = new Nodes();
  readonly #load = new Child<LoadHandlers>(new URL('./load-process.js', import.meta.url));
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
    this.urls.pop();
    return this.#begin(0, hasMap);
  }

  async #begin(index: number, hasMap: boolean): Promise<Child<GatewayHandlers>> {
    const gateway = new Child<GatewayHandlers>(new URL('./gateway-process.js', import.meta.url));
    this.gateways.push(gateway);
    const map = hasMap ? this.#map : undefined;
    this.urls.push(await gateway.call('start', { ...this.#options[index]!, map }));
    return gateway;
  }

  /** Files a second. */
  run(load: Pick<LoadOptions, 'urls'> & Partial<LoadOptions>): Promise<number> {
    const defaults = { concurrency: CONCURRENCY, keys: [], uploads: 0, bytes: FILE_BYTES };
    return this.#load.call('run', { ...defaults, ...load });
  }

  async cpuSeconds(): Promise<number> {
    const all = await Promise.all(this.gateways.map((gateway) => gateway.cpuSeconds()));
    return all.reduce((sum, seconds) => sum + seconds, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#load[Symbol.asyncDispose]();
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
    const [home, other] = running.gateways;
    const [own = '', foreign = ''] = running.urls;
    if (!home || !other) throw new Error('two gateways were started');
    const store = () => home.call('store', { files: plan.files, bytes: FILE_BYTES });
    // Code that has not run yet is not measured.
    await running.run({ urls: [own, foreign], keys: await store() });
    const read = async (place: string, keys: readonly string[]) => {
      const isOwn = place.startsWith('own');
      const [asked, peer] = isOwn ? [home, other] : [other, home];
      for (const which of READS) {
        const before = { asked: await asked.cpuSeconds(), peer: await peer.cpuSeconds() };
        const rate = await running.run({ urls: [isOwn ? own : foreign], keys });
        const micros = (now: number, then: number) => ((now - then) / keys.length) * 1e6;
        figures.addAll(`reads.${place}.${which}`, {
          rate: [rate, 'files/s'],
          asked: [micros(await asked.cpuSeconds(), before.asked), 'µs'],
          peer: [micros(await peer.cpuSeconds(), before.peer), 'µs'],
        });
      }
    };
    // The first reader of a file finds it in no cache, so each has files of its own.
    const [ofOwn, ofForeign, unread] = [await store(), await store(), await store()];
    await read('own-staged', ofOwn);
    await read('foreign-staged', ofForeign);
    await home.call('merge');
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
      ['Files/s', '.rate'],
      ['CPU of the gateway asked, µs', '.asked'],
      ['of the other one', '.peer'],
    ],
  });
}

async function measureUploads(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    for (const gateways of inTurn(run, [1, 2])) {
      progress(`uploads to ${gateways} gateways, run ${run + 1} of ${plan.runs}`);
      await using running = await Running.start(context, gateways, true);
      const before = await running.cpuSeconds();
      const rate = await running.run({ urls: running.urls, uploads: plan.files });
      const cpuSeconds = (await running.cpuSeconds()) - before;
      figures.addAll(`uploads.n${gateways}`, {
        rate: [rate, 'files/s'],
        cpu: [(cpuSeconds / plan.files) * 1e6, 'µs'],
      });
    }
  }
  print('## Uploads');
  table('uploads', {
    head: 'Gateways',
    rows: [1, 2].map((n) => [String(n), `uploads.n${n}`]),
    columns: [
      ['Files/s', 'rate'],
      ['CPU of gateways, µs a file', 'cpu'],
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
