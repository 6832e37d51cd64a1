import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { CRASH_SHARE, CRASH_SEED as SEED, sampleOf } from '../support/crash-sample.js';
import type { FileMapHarm } from '../support/file-map-image.js';
import { inParallel } from '../support/parallel.js';
import { Random } from '../support/random.js';
import { SCRIPTS, type Script } from '../support/scripts.js';
import type { CrashMode } from '../support/simulated-file.js';
import { type HostState, SimulatedHost } from '../support/simulated-host.js';

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

async function record(script: Script): Promise<CrashPoint[]> {
  const host = new SimulatedHost(script.options ?? {}, new Random(SEED));
  const points: CrashPoint[] = [];
  host.onPoint = (what) => points.push({ what: `${points.length}, ${what}`, state: host.state() });
  try {
    await host.start();
    await script.run(host);
    await host.close();
    expect(host.disk.openFiles).toBe(0);
  } finally {
    host.onPoint = () => undefined;
    await host.dispose();
  }
  return points;
}

/** Starts from the point as after the crash; false if the same was tried before. */
async function recover(
  script: Script,
  point: CrashPoint,
  [mode, harm]: readonly [CrashMode, FileMapHarm],
  tried: Set<string>,
): Promise<boolean> {
  const random = new Random(SEED + point.state.ledger.version);
  const host = SimulatedHost.after(point.state, script.options ?? {}, mode, harm, random);
  let step = 'starting';
  try {
    const situation = `${mode === 'killed'} ${harm} ${digest(host, point.state, harm)}`;
    if (tried.has(situation)) return false;
    tried.add(situation);
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
    return true;
  } catch (error) {
    const where = `${script.name}; point ${point.what}; ${mode}, FileMap ${harm}; seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
  }
}

function digest(host: SimulatedHost, { fileMap, ledger, trunks }: HostState, harm: FileMapHarm) {
  const hash = createHash('sha1').update(`${ledger.version} ${[...trunks.keys()]}`);
  for (const [name, bytes] of host.disk.contents()) hash.update(name).update(bytes);
  const durable = fileMap.wal?.subarray(0, fileMap.durableBytes);
  const parts = {
    kept: [fileMap.main, fileMap.wal],
    stale: [fileMap.main, durable],
    torn: [fileMap.wal],
  };
  if (harm in parts) {
    for (const part of parts[harm as keyof typeof parts]) hash.update(part ?? '');
  }
  return hash.digest('hex');
}

let covered = 0;
let points = 0;

test.each(SCRIPTS)('$name', { timeout: 300_000 }, async (script) => {
  const found = await record(script);
  points += found.length;
  const tried = new Set<string>();
  const work = found.flatMap((point) => CRASHES.map((crash) => ({ point, crash })));
  await inParallel(sampleOf(work), AT_A_TIME, async ({ point, crash }) => {
    if (await recover(script, point, crash, tried)) covered += 1;
  });
  console.log(`${script.name}: ${found.length} points, ${tried.size} different starts`);
});

test('the enumeration has not shrunk', () => {
  console.log(`${points} crash points, ${covered} different starts`);
  expect(points).toBeGreaterThan(900);
  expect(covered).toBeGreaterThan(2000 * CRASH_SHARE);
});
