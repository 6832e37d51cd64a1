import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { Random } from '../../support/random.js';
import { CRASH_SEED as SEED, sampleOf } from '../../support/simulator/crash-sample.js';
import { differentOf } from '../../support/simulator/different.js';
import { digestOf } from '../../support/simulator/simulated-disk.js';
import { CRASH_MODES, type CrashMode } from '../../support/simulator/simulated-file.js';
import { StorageHost, type StorageState } from '../../support/simulator/storage-host.js';
import {
  goOn,
  STORAGE_SCRIPTS,
  type StorageScript,
} from '../../support/simulator/storage-scripts.js';

/**
 * Every crash point of small histories: the state of the disk before and after each
 * operation is kept while a history runs. From each of them a storage is started
 * again as after a kill and as after power failures, goes on to take files and
 * changes, and restarts. At each step what was answered must be there, what was not
 * must be whole or missing, and nothing may lie about.
 */

const AT_A_TIME = 12;
// Most answers of the disk are errors that nobody prints.
Error.stackTraceLimit = 2;

interface CrashPoint {
  readonly what: string;
  readonly state: StorageState;
}

interface Crash {
  readonly point: CrashPoint;
  readonly mode: CrashMode;
}

async function record(script: StorageScript): Promise<CrashPoint[]> {
  const host = new StorageHost(new Random(SEED));
  const points: CrashPoint[] = [];
  host.disk.onPoint = (when, what) => {
    points.push({ what: `${points.length}, ${when} ${what}`, state: host.state() });
  };
  await host.start();
  // The start is the same for all of them.
  if (script !== STORAGE_SCRIPTS[0]) points.length = 0;
  await script.run(host);
  await host.close();
  host.disk.onPoint = () => undefined;
  expect(host.disk.openFiles, 'open files').toBe(0);
  return points;
}

const hostAfter = ({ point, mode }: Crash) =>
  StorageHost.after(point.state, mode, new Random(SEED + point.state.ledger.version));

function situationOf(crash: Crash): string {
  const host = hostAfter(crash);
  return `${crash.mode === 'killed'} ${host.ledger.version} ${digestOf(host.disk)}`;
}

/** Starts from the point as after the crash. */
async function recover(script: StorageScript, crash: Crash): Promise<void> {
  const { point, mode } = crash;
  const host = hostAfter(crash);
  let step = 'starting';
  try {
    await host.start();
    step = 'the first look';
    host.checkDisk();
    await host.check('must work', mode !== 'killed');
    step = 'going on';
    await goOn(host);
    await host.check();
    step = 'the restart';
    await host.close();
    expect(host.disk.openFiles, 'open files').toBe(0);
    await host.start();
    host.checkDisk();
    await host.check();
    step = 'a second crash';
    const after = host.crash('lost');
    await after.start();
    after.checkDisk();
    await after.check();
  } catch (error) {
    const where = `${script.name}; point ${point.what}; ${mode}; seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    host.dispose();
  }
}

let points = 0;
let starts = 0;

test.each(STORAGE_SCRIPTS)('$name', { timeout: 300_000 }, async (script) => {
  const found = await record(script);
  points += found.length;
  const all = found.flatMap((point) => CRASH_MODES.map((mode) => ({ point, mode })));
  const different = differentOf(all, situationOf);
  starts += different.length;
  await inParallel(sampleOf(different), AT_A_TIME, (crash) => recover(script, crash));
});

test('the enumeration has not shrunk', () => {
  console.log(`${points} crash points, ${starts} different starts`);
  expect(points).toBeGreaterThan(1000);
  expect(starts).toBeGreaterThan(600);
});
