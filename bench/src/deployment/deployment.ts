import { statSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atMost, medianOf } from '../harness/goals.js';
import { spread, table } from '../harness/markdown.js';
import { StorageNode } from '../harness/storage-node.js';
import type { GatewayHandlers, StartOptions } from './gateway-process.js';
import type { LoadHandlers, LoadOptions } from './load-process.js';
import { freePorts } from './ports.js';

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
  introduce: ({ print, scale }) => {
    const { runs, files, mapFiles } = PLANS[scale];
    print(
      `${runs} runs${remarkOn(scale)} with ${files} files (for the map's cost ${mapFiles}) of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time; gateways, storage, database and load share this machine. The map is ${MAP_URL === '' ? 'a SQLite file; STEVEDORE_BENCH_MAP names a PostgreSQL' : 'the database of STEVEDORE_BENCH_MAP'}.`,
    );
  },
  parts: (scale) => ({
    reads: {
      goals: [
        atMost(
          'deployment.foreign-cached',
          `a foreign key's read from cache: at most ${MAX_FOREIGN} x the time of an own one`,
          MAX_FOREIGN,
          medianOf('deployment.foreign-cached'),
        ),
      ],
      run: (context) => measureReads(context, PLANS[scale]),
    },
    uploads: { goals: [], run: (context) => measureUploads(context, PLANS[scale]) },
    map: {
      goals: [
        atMost(
          'deployment.map-cpu',
          `the map's CPU at the gateway: at most ${MAX_MAP_MICROSECONDS} µs a file`,
          MAX_MAP_MICROSECONDS,
          medianOf('deployment.map-cpu'),
        ),
      ],
      run: (context) => measureMap(context, PLANS[scale]),
    },
  }),
};

/** Processes of one run: a storage, gateways, the load. */
class Running implements AsyncDisposable {
  /** In the order of their start; ended the other way round. */
  readonly #started: AsyncDisposable[] = [];
  readonly gateways: Child<GatewayHandlers>[] = [];
  readonly urls: string[] = [];
  readonly mapFile: string;
  readonly #options: Omit<StartOptions, 'map'>[] = [];
  readonly #load: Child<LoadHandlers>;

  private constructor(mapFile: string) {
    this.mapFile = mapFile;
    this.#load = this.#child('load', './load-process.js');
  }

  static async start({ workspace }: BenchmarkContext, gateways: number, hasMap: boolean) {
    const directory = workspace.fresh('deployment');
    const running = new Running(join(workspace.directory, `${gateways}-${Date.now()}.db`));
    const node = new StorageNode();
    running.#started.push(node);
    const trackers = [await node.start(join(directory, 'node'))];
    for (const [index, port] of (await freePorts(gateways)).entries()) {
      const own = { directory: join(directory, `gateway-${index}`), trackers, port };
      running.#options.push(own);
      await running.#begin(index, hasMap ? mapUrl(running.mapFile) : undefined);
    }
    return running;
  }

  /** Starts the only gateway again, in a new process. */
  async restart(hasMap: boolean): Promise<Child<GatewayHandlers>> {
    await this.gateways.pop()![Symbol.asyncDispose]();
    this.#started.pop();
    this.urls.pop();
    return this.#begin(0, hasMap ? mapUrl(this.mapFile) : undefined);
  }

