import { createServer } from 'node:http';
import { join } from 'node:path';
import { type Benchmark, type BenchmarkContext, plans } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { atMost } from '../harness/goals.js';
import { portOf } from '../harness/http.js';
import { start } from '../harness/processes.js';
import type { Stored, Target } from '../servers/content.js';

/** Several gateways with one map: what a second one gives, what a foreign key and the map cost. */

const FULL = {
  ...{ runs: 5, files: 8_000 },
  /** So many that starting a process and compiling its code count for little. */
  mapFiles: 100_000,
};
const PLANS = plans(
  FULL,
  { runs: 2, files: 1_000, mapFiles: 8_000 },
  { runs: 1, files: 50, mapFiles: 50 },
);

const FILE_BYTES = 16_384;
/** The map costs the same whatever the size. */
const MAP_FILE_BYTES = 2_048;
const CONCURRENCY = 16;
const MIN_IDLE_MS = 1_500;
/** Of a database for the map; it is left with what was published. */
const MAP_URL = process.env.STEVEDORE_BENCH_MAP ?? '';

export const deployment: Benchmark = {
  durability: 'on the medium of the gateway',
  introduce({ scale }) {
    const { runs, files, mapFiles } = PLANS[scale];
    return `${runs} runs with ${files} files (for the map's cost ${mapFiles}) of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time; gateways, storage, database and load share this machine. The map is ${MAP_URL === '' ? 'a SQLite file; STEVEDORE_BENCH_MAP names a PostgreSQL' : 'the database of STEVEDORE_BENCH_MAP'}.`;
  },
  parts: (scale) => ({
    reads: {
      goals: [
        atMost(
          'foreign-cached',
          "a foreign key's read from cache: at most {} x the time of an own one",
          1.3,
        ),
      ],
      run: (context) => measureReads(context, PLANS[scale]),
    },
    map: {
      goals: [atMost('map-cpu', "the map's CPU at the gateway: at most {} µs a file", 10)],
      run: (context) => measureMap(context, PLANS[scale]),
    },
  }),
};

/** A storage and what the gateways of one run, each a process of its own, are started with. */
async function startStorage({ workspace }: BenchmarkContext, closing: Closing) {
  const directory = workspace.fresh('deployment');
  const trackers = await closing.use(start('harness/nodes')).call('group', join(directory, 'node'));
  const map = MAP_URL === '' ? `sqlite:${directory}.db` : MAP_URL;
  return async (name: string, hasMap: boolean) => {
    const gateway = closing.use(start('deployment/gateway'));
    const port = await freePort();
    const deployment = hasMap ? { map, peerUrl: `http://127.0.0.1:${port}` } : {};
    const own = { directory: join(directory, name), trackers, port };
    await gateway.call('start', { ...own, ...deployment });
    return { gateway, target: { port, headers: {} } };
  };
}

/** A gateway has to say where it is reached before it listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  const port = await portOf(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Each read is followed by the same ones again, and once more. */
const READS = ['first', 'again', 'third'] as const;
const PLACES = ['own-staged', 'foreign-staged', 'own-merged', 'foreign-merged'] as const;

async function measureReads(context: BenchmarkContext, plan: typeof FULL): Promise<void> {
  const { figures, print, table, runs } = context;
  await runs('reads of own and foreign keys', plan.runs, async () => {
    await using closing = new Closing();
    const begin = await startStorage(context, closing);
    const [own, foreign] = [await begin('gateway-0', true), await begin('gateway-1', true)];
    await using load = start('servers/load');
    const contents = Array.from({ length: plan.files }, (_, number) => ({
      ...{ number, bytes: FILE_BYTES },
    }));
    const store = () => load.call('store', own.target, contents);
    /** Each file once; every byte of it is compared. */
    const rateOf = async (target: Target, files: readonly Stored[]) => {
      const { seconds } = await load.call('run', target, { files, connections: CONCURRENCY });
      return files.length / seconds;
    };
    const read = async (place: string, files: readonly Stored[]) => {
      const [asked, peer] = place.startsWith('own') ? [own, foreign] : [foreign, own];
      const micros = (seconds: number) => (seconds / files.length) * 1e6;
      for (const which of READS) {
        const before = [await asked.gateway.cpuSeconds(), await peer.gateway.cpuSeconds()] as const;
        const rate = await rateOf(asked.target, files);
        figures.addAll(`reads.${place}.${which}`, {
          rate: [rate, 'files/s'],
          asked: [micros((await asked.gateway.cpuSeconds()) - before[0]), 'µs'],
          peer: [micros((await peer.gateway.cpuSeconds()) - before[1]), 'µs'],
        });
      }
    };
    // Code that has not run yet is not measured.
    const warm = await store();
    for (const { target } of [own, foreign]) await rateOf(target, warm);
    // The first reader of a file finds it in no cache, so each has files of its own.
    const [ofOwn, ofForeign, unread] = [await store(), await store(), await store()];
    await read('own-staged', ofOwn);
    await read('foreign-staged', ofForeign);
    await own.gateway.call('merge');
    await read('own-merged', ofOwn);
    await read('foreign-merged', unread);
    const third = (place: string) => `reads.${place}-merged.third.rate`;
    figures.addRatio('foreign-cached', third('own'), third('foreign'));
  });
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
async function measureMap(context: BenchmarkContext, plan: typeof FULL): Promise<void> {
  const { figures, print, table, runs } = context;
  await runs('the cost of the map', plan.runs, async () => {
    await using closing = new Closing();
    const begin = await startStorage(context, closing);
    const { gateway } = await begin('gateway', false);
    await gateway.call('store', plan.mapFiles, MAP_FILE_BYTES);
    await gateway.call('merge');
    await gateway[Symbol.asyncDispose]();
    const cpuOfStart = async (hasMap: boolean) => {
      const { gateway: again } = await begin('gateway', hasMap);
      await again.call('publish', MIN_IDLE_MS);
      const cpuSeconds = await again.cpuSeconds();
      await again[Symbol.asyncDispose]();
      return cpuSeconds;
    };
    const without = await cpuOfStart(false);
    figures.add('map-cpu', 'µs', (((await cpuOfStart(true)) - without) / plan.mapFiles) * 1e6);
  });
  print('## The map');
  table('map', {
    head: 'Files',
    rows: [[String(plan.mapFiles), 'map-cpu']],
    columns: [['CPU of the gateway, µs a file', '']],
  });
}
