import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { Random } from '../../support/random.js';
import { CRASH_SEED as SEED, sampleOf } from '../../support/simulator/crash-sample.js';
import { differentOf } from '../../support/simulator/different.js';
import type { FileMapHarm } from '../../support/simulator/file-map-image.js';
import { SCRIPTS, type Script } from '../../support/simulator/scripts.js';
import type { CrashMode } from '../../support/simulator/simulated-file.js';
import {
  type HostState,
  SimulatedHost,
  situationOf,
} from '../../support/simulator/simulated-host.js';

/**
 * Every crash point of small histories: the state of disk, FileMap and trunk store
 * before and after each of their operations is kept while a history runs. From each
 * of them Staging is started again as after a kill and as after power failures,
 * with the FileMap whole, behind, gone or damaged; then it goes on to merge and to
 * restart. At each step what was acknowledged must be there.
 */

const AT_A_TIME = 12;

const CRASHES: readonly (readonly [CrashMode, FileMapHarm])[] = [
  ['killed', 'kept'],
  ['killed', 'deleted'],
  ['lost', 'kept'],
  ['lost', 'stale'],
  ['kept', 'damaged'],
  ['subset', 'torn'],
  ['subset', 'deleted'],
  ['torn', 'stale'],
  ['torn', 'deleted'],
];

interface CrashPoint {
  readonly what: string;
  readonly state: HostState;
}

interface Crash {
  readonly point: CrashPoint;
  readonly mode: CrashMode;
  readonly harm: FileMapHarm;
}

async function record(script: Script): Promise<CrashPoint[]> {
  const host = new SimulatedHost(script.options ?? {}, new Random(SEED));
  const points: CrashPoint[] = [];
  host.onPoint = (what) => points.push({ what: `${points.length}, ${what}`, state: host.state() });
  try {
    await host.start();
    // The start is the same for all of them.
    if (script !== SCRIPTS[0]) points.length = 0;
    await script.run(host);
    await host.close();
    expect(host.disk.openFiles).toBe(0);
  } finally {
    host.onPoint = () => undefined;
    await host.dispose();
  }
  return points;
}

const randomOf = ({ state }: CrashPoint) => new Random(SEED + state.ledger.version);

/** Starts from the point as after the crash. */
async function recover(script: Script, { point, mode, harm }: Crash): Promise<void> {
  const options = script.options ?? {};
  const host = SimulatedHost.after(point.state, options, mode, harm, randomOf(point));
  let step = 'starting';
  try {
    await host.start();
    step = 'the first look';
    host.ledger.settle(host.staging, 'all');
    await host.check();
    step = 'merging';
    await host.flush();
    await host.check();
    step = 'the check';
    await host.checkStore();
    step = 'the restart';
    await host.close();
    expect(host.disk.openFiles).toBe(0);
    await host.start();
    await host.check();
  } catch (error) {
    const where = `${script.name}; point ${point.what}; ${mode}, FileMap ${harm}; seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
  }
}

let points = 0;
let starts = 0;

test.each(SCRIPTS)('$name', { timeout: 300_000 }, async (script) => {
  const found = await record(script);
  points += found.length;
  const all = found.flatMap((point) => CRASHES.map(([mode, harm]) => ({ point, mode, harm })));
  const different = differentOf(all, ({ point, mode, harm }) =>
    situationOf(point.state, mode, harm, randomOf(point)),
  );
  starts += different.length;
  await inParallel(sampleOf(different), AT_A_TIME, (crash) => recover(script, crash));
});

test('the enumeration has not shrunk', () => {
  console.log(`${points} crash points, ${starts} different starts`);
  expect(points).toBeGreaterThan(900);
  expect(starts).toBeGreaterThan(2000);
});