  async #begin(index: number, map: string | undefined): Promise<Child<GatewayHandlers>> {
    const gateway = this.#child<GatewayHandlers>('gateway', './gateway-process.js');
    this.gateways.push(gateway);
    this.urls.push(await gateway.call('start', { ...this.#options[index]!, map }));
    return gateway;
  }

  /** Files a second. */
  async run(load: Pick<LoadOptions, 'urls'> & Partial<LoadOptions>): Promise<number> {
    const options = { concurrency: CONCURRENCY, keys: [], uploads: 0, bytes: FILE_BYTES, ...load };
    const files = options.keys.length > 0 ? options.keys.length : options.uploads;
    return files / (await this.#load.call('run', options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#started.reverse()) await each[Symbol.asyncDispose]();
  }

  #child<Handlers extends GatewayHandlers | LoadHandlers>(name: string, module: string) {
    const child = new Child<Handlers>(name, new URL(module, import.meta.url));
    this.#started.push(child);
    return child;
  }
}

/** Each read is followed by the same ones again, and once more. */
const READS = ['first', 'again', 'third'] as const;
const PLACES = ['own-staged', 'foreign-staged', 'own-merged', 'foreign-merged'] as const;

async function measureReads(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`reads of own and foreign keys, run ${run + 1} of ${plan.runs}`);
    await using running = await Running.start(context, 2, true);
    const [home, other] = running.gateways;
    const [own, foreign] = running.urls as [string, string];
    if (!home || !other) throw new Error('two gateways were started');
    const store = () => home.call('store', { files: plan.files, bytes: FILE_BYTES });
    // Code that has not run yet is not measured.
    await running.run({ urls: [own, foreign], keys: await store() });
    const rates = new Map<string, number>();
    const read = async (place: (typeof PLACES)[number], keys: readonly string[]) => {
      const [asked, peer] = place.startsWith('own') ? [home, other] : [other, home];
      for (const which of READS) {
        const before = [await asked.cpuSeconds(), await peer.cpuSeconds()] as const;
        const rate = await running.run({ urls: [asked === home ? own : foreign], keys });
        rates.set(`${place}.${which}`, rate);
        figures.add(`deployment.reads.${place}.${which}`, 'files/s', rate);
        const ends = [await asked.cpuSeconds(), await peer.cpuSeconds()] as const;
        for (const [index, at] of ['asked', 'peer'].entries()) {
          const micros = ((ends[index]! - before[index]!) / keys.length) * 1e6;
          figures.add(`deployment.cpu.${place}.${which}.${at}`, 'µs', micros);
        }
      }
    };
    // The first reader of a file finds it in no cache, so each has files of its own.
    const [ofOwn, ofForeign, unread] = [await store(), await store(), await store()];
    await read('own-staged', ofOwn);
    await read('foreign-staged', ofForeign);
    await home.call('merge', undefined);
    await read('own-merged', ofOwn);
    await read('foreign-merged', unread);
    const [third, thirdOwn] = [rates.get('foreign-merged.third'), rates.get('own-merged.third')];
    figures.add('deployment.foreign-cached', 'times', Number(thirdOwn) / Number(third));
  }
  const rows = PLACES.flatMap((place) =>
    READS.map((which) => [
      `${place}, ${which}`,
      spread(figures.summary(`deployment.reads.${place}.${which}`)),
      ...['asked', 'peer'].map((at) =>
        spread(figures.summary(`deployment.cpu.${place}.${which}.${at}`)),
      ),
    ]),
  );
  const head = ['Read', 'Files/s', 'CPU of the gateway asked, µs', 'of the other one'];
  print(`## Reads\n\n${table(head, rows)}`);
}

async function measureUploads(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    for (const gateways of run % 2 === 0 ? [1, 2] : [2, 1]) {
      progress(`uploads to ${gateways} gateways, run ${run + 1} of ${plan.runs}`);
      await using running = await Running.start(context, gateways, true);
      const before = await cpuOf(running);
      const rate = await running.run({ urls: running.urls, uploads: plan.files });
      figures.add(`deployment.uploads.n${gateways}`, 'files/s', rate);
      const micros = (((await cpuOf(running)) - before) / plan.files) * 1e6;
      figures.add(`deployment.uploads.cpu.n${gateways}`, 'µs', micros);
    }
  }
  const rows = [1, 2].map((n) => [
    String(n),
    spread(figures.summary(`deployment.uploads.n${n}`)),
    spread(figures.summary(`deployment.uploads.cpu.n${n}`)),
  ]);
  print(`## Uploads\n\n${table(['Gateways', 'Files/s', 'CPU of gateways, µs a file'], rows)}`);
}

async function cpuOf({ gateways }: Running): Promise<number> {
  const all = await Promise.all(gateways.map((gateway) => gateway.cpuSeconds()));
  return all.reduce((sum, seconds) => sum + seconds, 0);
}

/**
 * Merged files are published by a gateway that starts with a map for the first time; the CPU of a
 * start without a map is subtracted. Beside uploads the difference would be lost in the noise.
 */
async function measureMap(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`the cost of the map, run ${run + 1} of ${plan.runs}`);
    await using running = await Running.start(context, 1, false);
    await running.gateways[0]!.call('store', { files: plan.mapFiles, bytes: MAP_FILE_BYTES });
    await running.gateways[0]!.call('merge', undefined);
    const cpuOfStart = async (hasMap: boolean) => {
      const gateway = await running.restart(hasMap);
      await gateway.call('publish', MIN_IDLE_MS);
      return gateway.cpuSeconds();
    };
    const without = await cpuOfStart(false);
    const micros = (((await cpuOfStart(true)) - without) / plan.mapFiles) * 1e6;
    figures.add('deployment.map-cpu', 'µs', micros);
    if (MAP_URL !== '') continue;
    const bytes = ['', '-wal'].reduce((sum, end) => sum + sizeOf(running.mapFile + end), 0);
    figures.add('deployment.map-bytes', 'bytes', bytes / plan.mapFiles);
  }
  const row = [String(plan.mapFiles), spread(figures.summary('deployment.map-cpu'))];
  print(`## The map\n\n${table(['Files', 'CPU of the gateway, µs a file'], [row])}`);
}

function mapUrl(mapFile: string): string {
  return MAP_URL === '' ? `sqlite:${mapFile}` : MAP_URL;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
