import { expect } from 'vitest';
import { Random } from '../random.js';
import { canFail, type Fault, type Operation } from './disk.js';
import { inParallel } from './parallel.js';
import { CRASH_SEED as SEED, sampleOf } from './sample.js';
import type { AnyScript, AnySubject, Crash, Host, Undecided } from './subject.js';

/**
 * Each operation of small histories fails, once or it and all later ones: nothing that was
 * acknowledged is harmed, what was refused is not there, and once the disk is well again work goes
 * on by itself. Then the process restarts, and it crashes, at the end and at several points behind
 * the fault. Once the disk has taken anything again, what was refused stays away, whatever happens
 * then.
 */

/** Their failing for good is that of what follows them. */
const LOOKS: ReadonlySet<Operation> = new Set([
  'exists',
  'stat',
  'read',
  'list',
  'open',
  'readLink',
]);

export interface FaultCounts {
  readonly faults: number;
  /** Of those that were tried. */
  readonly happened: number;
}

/** Tries a share of the faults; gives how many there are. */
export async function tryFaults(
  subject: AnySubject,
  script: AnyScript,
  share: number,
): Promise<FaultCounts> {
  const operations = await operationsOf(subject, script);
  const faults = [...operations].flatMap(([at, operation]) =>
    subject.faults
      .filter(({ code, once, short = false }) => {
        if (!once && LOOKS.has(operation)) return false;
        return canFail(operation, code) && (!short || operation === 'write');
      })
      .map((fault) => ({ ...fault, at })),
  );
  let happened = 0;
  await inParallel(sampleOf(faults, share), subject.atATime, async (fault) => {
    if (await runWithFault(subject, script, fault)) happened += 1;
  });
  return { faults: faults.length, happened };
}

/** Operations of an undisturbed run, by their numbers; those of the start for one script only. */
async function operationsOf(
  subject: AnySubject,
  script: AnyScript,
): Promise<Map<number, Operation>> {
  const host: Host = subject.host(script.options, new Random(SEED));
  const found = new Map<number, Operation>();
  host.onPoint = (what) => {
    const [when, operation, ...of] = what.split(' ');
    const isOfDisk = of[0]?.startsWith('/') || of[0] === '';
    if (when === 'before' && isOfDisk) found.set(host.disk.operations, operation as Operation);
  };
  try {
    await host.start();
    if (script !== subject.scripts[0]) found.clear();
    await script.run(host);
    await host.close();
  } finally {
    await host.dispose();
  }
  return found;
}

/** False if the fault did not come to pass. */
async function runWithFault(
  subject: AnySubject,
  script: AnyScript,
  fault: Fault,
): Promise<boolean> {
  const host: Host = subject.host(script.options, new Random(SEED));
  host.isTolerant = true;
  host.disk.fail(fault);
  const crashes: unknown[] = [];
  let step = 'the script';
  host.onPoint = () => {
    const isBehind = fault.once && host.disk.failures.length > 0;
    if (isBehind && crashes.length < subject.crashesBehindFault) crashes.push(subject.state(host));
  };
  try {
    await tolerant(host, () => host.start());
    if (host.isRunning) await tolerant(host, () => script.run(host));
    const failed = [...host.disk.failures];
    if (failed.length === 0) return false;
    step = 'the look at a failing disk';
    if (host.isRunning) await host.check(host.disk.isFailing ? 'may fail' : 'must work');
    crashes.push(subject.state(host));
    host.disk.heal();
    host.onPoint = () => undefined;
    host.isTolerant = false;
    const isSurvived = host.isRunning;
    let later: unknown;
    if (isSurvived) {
      step = 'going on';
      await host.goOn();
      later = subject.state(host);
      step = 'closing';
      await host.close();
    }
    expect(host.disk.openFiles, 'open files').toBe(0);
    step = 'the restart';
    await host.start();
    const tookBack = !failed.some((what) => what.startsWith('truncate'));
    await host.started(isSurvived ? 'undeleted' : tookBack ? 'none' : 'refused');
    await host.goOn();
    const { crashesAfterFaults } = subject;
    const crashOf = (index: number) => crashesAfterFaults[index % crashesAfterFaults.length]!;
    for (const [index, state] of crashes.entries()) {
      step = `the crash ${index} of ${crashes.length}`;
      await recover(subject, script, state, crashOf(index), 'all');
    }
    step = 'a power failure when the disk is well again';
    if (later) await recover(subject, script, later, crashOf(fault.at), 'unanswered');
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
async function tolerant(host: Host, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (host.disk.failures.length === 0 || !host.isExcused(error)) throw error;
  }
}

async function recover(
  subject: AnySubject,
  script: AnyScript,
  state: unknown,
  crash: Crash,
  undecided: Undecided,
): Promise<void> {
  const host: Host = subject.after(state, script.options, crash, new Random(SEED));
  try {
    await host.start();
    await host.started(undecided, crash);
    await host.goOn();
  } catch (error) {
    throw new Error(`${JSON.stringify(crash)}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
  }
}
