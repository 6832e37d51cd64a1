import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { Random } from '../../support/random.js';
import { CRASH_SHARE, CRASH_SEED as SEED, sampleOf } from '../../support/simulator/crash-sample.js';
import type { FileMapHarm } from '../../support/simulator/file-map-image.js';
import { SCRIPTS, type Script, some } from '../../support/simulator/scripts.js';
import { canFail, type Fault, type Operation } from '../../support/simulator/simulated-disk.js';
import type { CrashMode } from '../../support/simulator/simulated-file.js';
import { type HostState, SimulatedHost } from '../../support/simulator/simulated-host.js';

/**
 * Each operation of small histories fails, once or it and all later ones: nothing
 * that was acknowledged is harmed, what was refused is not there, and once the disk
 * is well again work goes on by itself. Then the process restarts, and it crashes,
 * at the end and at several points behind the fault. Once the disk has taken anything
 * again, what was refused stays away, whatever happens then.
 */

const AT_A_TIME = 40;
/** Points behind a fault at which a crash is tried. */
const CRASHES_BEHIND_FAULT = 2;

const FAULTS: readonly Omit<Fault, 'at'>[] = [
  { code: 'EIO', once: true },
  { code: 'EIO', once: false },
  { code: 'ENOSPC', once: true, short: true },
  { code: 'ENOSPC', once: false },
  { code: 'EMFILE', once: true },
  { code: 'EMFILE', once: false },
];
const CRASHES: readonly (readonly [CrashMode, FileMapHarm])[] = [
  ['kept', 'kept'],
  ['lost', 'stale'],
  ['subset', 'kept'],
];

/** Their failing for good is that of what follows them. */
const LOOKS: ReadonlySet<Operation> = new Set(['exists', 'stat', 'read', 'list', 'open']);

/** Operations of an undisturbed run, by their numbers; those of the start for one script only. */
async function operationsOf(script: Script): Promise<Map<number, Operation>> {
  const host = new SimulatedHost(script.options ?? {}, new Random(SEED));
  const found = new Map<number, Operation>();
  host.onPoint = (what) => {
    const [when, operation, , of] = what.split(' ');
    if (when === 'before' && of !== 'a') found.set(host.disk.operations, operation as Operation);
  };
  try {
    await host.start();
    if (script !== SCRIPTS[0]) found.clear();
    await script.run(host);
    await host.close();
  } finally {
    await host.dispose();
  }
  return found;
}

/** False if the fault did not come to pass. */
async function runWithFault(script: Script, fault: Fault): Promise<boolean> {
  const host = new SimulatedHost(script.options ?? {}, new Random(SEED));
  host.isTolerant = true;
  host.disk.fail(fault);
  const crashes: HostState[] = [];
  let step = 'the script';
  host.onPoint = () => {
    const { length } = host.disk.failures;
    if (fault.once && length > 0 && crashes.length < CRASHES_BEHIND_FAULT)
      crashes.push(host.state());
  };
  try {
    await tolerant(host, () => host.start());
    if (host.isRunning) await tolerant(host, () => script.run(host));
    const failed = [...host.disk.failures];
    if (failed.length === 0) return false;
    step = 'the look at a failing disk';
    if (host.isRunning) await host.check(host.disk.isFailing ? 'may fail' : 'must work');
    crashes.push(host.state());
    host.disk.heal();
    host.onPoint = () => undefined;
    host.isTolerant = false;
    const isFinal = host.isRunning;
    let later: HostState | undefined;
    if (host.isRunning) {
      step = 'going on';
      await host.put(some(host, 1));
      await host.flush();
      await host.check();
      later = host.state();
      step = 'closing';
      await host.close();
      expect(host.disk.openFiles, 'open files').toBe(0);
    }
    step = 'the restart';
    await host.start();
    const tookBack = !failed.some((what) => what.startsWith('truncate'));
    host.ledger.settle(host.staging, isFinal ? 'undeleted' : tookBack ? 'none' : 'refused');
    await host.check();
    await host.flush();
    await host.check();
    for (const [index, state] of crashes.entries()) {
      step = `the crash ${index} of ${crashes.length}`;
      await recover(script, state, CRASHES[index % CRASHES.length]!, 'all');
    }
    step = 'a power failure when the disk is well again';
    if (later) await recover(script, later, CRASHES[fault.at % CRASHES.length]!, 'unanswered');
    return true;
  } catch (error) {
    const { code, once, at } = fault;
    const what = `${code} ${once ? 'once' : 'for good'} at operation ${at}`;
    const where = `${script.name}; ${what} (${host.disk.failures[0]}); seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
  }
}

/** On a failing disk the work may come to an end, but only for that reason. */
async function tolerant(host: SimulatedHost, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (host.disk.failures.length === 0) throw error;
  }
}

async function recover(
  script: Script,
  state: HostState,
  [mode, harm]: readonly [CrashMode, FileMapHarm],
  open: 'all' | 'unanswered',
): Promise<void> {
  const host = SimulatedHost.after(state, script.options ?? {}, mode, harm, new Random(SEED));
  try {
    await host.start();
    host.ledger.settle(host.staging, open);
    await host.check();
    await host.flush();
    await host.check();
  } catch (error) {
    throw new Error(`${mode}, FileMap ${harm}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
  }
}

let count = 0;
let covered = 0;

test.each(SCRIPTS)('$name', { timeout: 300_000 }, async (script) => {
  const operations = await operationsOf(script);
  const faults = [...operations].flatMap(([at, operation]) =>
    FAULTS.filter(({ code, once }) => {
      return canFail(operation, code) && (once || !LOOKS.has(operation));
    }).map((fault) => ({ ...fault, at })),
  );
  count += faults.length;
  await inParallel(sampleOf(faults), AT_A_TIME, async (fault) => {
    if (await runWithFault(script, fault)) covered += 1;
  });
});

test('the enumeration has not shrunk', () => {
  console.log(`${covered} of ${count} faults came to pass`);
  expect(covered).toBeGreaterThan(1500 * CRASH_SHARE);
});
