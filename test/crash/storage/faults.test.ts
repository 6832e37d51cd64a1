import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { Random } from '../../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED, sampleOf } from '../../support/simulator/crash-sample.js';
import { canFail, type Fault, type Operation } from '../../support/simulator/simulated-disk.js';
import type { CrashMode } from '../../support/simulator/simulated-file.js';
import { StorageHost, type StorageState, Untold } from '../../support/simulator/storage-host.js';
import {
  goOn,
  STORAGE_SCRIPTS,
  type StorageScript,
} from '../../support/simulator/storage-scripts.js';

/**
 * Each operation of small histories fails, once or it and all later ones: what was
 * answered is not harmed, what was refused is whole or not there, and once the disk is
 * well again the storage works on as if nothing had been. Then it restarts, and it
 * crashes, at the end and at several points behind the fault.
 */

const AT_A_TIME = 24;
// Most answers of the disk are errors that nobody prints.
Error.stackTraceLimit = 2;
/** Points behind a fault at which a crash is tried. */
const CRASHES_BEHIND_FAULT = 1;

const FAULTS: readonly Omit<Fault, 'at'>[] = [
  { code: 'EIO', once: true },
  { code: 'EIO', once: true, short: true },
  { code: 'EIO', once: false },
  { code: 'ENOSPC', once: true },
  { code: 'ENOSPC', once: true, short: true },
  { code: 'EMFILE', once: true },
];
/** Their failing for good is that of what follows them. */
const LOOKS: ReadonlySet<Operation> = new Set(['exists', 'stat', 'read', 'list', 'readLink']);
const CRASHES: readonly CrashMode[] = ['kept', 'lost', 'subset', 'torn'];

/** Operations of an undisturbed run, by their numbers; those of the start for one script only. */
async function operationsOf(script: StorageScript): Promise<Map<number, Operation>> {
  const host = new StorageHost(new Random(SEED));
  const found = new Map<number, Operation>();
  host.disk.onPoint = (when, what) => {
    if (when === 'before') found.set(host.disk.operations, what.split(' ')[0] as Operation);
  };
  await host.start();
  if (script !== STORAGE_SCRIPTS[0]) found.clear();
  await script.run(host);
  await host.close();
  return found;
}

/** False if the fault did not come to pass. */
async function runWithFault(script: StorageScript, fault: Fault): Promise<boolean> {
  const host = new StorageHost(new Random(SEED));
  host.isTolerant = true;
  host.disk.fail(fault);
  const crashes: StorageState[] = [];
  let step = 'the script';
  host.disk.onPoint = () => {
    const isBehind = fault.once && host.disk.failures.length > 0;
    if (isBehind && crashes.length < CRASHES_BEHIND_FAULT) crashes.push(host.state());
  };
  try {
    await tolerant(host, () => host.start());
    if (host.isRunning) await tolerant(host, () => script.run(host));
    if (host.disk.failures.length === 0) return false;
    step = 'the look at a failing disk';
    if (host.isRunning) await host.check(host.disk.isFailing ? 'may fail' : 'must work');
    crashes.push(host.state());
    host.disk.heal();
    host.disk.onPoint = () => undefined;
    host.isTolerant = false;
    if (host.isRunning) {
      step = 'going on';
      await goOn(host);
      await host.check();
      step = 'closing';
      await host.close();
    }
    expect(host.disk.openFiles, 'open files').toBe(0);
    step = 'the restart';
    await host.start();
    host.checkDisk();
    await host.check();
    for (const [index, state] of crashes.entries()) {
      step = `the crash ${index} of ${crashes.length}`;
      await recover(state, CRASHES[index % CRASHES.length]!);
    }
    return true;
  } catch (error) {
    const { code, once, at } = fault;
    const what = `${code} ${once ? 'once' : 'for good'} at operation ${at}`;
    const where = `${script.name}; ${what} (${host.disk.failures[0]}); seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    host.dispose();
  }
}

/** On a failing disk the work may come to an end, but only for that reason. */
async function tolerant(host: StorageHost, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (host.disk.failures.length === 0) throw error;
    if (host.isRunning && !(error instanceof Untold)) throw error;
  }
}

async function recover(state: StorageState, mode: CrashMode): Promise<void> {
  const host = StorageHost.after(state, mode, new Random(SEED));
  try {
    await host.start();
    host.checkDisk();
    await host.check('must work', true);
    await goOn(host);
    await host.check();
  } catch (error) {
    throw new Error(`${mode}: ${(error as Error).message}`, { cause: error });
  } finally {
    host.dispose();
  }
}

let covered = 0;

test.each(STORAGE_SCRIPTS)('$name', { timeout: 300_000 }, async (script) => {
  const operations = await operationsOf(script);
  const faults = [...operations].flatMap(([at, operation]) =>
    FAULTS.filter(({ code, once, short = false }) => {
      if (!once && LOOKS.has(operation)) return false;
      return canFail(operation, code) && (!short || operation === 'write');
    }).map((fault) => ({
      ...fault,
      at,
    })),
  );
  await inParallel(sampleOf(faults), AT_A_TIME, async (fault) => {
    if (await runWithFault(script, fault)) covered += 1;
  });
});

test('the enumeration has not shrunk', () => {
  console.log(`${covered} faults came to pass`);
  expect(covered).toBeGreaterThan(1200 * CRASH_SHARE);
});
